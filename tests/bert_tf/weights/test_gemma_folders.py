"""Tokenizers of Gemma's form in Hugging Face folders, against the library's."""

import dataclasses
import functools
import json
import random
import sys

import numpy as np
import pytest
import tensorflow as tf
import tokenizers

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from tests.real_data import data_of
from tests.tokenizers import SENTENCES, library_gemma

from .test_sentencepiece_folders import check_answers_are_parts
from .test_weights import assert_same_weights, make_bundle

CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "cls_token": "<bos>",
    "sep_token": "<eos>",
    "add_eos_token": False,
}
TEXTS = [
    *SENTENCES[:13], "", " ", "  two  spaces\tand\nlines ", "<table>x</s><s>\n\n", "\0a\0\t\t", "<<table>>",
    "a\u00a0b\u3000c\u2028d", "½ ﬁne ① ㎏ ﷺ", "日本語 한국어中文", "\U0001f600 \U0001f468\u200d\U0001f469 x",
    *("x" + " " * n + "y" for n in range(1, 60)), *("\n" * n + "x" for n in range(1, 40)),
]  # fmt: skip
_library = functools.cache(library_gemma)


def write_folder(folder, values=None, words=False):
    folder.mkdir(exist_ok=True)
    values = values or json.loads(_library(words=words).to_str())
    (folder / "tokenizer.json").write_text(json.dumps(values))
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG))


def read(folder, vocab_size=0):
    config = BertConfig(vocab_size=vocab_size or _library().get_vocab_size())
    return folders.read("byte_bpe", str(folder), config)


def expected(library, text):
    """The library's ids, and its offsets in bytes, without the spaces before something visible."""
    found = library.encode(text, add_special_tokens=False)
    places = []
    for start, end in found.offsets:
        visible = text[start:end].lstrip(" ") or text[start:end]
        places.append((end - len(visible), end))
    return found.ids, *([len(text[: p[i]].encode()) for p in places] for i in (0, 1))


def differences(tokenizer, library, texts):
    """The texts of which an id or an offset is not the library's."""
    ids, *places = (each.to_list() for each in tokenizer.tokenize_with_offsets(tf.constant(texts)))
    assert ids == tokenizer.tokenize(tf.constant(texts)).to_list()
    plain = map(tokenizer.plain_ids, texts)
    assert all(found in (None, row) for found, row in zip(plain, ids, strict=True))
    if not tokenizer.vocabulary.cuts_words:
        assert tokenizer.decode(ids) == [text.replace("▁", " ") for text in texts]
    rows = zip(texts, ids, *places, strict=True)
    return [text for text, *found in rows if tuple(found) != expected(library, text)]


@pytest.mark.parametrize("words", [False, True])
def test_ids_and_offsets_are_the_librarys(words, tmp_path, caplog):
    write_folder(tmp_path, words=words)
    library = _library(words=words)
    vocabulary, settings = read(tmp_path)
    assert vocabulary.form.model == "Gemma" and "added tokens" not in caplog.text
    tokenizer = registry.make(vocabulary, settings)
    assert (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.mask_id) == (0, 3, 4)
    assert differences(tokenizer, library, TEXTS) == []
    pairs = tokenizer(["Hello", "déjà  vu"], ["world", "두"])
    theirs = library.encode_batch([("Hello", "world"), ("déjà  vu", "두")])
    rows = zip(pairs["input_word_ids"].numpy().tolist(), theirs, strict=True)
    assert all(row[: len(each.ids)] == each.ids for row, each in rows)
    assert not pairs["input_type_ids"].numpy().any()
    assert tokenizer.decode([library.encode("déjà vu  x").ids]) == ["déjà vu  x"]
    assert tokenizer.begins_word[vocabulary.tokens.index("\n")]
    # Special tokens never come from text; tokens that a text has whole do.
    ids = tokenizer.tokenize(["<mask><eos><table>"]).to_list()[0]
    assert not {1, 4} & set(ids) and vocabulary.tokens[ids[-1]] == "<table>"


@pytest.mark.parametrize("words", [False, True])
def test_words_of_a_list_have_the_space_before_them(words, tmp_path):
    write_folder(tmp_path, words=words)
    library = _library(words=words)
    tokenizer = registry.make(*read(tmp_path))
    given = ["quick", "Größe", "한국어", "(of)"]
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_words_with_offsets(given))
    assert ids == tokenizer.tokenize_words(given).to_list()
    assert ids == [library.encode(f" {word}", add_special_tokens=False).ids for word in given]
    for word, first, last in zip(given, starts, ends, strict=True):
        assert first[0] == 0 and last[-1] == len(word.encode())
    assert tokenizer.tokenize_words(["", "a"]).row_lengths().numpy().tolist()[0] == 0
    by_word = tokenizer.tokenize_by_word(["The quick  日本 Größe"])
    begins = np.array(by_word.begins.to_list()[0])
    places = np.array([by_word.starts.to_list()[0], by_word.ends.to_list()[0]])
    assert places[0, begins].tolist() == [0, 4, 11, 18] and places[1, -1] == 25


def test_another_vocabulary_in_the_folder_is_refused(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(InputError, match=r"has a vocabulary of its own; remove vocab\.json"):
        read(tmp_path)


def test_an_added_token_of_the_older_file_is_checked_too(tmp_path):
    values = json.loads(_library().to_str())
    number = values["model"]["vocab"].pop("[@BOS@]")
    values["added_tokens"] = [t for t in values["added_tokens"] if t["id"] != number]
    write_folder(tmp_path, values)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"New York": number}))
    with pytest.raises(InputError, match="'New York' with content 'New York'"):
        read(tmp_path)


def test_a_mask_that_leaves_the_space_is_reported(tmp_path, caplog):
    values = json.loads(_library().to_str())
    next(each for each in values["added_tokens"] if each["content"] == "<mask>")["lstrip"] = False
    write_folder(tmp_path, values)
    read(tmp_path)
    assert "a <mask> in a text takes the space before it here" in caplog.text


def _renamed(values, token, name):
    values["model"]["vocab"][name] = values["model"]["vocab"].pop(token)
    next(each for each in values["added_tokens"] if each["content"] == token)["content"] = name


def _of_two(values):
    """The place of the first of two merges that make the same piece."""
    made = ["".join(merge) for merge in values["model"]["merges"]]
    return next(i for i, each in enumerate(made) if each == made[i + 1] and each.isalpha())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["model"]["merges"].pop(-1), "lacks the merge"),
        (lambda v: v["model"]["merges"].append(v["model"]["merges"].pop(_of_two(v))), "not follow"),
        (lambda v: v["model"]["merges"].append(["<bos>", "<eos>"]), "lacks '<bos><eos>'"),
        (lambda v: v["model"]["vocab"].update({"?!?!": v["model"]["vocab"].pop("<0xFF>")}),
         "lacks <0xFF>"),
        (lambda v: v["model"]["merges"].append(["<0xEC>", "<0xA1>"]) or
         v["model"]["vocab"].update({"<0xEC><0xA1>": len(v["model"]["vocab"])}), "not merged here"),
        (lambda v: v["added_tokens"][-1].update(normalized=True), "added token '▁▁' with normalized"),
        (lambda v: _renamed(v, "[@BOS@]", "New York"), "'New York' with content 'New York'"),
        (lambda v: v.update(pre_tokenizer={"type": "Metaspace", "replacement": "▁",
         "prepend_scheme": "always", "split": False}), "pre_tokenizer Metaspace with split False"),
        (lambda v: v.update(pre_tokenizer={"type": "Metaspace", "replacement": "▁",
         "prepend_scheme": "first", "split": True}), "Metaspace with prepend_scheme 'first'"),
        (lambda v: v["model"].update(byte_fallback=False), "letters that stand for bytes"),
        (lambda v: v["normalizer"].update(content="_"), "normalizer Replace with content '_'"),
        (lambda v: v["pre_tokenizer"].update(pattern={"String": "▁"}), "pre_tokenizer Split with"),
        (lambda v: v["post_processor"]["single"].pop(), "post_processor TemplateProcessing"),
        (lambda v: v["added_tokens"][-1].update(single_word=True), "single_word True"),
        (lambda v: v["added_tokens"][10].update(rstrip=True), "rstrip True"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_refused(change, message, tmp_path):
    values = json.loads(_library().to_str())
    values["model"]["merges"] = [
        merge if isinstance(merge, list) else merge.split(" ")
        for merge in values["model"]["merges"]
    ]
    change(values)
    write_folder(tmp_path, values)
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def _model(folder, words=False, **changes):
    """A ModernBERT with such a vocabulary."""
    write_folder(folder, words=words)
    vocabulary, _ = read(folder)
    config = BertConfig.named(
        "modernbert-debug", vocab_size=len(vocabulary), hidden_size=16, num_attention_heads=2,
        intermediate_size=8, head_dropout=0.0,
    )  # fmt: skip
    made = make_bundle(config, drop=(bundle.NEXT_SENTENCE, bundle.POOLER), **changes)
    return dataclasses.replace(made, vocabulary=vocabulary)


@pytest.mark.parametrize("words", [False, True])
def test_models_are_written_as_they_were_read(words, tmp_path):
    made, library = _model(tmp_path / "from", words), _library(words=words)
    weights.write(made, f"{tmp_path}/hf", Format.HUGGINGFACE)
    written = tokenizers.Tokenizer.from_file(f"{tmp_path}/hf/tokenizer.json")
    for text in [*TEXTS, "x <mask> <table>"]:
        for pair in ((text,), (text, "Hello")):
            assert written.encode(*pair).ids == library.encode(*pair).ids
    found = weights.read(f"{tmp_path}/hf")
    assert (found.config, found.vocabulary) == (made.config, made.vocabulary)
    assert_same_weights(found.weights, made.weights)
    weights.write(found, f"{tmp_path}/ours", Format.BERT_TF)
    again = weights.read(f"{tmp_path}/ours")
    assert again.vocabulary == made.vocabulary
    assert differences(again.tokenizer(), library, TEXTS) == []


@pytest.mark.more
@pytest.mark.parametrize("words", [False, True])
def test_exports_take_raw_texts(words, tmp_path):
    """The graph, and what runs without it, give the pieces of a text their places in it."""
    made = _model(tmp_path / "from", words, shape="span", units=2, name="qa")
    texts = [*(text.encode() for text in TEXTS), b"a\xffb\nc"]
    check_answers_are_parts(texts, made, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("words", [False, True])
def test_a_vocabulary_of_many_languages_on_every_code_point_and_real_text(words, tmp_path):
    lines = []
    for path in sorted(data_of("corpora/multi_xquad_contexts").glob("*.txt")):
        lines += path.read_text(encoding="utf-8").split("\n")
    indented = ["def f(x):\n\n\tif x:\n\t\treturn        x", "a  b   c    d     e"] * 50
    library = library_gemma(12_000, [*filter(None, lines), *indented], runs=32, words=words)
    write_folder(tmp_path, json.loads(library.to_str()))
    tokenizer = registry.make(*read(tmp_path, library.get_vocab_size()))
    rng = random.Random(0)
    for path in sorted(data_of("corpora").rglob("*.txt")):
        lines += path.read_text(encoding="utf-8").split("\n")
    texts = [line for line in rng.sample(lines, 40_000) if "<unk>" not in line]
    assert differences(tokenizer, library, texts) == []
    points = [chr(c) for c in range(1, sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    for first in range(0, len(points), 50_000):
        rows = [f"ab{c}cd {c}" for c in points[first : first + 50_000]]
        # The library finds "▁" twice, as a character and as a space.
        assert differences(tokenizer, library, [row for row in rows if "▁" not in row]) == []
    alphabet = [*points[:0x3000], *map(chr, range(0x1F300, 0x1F700)), *"  ,,.119 \n\t" * 100]
    alphabet.remove("▁")
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(1, 60))) for _ in range(100_000)]
    assert differences(tokenizer, library, texts) == []
