"""Added tokens in Hugging Face folders: found whole in texts (ModernBERT), refused, or named."""

import dataclasses
import json
import time
import unicodedata

import pytest
import tokenizers

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle, extension
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests.tokenizers import SENTENCES, library_modernbert, library_mpnet, library_wordpiece

from .test_weights import assert_same_weights, make_bundle

TEXTS = [*SENTENCES[:13], "a    b", "x [unused0]y", "e\u0301", "|||IP_ADDRESS|||"]


def _read(folder, library):
    (folder / "tokenizer.json").write_text(library.to_str())
    config = BertConfig(vocab_size=library.get_vocab_size())
    return folders.read("byte_bpe", str(folder), config)


def test_a_modernbert_is_written_as_it_was_read(tmp_path, caplog):
    library = library_modernbert()
    vocabulary, settings = _read(tmp_path, library)
    assert "added tokens" not in caplog.text
    assert vocabulary.added[:2] == ("|||IP_ADDRESS|||", "<|padding|>")
    assert vocabulary.form.model == "ModernBERT"
    config = BertConfig.named("modernbert-debug", vocab_size=len(vocabulary), hidden_size=8,
                              num_attention_heads=2, intermediate_size=8)  # fmt: skip
    made = make_bundle(config, drop=(bundle.NEXT_SENTENCE, bundle.POOLER))
    made = dataclasses.replace(
        made, vocabulary=vocabulary, tokenizer_settings=vocabulary.resolve(settings)
    )
    weights.write(made, f"{tmp_path}/hf", Format.HUGGINGFACE)
    assert not (tmp_path / "hf/vocab.json").exists()
    written = tokenizers.Tokenizer.from_file(f"{tmp_path}/hf/tokenizer.json")
    for found, given in zip(
        *(each.encode_batch(TEXTS) for each in (written, library)), strict=True
    ):
        assert (found.ids, found.offsets) == (given.ids, given.offsets)
    (found,) = (token for token in json.loads(written.to_str())["added_tokens"]
                if token["content"] == "[MASK]")  # fmt: skip
    assert found["lstrip"] and found["special"]
    stated = json.loads((tmp_path / "hf/config.json").read_text())
    assert [stated[f"{name}_token_id"] for name in ("cls", "sep", "pad")] == [
        library.token_to_id(token) for token in ("[CLS]", "[SEP]", "[PAD]")
    ]
    again = weights.read(f"{tmp_path}/hf")
    assert again.vocabulary == vocabulary
    assert again.config == dataclasses.replace(config, head_dropout=0.0)
    assert again.resolved_settings() == made.resolved_settings()
    assert_same_weights(again.weights, made.weights)
    weights.write(again, f"{tmp_path}/ours", Format.BERT_TF)
    ours = weights.read(f"{tmp_path}/ours").tokenizer()
    assert ours.settings == {
        "kind": "byte_bpe", "add_prefix_space": False, "nfc": True, "added_tokens": True,
    }  # fmt: skip
    expected = [each.ids for each in library.encode_batch(TEXTS, add_special_tokens=False)]
    assert ours.tokenize(TEXTS).to_list() == expected
    assert ours.decode(expected[:4]) == TEXTS[:4]


@pytest.mark.parametrize("key", ["lstrip", "rstrip", "single_word"])
def test_an_added_token_with_another_setting_is_refused(key, tmp_path):
    library = library_modernbert()
    library.add_tokens([tokenizers.AddedToken("[unused9]", **{key: True})])
    with pytest.raises(InputError, match=rf"added token '\[unused9\]' with {key} True is not"):
        _read(tmp_path, library)


def test_an_added_token_that_merges_make_is_named(tmp_path, caplog):
    library = library_modernbert()
    merges = json.loads(library.to_str())["model"]["merges"]
    word = next(left + right for left, right in merges if (left + right).isascii())
    library.add_tokens([word])
    vocabulary, settings = _read(tmp_path, library)
    assert "added tokens (" in caplog.text and word in caplog.text
    assert not settings.get("added_tokens") and registry.make(vocabulary, settings)


def _wordpiece(folder, content, vocab_size):
    """Reads a folder whose tokenizer_config.json has an added token."""
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "[unused0]", "a"]) + "\n")
    added = {"5": {"content": "[unused0]"}, "0": {"content": "[PAD]"}, "7": {"content": content}}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return folders.read("wordpiece", str(folder), BertConfig(vocab_size=vocab_size))


def test_added_tokens_of_wordpiece_are_found_whole(tmp_path, caplog):
    vocabulary, settings = _wordpiece(tmp_path, "<e1>", 8)
    assert settings["kept_tokens"] == "[unused0] <e1>" and not caplog.text
    assert registry.make(vocabulary, settings).tokenize(["a<E1>[unused0]"]).to_list() == [[6, 7, 5]]


def test_added_tokens_that_are_not_found_are_named(tmp_path, caplog):
    vocabulary, settings = _wordpiece(tmp_path, "two words", 8)
    assert settings["kept_tokens"] == "[unused0]" and len(vocabulary) == 8
    assert "added tokens (two words) in a text are tokenized like other words" in caplog.text


@pytest.mark.parametrize(
    "stated",
    [
        {"additional_special_tokens": ["<e1>", "<e2>"]},
        {"extra_special_tokens": [{"content": "<e1>"}, "<e2>"]},
        {"extra_special_tokens": {"first": "<e1>", "second": "<e2>"}},
        {"model_specific_special_tokens": {"first": {"content": "<e1>"}, "second": "<e2>"}},
    ],
)
@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_special_tokens_without_ids_are_added_tokens(tmp_path, caplog, name, stated):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "<e1>", "a"]) + "\n")
    (tmp_path / name).write_text(json.dumps(stated))
    vocabulary, settings = folders.read("wordpiece", str(tmp_path), BertConfig(vocab_size=7))
    assert registry.make(vocabulary, settings).tokenize(["a<e1>a"]).to_list() == [[6, 5, 6]]
    assert "added tokens (<e2>) in a text are tokenized like other words" in caplog.text


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"additional_special_tokens": [7]}, "additional_special_tokens: at .*expected"),
        (
            {"added_tokens_decoder": {"-1": {"content": "x"}}},
            "added_tokens_decoder has the key '-1'",
        ),
    ],
)
def test_what_is_not_an_added_token_is_named(tmp_path, stated, message):
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL_TOKENS) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    with pytest.raises(InputError, match=rf"tokenizer_config\.json: {message}"):
        folders.read("wordpiece", str(tmp_path), BertConfig(vocab_size=5))


@pytest.mark.parametrize("content", ["\u200d", "\ufe0f\u0301", "\ufffd"])
def test_added_tokens_that_normalization_removes_are_named(tmp_path, caplog, content):
    vocabulary, settings = _wordpiece(tmp_path, content, 8)
    assert settings["kept_tokens"] == "[unused0]" and "added tokens (" in caplog.text
    assert registry.make(vocabulary, settings).tokenize([f"a{content}a a"]).row_lengths() == [2]


def test_the_second_unknown_token_of_an_mpnet_is_not_kept(tmp_path):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *SPECIAL_TOKENS, "a", "<e1>", "<mask>"]
    library = library_mpnet(tokens)
    library.add_special_tokens(["<unk>", "<e1>"])
    (tmp_path / "tokenizer.json").write_text(library.to_str())
    config = BertConfig(vocab_size=len(tokens))
    kept = folders.read("wordpiece", str(tmp_path), config)[1]["kept_tokens"].split()
    assert "<e1>" in kept and "<unk>" not in kept


def test_kept_tokens_of_whole_syllables_change_nothing_else():
    """KR-BERT's vocabulary has no whole syllables, which is why texts are decomposed."""
    parts = unicodedata.normalize("NFKD", "한국")
    others = [f"[unused{n}]" for n in range(len(make_bundle().vocabulary) - 7)]
    tokens = (*SPECIAL_TOKENS, parts, f"##{parts}", *others)
    model = dataclasses.replace(
        make_bundle(),
        vocabulary=WordPieceVocabulary(tokens),
        tokenizer_settings={"lower_case": False},
    )
    kept = extension.with_kept_tokens(model, ["[인물]"])
    ids = kept.tokenizer().tokenize(["한국[인물]"]).to_list()
    assert ids == [[len(SPECIAL_TOKENS), len(tokens)]]
    words, added = extension.with_words(model, ["한국한국"])
    assert added == [parts * 2]
    assert words.tokenizer().tokenize(["한국한국"]).to_list() == [[len(tokens)]]


def test_kept_tokens_are_spelled_as_they_are_found():
    model = extension.with_kept_tokens(make_bundle(), ["@USER", "@user"])
    assert model.vocabulary.tokens[-1] == "@user" and not model.vocabulary.is_cased
    assert model.resolved_settings()["kept_tokens"] == "@user"


def test_kept_tokens_are_written_and_read(tmp_path):
    model = make_bundle()
    others = [f"[unused{n}]" for n in range(len(model.vocabulary) - 8)]
    tokens = (*SPECIAL_TOKENS, "a", "<", "##b", *others)
    model = dataclasses.replace(model, vocabulary=WordPieceVocabulary(tokens))
    model = extension.with_kept_tokens(model, ["<e1>", "[E2]", "a"])
    assert model.vocabulary.tokens == (*tokens, "<e1>", "[e2]")
    texts = ["ab<e1>[E2]", "<E1>a", "<", "ab"]
    ids, first = model.tokenizer().tokenize(texts).to_list(), len(tokens)
    assert len(model.weights["encoder/embeddings/word_embeddings"]) == first + 2
    assert ids == [[5, 1, first, first + 1], [first, 5], [6], [5, 1]]  # "b" alone is unknown
    for form in (Format.BERT_TF, Format.HUGGINGFACE):
        folder = f"{tmp_path}/{form}"
        weights.write(model, folder, form)
        again = weights.read(folder)
        assert again.resolved_settings() == model.resolved_settings()
        assert again.tokenizer().tokenize(texts).to_list() == ids
    library = tokenizers.Tokenizer.from_file(f"{tmp_path}/{Format.HUGGINGFACE}/tokenizer.json")
    found = library.encode_batch(texts, add_special_tokens=False)
    assert [each.ids for each in found] == ids


def test_a_kept_token_of_which_nothing_remains_is_refused():
    vocabulary = WordPieceVocabulary((*SPECIAL_TOKENS, "a", "\ufffd"))
    with pytest.raises(
        InputError, match="kept tokens '\ufffd' have no character that the tokenize"
    ):
        registry.make(vocabulary, {"kept_tokens": "\ufffd"})


@pytest.mark.parametrize("token", ["two words", "[MASK]", "", "\u0001"])
def test_what_cannot_be_kept_is_reported(token):
    with pytest.raises(InputError, match="cannot be a token; name words without white space"):
        extension.with_kept_tokens(make_bundle(), [token])


def test_very_many_added_tokens_take_seconds(tmp_path):
    library = library_wordpiece([*SPECIAL_TOKENS, "a"])
    values = json.loads(library.to_str())
    values["added_tokens"] += [{"id": 6 + n, "content": f"<{n}>"} for n in range(200_000)]
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    start = time.process_time()
    vocabulary, _ = folders.read("wordpiece", str(tmp_path), BertConfig(vocab_size=6))
    assert len(vocabulary) == 6
    assert time.process_time() - start < 8
