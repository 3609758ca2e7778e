"""ModernBERT's tokenizer: composition (NFC) and added tokens before byte-level BPE."""

import itertools
import json
import random
import unicodedata

import pytest
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.tokenizers import composition, registry
from tests.pipelines.tokenizers import byte_bpe_reference
from tests.real_data import data_of
from tests.tokenizers import SENTENCES, library_modernbert

DECOMPOSED = [unicodedata.normalize("NFD", text) for text in SENTENCES[:13]]
ADDED = ["  ", "   ", " " * 24, " " * 60, "a" + " " * 30 + "b", "x|||IP_ADDRESS|||y", "[unused1][unused2]",
         "[unused", "[[unused0]]", "||||PHONE_NUMBER||||", "<|endoftext|> a", "a <|padding|>\n", "a  b   c\t  d",
         "it  's", "  \n  ", "|||EMAIL_ADDRESS||||||IP_ADDRESS|||", "e  \u0301", "[unused0]\u0301"]  # fmt: skip
MARKS = ["e\u0301", "\u0301", "a\u0301\u0323", "a\u0323\u0301", "x\u0302y", "각", "\u1112\u1161\u11ab",
         "\u1161", "Å\u212b\u212a", "\u2000\u2001 a", "\ufb1d\u05d9\u05b4", "\u0958", "\u0344", "\u09c7\u09be",
         "e\u0301 e\u0301", " \u0338", "a\u0315\u0300\u05ae\u0300"]  # fmt: skip


def _ours(library, folder):
    (folder / "tokenizer.json").write_text(library.to_str())
    config = BertConfig(vocab_size=library.get_vocab_size())
    return registry.make(*folders.read("byte_bpe", str(folder), config))


@pytest.fixture(scope="module")
def library():
    return library_modernbert()


@pytest.fixture(scope="module")
def tokenizer(library, tmp_path_factory):
    return _ours(library, tmp_path_factory.mktemp("modernbert"))


def _check(tokenizer, library, texts):
    """Compares ids, and the characters of each piece where composition changes nothing.

    The library leaves the space before a word in the place of its piece.
    """
    found = library.encode_batch(texts, add_special_tokens=False)
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets(texts))
    wrong = [ascii(text) for text, ours, theirs in zip(texts, ids, found, strict=True)
             if ours != theirs.ids]  # fmt: skip
    assert not wrong, (len(wrong), wrong[:5])
    flat = tokenizer.tokenize(texts)
    assert flat.flat_values.numpy().tolist() == [*itertools.chain.from_iterable(ids)]
    for text, first, last, theirs in zip(texts, starts, ends, found, strict=True):
        sizes = itertools.accumulate((len(c.encode()) for c in text), initial=0)
        place = {size: index for index, size in enumerate(sizes)}
        is_same = unicodedata.is_normalized("NFC", text)
        for a, b, (c, d) in zip(first, last, theirs.offsets, strict=True):
            start, end = place[a], place[b]  # whole characters
            if not text[start:end].strip(byte_bpe_reference.WHITE):
                continue
            c += text[c] == " "
            assert (start, end) == (c, d) if is_same else start <= c <= d <= end, ascii(text)


def test_ids_and_places_are_those_of_the_library(tokenizer, library):
    every = [*byte_bpe_reference.TRICKY, *SENTENCES[:13], *DECOMPOSED, *ADDED, *MARKS]
    texts = [text for text in every if "<mask>" not in text or "[" not in text]
    _check(tokenizer, library, texts)
    _check(tokenizer, library, random_texts(2000))


def random_texts(count):
    rng = random.Random(5)
    some = [
        *"''stre dm   \n\t.,!1²é한",
        "  ",
        "    ",
        *MARKS,
        *ADDED,
        "\u0301",
        "\u0323",
        "\u0308",
        "u",
        "|",
        "[",
        "]",
    ]
    texts = ["".join(rng.choices(some, k=rng.randint(0, 20))) for _ in range(count)]
    # Only there does it matter that the library looks for "<|endoftext|>" before it composes.
    return [text for text in texts if ">\u0338" not in text] + byte_bpe_reference.random_texts(
        count
    )


def test_special_tokens_in_a_text_are_words(tokenizer):
    """Those that have a role; the library would find them, which any text could then contain."""
    found = tokenizer.tokenize(["a [MASK] b", "[CLS]", "[SEP][PAD] [UNK]"]).flat_values.numpy()
    assert not set(found.tolist()) & set(tokenizer.special_ids)
    assert not tokenizer.typed and tokenizer.vocabulary.form.mask_takes_space
    made = tokenizer(["a"], ["a"])
    tokens = [tokenizer.vocabulary.tokens[i] for i in made["input_word_ids"].numpy()[0]]
    assert tokens == ["[CLS]", "a", "[SEP]", "a", "[SEP]"]
    assert not made["input_type_ids"].numpy().any()


def test_bytes_that_are_not_utf8_are_replaced(tokenizer):
    texts = byte_bpe_reference.random_bytes(300)
    readable = [text.decode(errors="replace") for text in texts]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == tokenizer.tokenize(readable).to_list()
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        assert first == sorted(first) and last == sorted(last)
        assert all(0 <= a <= b <= len(text) for a, b in zip(first, last, strict=True))


@pytest.mark.more
def test_texts_of_a_batch_do_not_affect_each_other_and_graphs_give_the_same(tokenizer, tmp_path):
    texts = tf.constant([*ADDED, *MARKS, "", b"\xff", b"\xcc", " "])
    names = ("tokenize", "tokenize_words", "tokenize_with_offsets", "tokenize_by_word",
             "tokenize_words_with_offsets")  # fmt: skip
    module = tf.Module()
    module.tokenizer = tokenizer
    spec = [tf.TensorSpec([None], tf.string)]
    for name in names:
        setattr(module, name, tf.function(getattr(tokenizer, name), spec, autograph=False))
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))

    def lists(values):
        values = values if isinstance(values, list | tuple) else [values]
        return [value.to_list() for value in values]

    for name in names:
        together = lists(getattr(tokenizer, name)(texts))
        assert lists(getattr(loaded, name)(texts)) == together
        assert lists(getattr(loaded, name)(texts[:0])) == [[]] * len(together)
        alone = [lists(getattr(tokenizer, name)(texts[i : i + 1])) for i in range(len(texts))]
        assert [[row[0] for row in each] for each in alone] == [
            list(rows) for rows in zip(*together, strict=True)
        ]
    words = ["don't", "[unused0]", "e\u0301e\u0301", "한국어", " x"]
    ids, starts, ends = lists(tokenizer.tokenize_words_with_offsets(words))
    assert ids == tokenizer.tokenize_words(words).to_list()
    assert ids == tokenizer.tokenize([f" {word}".replace("  ", " ") for word in words]).to_list()
    assert (starts[2][0], ends[2][-1], ends[1][-1]) == (0, 6, 9)


@pytest.mark.parametrize("name", ["nfc", "added_tokens", "add_prefix_space"])
def test_each_setting_alone(name, tokenizer, library):
    changed = json.loads(library.to_str())
    if name != "nfc":
        changed["normalizer"] = None
    if name != "added_tokens":
        changed["added_tokens"] = []
    changed["pre_tokenizer"]["add_prefix_space"] = name == "add_prefix_space"
    made = type(library).from_str(json.dumps(changed))
    _check(registry.make(tokenizer.vocabulary, {name: True}), made, [*ADDED, *MARKS, *SENTENCES])
    # A space precedes each part between added tokens.
    changed = json.loads(library.to_str())
    changed["pre_tokenizer"]["add_prefix_space"] = True
    made = type(library).from_str(json.dumps(changed))
    settings = {"nfc": True, "added_tokens": True, "add_prefix_space": True}
    _check(registry.make(tokenizer.vocabulary, settings), made, [*ADDED, *MARKS])


@pytest.mark.slow
def test_a_large_vocabulary_on_real_text_every_code_point_and_random_texts(tmp_path):
    corpora, lines = data_of("corpora"), []
    for path in sorted(path for path in corpora.rglob("*") if path.is_file()):
        lines += path.read_bytes().decode(errors="replace").split("\n")
    library = library_modernbert(lines, 50_000)
    tokenizer = _ours(library, tmp_path)
    points = [f"ab{c}cd {c} e{c}\u0301{c}" for c in byte_bpe_reference.ALL_CODE_POINTS]
    # The library does not know the newest marks of Unicode; they matter next to other marks.
    composed = composition.normalized(tf.constant(points), True).numpy()
    kept = [text for text, ours in zip(points, composed, strict=True)
            if library.normalizer.normalize_str(text).encode() == ours]  # fmt: skip
    assert len(points) - len(kept) < 100
    texts = [*lines, *kept, *random_texts(50_000)]
    for first in range(0, len(texts), 20_000):
        _check(tokenizer, library, texts[first : first + 20_000])
