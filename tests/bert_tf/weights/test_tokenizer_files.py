"""Tokenizer files of Hugging Face: every setting is followed, or refused by name.

The reference is the tokenizers library, which transformers runs.
"""

import collections
import copy
import functools
import json

import pytest
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.common.errors import InputError
from pipelines.tokenizers import byte_bpe_words, registry
from pipelines.tokenizers.bpe_vocabulary import (
    BYTE_LETTERS,
    END_OF_TEXT,
    BPEVocabulary,
    ByteBPEVocabulary,
)
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import ALBERT
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS
from tests.tokenizers import (
    FAIRSEQ,
    fairseq_model,
    framed_as_in_bert,
    library_byte_bpe,
    library_fairseq,
    library_gemma,
    library_modernbert,
    library_mpnet,
    library_wordpiece,
)

# White space, case, accents, scripts, signs, digits, contractions, control characters, long words.
TEXTS = [
    "", " ", "hello", "Hello, World!", "  two  spaces\tand\nlines ", "DÉJÀ vu e\u0301te\u0301 Ñandú",
    "日本語テキスト 한국어 中文", "don't I'LL we'Ve it's", "12 345678 9.5 3rd", "a\u200bb \u0007bell \ufffd x",
    "a\u00a0b\u3000c", "world" * 8, "x" * 99 + " " + "x" * 100 + " " + "x" * 101, "h" * 150, "ǅ ﬁ ½ ①",
    "x|||IP_ADDRESS|||y   [unused0]z [unused1", "#tag @you a_b c-d (e) [f]", "@@hello ##world", "helloworld hello-world", "\U0001f600 \U0001f44d\U0001f3fd",
]  # fmt: skip
PAIRS = [("hello", "world"), ("", "hello"), ("Hello world", "")]
WORDS = ["hello", "world", "deja", "vu", "Hello", "WORLD", "tag", "two", "spaces"]


def _pieces():
    letters = [*"abcdefghijklmnopqrstuvwxyzHW0123456789.,!'#@日本語éÀ\u0301"]
    pieces = [*letters, *(f"##{c}" for c in letters), "hello", "##world", "@@world", "\u0007bell"]
    return [*SPECIAL_TOKENS, "[unused0]", *pieces]


def _roberta():
    words = byte_bpe_words.split_words([" ".join(WORDS)] * 9).numpy().tolist()
    learned = ByteBPEVocabulary.learn(collections.Counter(words), 280)
    return library_byte_bpe(learned)


def _gpt2():
    vocabulary = ByteBPEVocabulary((*BYTE_LETTERS, "he", END_OF_TEXT), (("h", "e"),))
    return library_byte_bpe(vocabulary)


def _gpt():
    learned = BPEVocabulary.learn(
        collections.Counter({word.lower().encode(): 9 for word in WORDS}), 90
    )
    ids = {token: index for index, token in enumerate(learned.tokens)}
    made = tokenizers.Tokenizer(
        models.BPE(ids, list(learned.merges), unk_token="<unk>", end_of_word_suffix="</w>")
    )
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder("</w>")
    return made


@functools.cache
def _albert_pieces():
    counts = {word.lower().encode(): 9 for word in [*WORDS, "and", "lines", "don't", "3rd"]}
    return SentencePieceVocabulary.learn(collections.Counter(counts), 60)


def _albert():
    pieces = _albert_pieces()
    proto = sentencepiece_model_pb2.ModelProto.FromString(pieces.model)
    made = tokenizers.Tokenizer(
        models.Unigram([(piece.piece, piece.score) for piece in proto.pieces], unk_id=1)
    )
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    made.post_processor = framed_as_in_bert(made)
    made.add_special_tokens(list(ALBERT.roles.values()))
    return made


KINDS = {
    "wordpiece": ("wordpiece", lambda: library_wordpiece(_pieces())),
    "mpnet": ("wordpiece", lambda: library_mpnet(["<s>", "<pad>", "</s>", *_pieces(), "<mask>"])),
    "roberta": ("byte_bpe", _roberta),
    "gpt2": ("byte_bpe", _gpt2),
    "modernbert": ("byte_bpe", lambda: library_modernbert(spaces=3)),
    "gemma": ("byte_bpe", library_gemma),  # the kind that is read unless files show another one
    "mmbert": ("byte_bpe", lambda: library_gemma(words=True)),
    "gpt": ("bpe", _gpt),
    "albert": ("sentencepiece", _albert),
    "xlm-r": ("sentencepiece", lambda: library_fairseq(_fairseq())),
    "bge": ("sentencepiece", lambda: library_fairseq(_fairseq(), splits=False)),
    "camembert": (
        "sentencepiece",
        lambda: library_fairseq(_fairseq(), FAIRSEQ["CamembertTokenizer"]),
    ),
}
_fairseq = functools.cache(fairseq_model)
# What must be followed, not only refused: the last keys of changes, and the new values.
FOLLOWED = {
    "wordpiece": {
        ("clean_text", False), ("lowercase", False), ("strip_accents", True),
        ("strip_accents", False), ("max_input_chars_per_word", 7), ("post_processor", "BertProcessing"),
    },
    "roberta": {("add_prefix_space", True), ("post_processor", "ByteLevel")},
    "gpt2": {("add_prefix_space", True), ("post_processor", None), ("normalizer", "NFC")},
    "modernbert": {
        ("add_prefix_space", True), ("normalizer", None), ("post_processor", None), ("special", True),
        ("special", False), ("normalized", True),
    },
    "gemma": {("pre_tokenizer", None), ("normalized", True), ("special", True)},
    "mmbert": {("pre_tokenizer", None), ("special", True)},
    "gpt": {("lowercase", False), ("strip_accents", False)},
    "mpnet": {("clean_text", False), ("strip_accents", True), ("max_input_chars_per_word", 7)},
    "xlm-r": {("normalizer", "single spaces")},
    "bge": set(),
    "camembert": set(),
    "albert": {
        ("normalizer", "not lower-cased"), ("normalizer", "with accents"), ("normalizer", "single spaces"),
    },
}  # fmt: skip


def _others(value):
    """Other values of a leaf."""
    if isinstance(value, bool):
        return [not value, None, "x"]
    if value is None:
        return [True, False, "x", 0.5]
    if isinstance(value, str):
        return ["", "x", "@@", None]
    if isinstance(value, int | float):
        return [0, 7, value + 1, 10**9, "7"]
    return []


def _changes(value, path=()):
    """Paths in a JSON value with another value for each; `_changes` itself: the key is removed."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("vocab", "merges", "precompiled_charsmap"):
                continue
            yield (*path, key), _changes
            yield from _changes(item, (*path, key))
        yield (*path, "an_unknown_key"), True
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index), _changes
            yield from _changes(item, (*path, index))
    else:
        yield from ((path, other) for other in _others(value))


_COMPONENTS = {
    "normalizer": [None, "BertNormalizer", [], {"type": "Lowercase"}, {"type": "NFC"}, {"type": "Sequence", "normalizers": []},
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": "l"}, "content": "r"}, {"type": "Strip", "strip_left": True, "strip_right": True}],
    "pre_tokenizer": [None, "Whitespace", {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True},
        {"type": "Split", "pattern": {"Regex": r"\d"}, "behavior": "Isolated", "invert": False}, {"type": "Sequence", "pretokenizers": []}, {"type": "Punctuation", "behavior": "Isolated"}],
    "post_processor": [None, "x", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}],
    "truncation": [{"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}],
}  # fmt: skip


def _changed(values, path, new):
    values = copy.deepcopy(values)
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    if new is _changes:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return values


def _variants(name, values):
    """A label, and the tokenizer.json that has something changed."""
    for path, new in _changes(values):
        yield (path[-1], "removed" if new is _changes else new), path, _changed(values, path, new)
    for key, components in _COMPONENTS.items():
        for new in components:
            yield (
                (
                    key,
                    new["type"]
                    if isinstance(new, dict) and "type" in new
                    else str(new)
                    if new is not None
                    else None,
                ),
                (key,),
                values | {key: new},
            )
    if name == "wordpiece":
        pairs = {"sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
        roberta = {"type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False}
        for new in ({"type": "BertProcessing", **pairs}, {**roberta, **pairs}):
            yield (
                ("post_processor", new["type"]),
                ("post_processor",),
                values | {"post_processor": new},
            )
    if name == "albert":
        steps = values["normalizer"]["normalizers"]
        for label, left_out in {
            "not lower-cased": {"Lowercase"},
            "with accents": {"NFKD", "StripAccents"},
        }.items():
            kept = [step for step in steps if step["type"] not in left_out]
            new = {"type": "Sequence", "normalizers": kept}
            yield ("normalizer", label), ("normalizer",), values | {"normalizer": new}
    if name in ("albert", "xlm-r"):
        steps = values["normalizer"].get("normalizers", [values["normalizer"]])
        spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
        # Newer versions of transformers end with this step.
        new = {"type": "Sequence", "normalizers": [*steps, spaces]}
        yield ("normalizer", "single spaces"), ("normalizer",), values | {"normalizer": new}


def _ours(kind, tokenizer):
    """The ids, and token types if the tokenizer has any, of texts and pairs."""
    if kind == "bpe":  # its special tokens are those of fine-tuning
        return tokenizer.tokenize(TEXTS).to_list()
    found = []
    for inputs in (tokenizer(TEXTS), tokenizer(*map(list, zip(*PAIRS, strict=True)))):
        counts = inputs["input_mask"].numpy().sum(1)
        ids, types = (
            [row[:count].tolist() for row, count in zip(inputs[name].numpy(), counts, strict=True)]
            for name in ("input_word_ids", "input_type_ids")
        )
        found += ids if kind == "byte_bpe" else zip(ids, types, strict=True)
    return found if tokenizer.framed else found[: len(TEXTS)]


def _theirs(kind, library):
    library.no_truncation()  # as in transformers, which sets both in each call
    library.no_padding()
    found = library.encode_batch([*TEXTS, *PAIRS], add_special_tokens=kind != "bpe")
    if kind == "bpe":
        return [each.ids for each in found[: len(TEXTS)]]
    if kind != "byte_bpe":
        return [(each.ids, each.type_ids) for each in found]
    if found[0].ids:
        return [each.ids for each in found]
    # Without special tokens, an empty sequence is the end token here, and pairs are ours alone.
    ends = map(library.token_to_id, ("</s>", "[SEP]", END_OF_TEXT))
    end = next(index for index in ends if index is not None)
    return [each.ids or [end] for each in found[: len(TEXTS)]]


def _library(values):
    """The tokenizer of a tokenizer.json; None if the library refuses it."""
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(values))
    except Exception:  # it raises no other type
        return None


@pytest.mark.more_cases
@pytest.mark.parametrize("name", KINDS)
def test_every_setting_of_tokenizer_json_is_followed_or_refused(name, tmp_path, caplog):
    kind, make = KINDS[name]
    library = make()
    values, size = json.loads(library.to_str()), library.get_vocab_size()
    if name == "albert":
        _albert_pieces().save(str(tmp_path))
    made, followed, refused = {}, set(), 0
    for label, path, changed in [("unchanged", (), values), *_variants(name, values)]:
        caplog.clear()
        (tmp_path / "tokenizer.json").write_text(json.dumps(changed))
        try:
            vocabulary, settings = folders.read(kind, str(tmp_path), BertConfig(vocab_size=size))
        except InputError as error:
            refused += 1
            assert f"{tmp_path}" in str(error)
            # The kind of model, and ids with gaps, are named in other words.
            named = path[0] in ("model", "added_tokens")
            assert named or any(str(key) in str(error) for key in path), (path, error)
            continue
        library = _library(changed)
        if library is None:
            continue
        key = (vocabulary.sha256, *sorted((settings or {}).items()))
        if key not in made:
            made[key] = _ours(kind, registry.make(vocabulary, settings))
        warned = path[:1] == ("added_tokens",) and "added tokens" in caplog.text
        assert made[key] == _theirs(kind, library) or warned, (path, label, settings)
        followed.add(label)
    assert followed >= FOLLOWED[name] | {"unchanged"}, FOLLOWED[name] - followed
    assert refused > 20


def _written(config, vocabulary, settings, folder):
    """The folder of a model with a tokenizer, as far as tokenizers are concerned."""
    folder.mkdir()
    folders.write(Bundle(config, {}, vocabulary, settings, (), "a model"), str(folder))
    (folder / "config.json").write_text(json.dumps({"model_type": config.model_type}))
    return json.loads((folder / "tokenizer_config.json").read_text())


def test_gpt2_with_tokens_of_roberta_keeps_them(tmp_path):
    """As in Korean and Japanese GPT-2s: no token stands before a text, and </s> ends it."""
    words = byte_bpe_words.split_words([" ".join(WORDS)] * 9).numpy().tolist()
    learned = ByteBPEVocabulary.learn(collections.Counter(words), 280)
    config = BertConfig.named("gpt2-debug", vocab_size=280)
    settings = {"kind": "byte_bpe", "add_prefix_space": False, "framed": False}
    stated = _written(config, learned, settings, tmp_path / "a")
    assert stated["tokenizer_class"] == "GPT2Tokenizer"
    assert (stated["bos_token"], stated["eos_token"]) == ("<s>", "</s>")
    for name in ("tokenizer_class", "unchanged"):  # the model's type says it, too
        stated.pop(name, None)
        (tmp_path / "a/tokenizer_config.json").write_text(json.dumps(stated))
        vocabulary, found = folders.read("byte_bpe", str(tmp_path / "a"), config)
        assert (vocabulary, vocabulary.resolve(found)) == (learned, settings)
    tokenizer = registry.make(learned, settings)
    ids = library_byte_bpe(learned).encode("hello", add_special_tokens=False).ids
    assert tokenizer(["hello"])["input_word_ids"].numpy().tolist() == [ids]
    assert not tokenizer.starts_text
    with pytest.raises(InputError, match="eos_token '<end>' is not supported; </s> is"):
        (tmp_path / "a/tokenizer_config.json").write_text('{"eos_token": "<end>"}')
        folders.read("byte_bpe", str(tmp_path / "a"), config)


def test_repeated_and_empty_lines_of_a_vocabulary_keep_their_ids(tmp_path, caplog):
    """As in transformers, the last of equal tokens counts."""
    lines = [*SPECIAL_TOKENS, "hello", "", "world", "hello", "", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    vocabulary, settings = folders.read("wordpiece", str(tmp_path), BertConfig(vocab_size=11))
    assert "empty or repeated" in caplog.text and "'hello' on line 6, '' on line 7" in caplog.text
    assert len(vocabulary) == 11
    tokenizer = registry.make(vocabulary, settings)
    assert tokenizer.tokenize(["hello worlds hello"]).to_list() == [[8, 7, 10, 8]]
    vocabulary.save(str(tmp_path / "again"))
    assert registry.load(str(tmp_path / "again")) == vocabulary
    ids = {token: number for number, token in enumerate(lines) if token}
    library = library_wordpiece([*ids])
    values = json.loads(library.to_str())
    values["model"]["vocab"] = ids
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert folders.read("wordpiece", str(tmp_path), BertConfig(vocab_size=11))[0] == vocabulary


def test_pieces_of_sentencepiece_in_a_vocab_txt_are_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "▁가", "▁나", "다"]) + "\n")
    with pytest.raises(InputError, match="this tokenizer is not supported: its pieces begin words"):
        folders.read("wordpiece", str(tmp_path), BertConfig(vocab_size=8))


def test_an_mpnet_is_written_as_it_was_read(tmp_path):
    tokens = ["<s>", "<pad>", "</s>", *_pieces(), "<mask>"]
    library_mpnet(tokens).save(str(tmp_path / "tokenizer.json"))
    config = BertConfig.named("debug", vocab_size=len(tokens))
    vocabulary, settings = folders.read("wordpiece", str(tmp_path), config)
    stated = _written(config, vocabulary, settings, tmp_path / "a")
    assert stated["tokenizer_class"] == "MPNetTokenizer" and stated["mask_token"]["lstrip"]
    assert (stated["unk_token"], stated["pad_token"]) == ("[UNK]", "<pad>")
    again, found = folders.read("wordpiece", str(tmp_path / "a"), config)
    assert (again, again.complete(found)) == (vocabulary, vocabulary.complete(settings))
