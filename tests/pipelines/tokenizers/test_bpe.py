"""GPT's tokenizer against its rules in plain Python, with the merges of the tokenizers library."""

import collections
import json
import random
import sys
import unicodedata

import pytest
import tensorflow as tf
import tokenizers

from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.bpe_vocabulary import ADDED, END_OF_WORD, BPEVocabulary
from tests.pipelines.tokenizers.reference_tokenizer import basic_words, is_assigned
from tests.real_data import data_of

TEXTS = [
    "", " ", "Hello, world!", "  two  spaces\tand\nlines ", "in 1999, 2000, and 12,345",
    "Ünïcödé ÀÉÎ ﬁ ½ Ω ΑΣ Σ ΟΔΟΣ.", "日本語 한국어 中文", "a\u00a0b\u3000c\u2028d",
    "x\u0301\u0302y \u0301z", "_start_ <unk> </w> _pad_", "\u200bzero\u200dwidth\ufeff",
    "\U0001f600\U0001f600 help\U0001f600ed", "\ue000\ue001 hel\ue000lo", "lowest hellohello",
]  # fmt: skip


@pytest.fixture(scope="module")
def learned():
    """A vocabulary of a few words."""
    words = {"hello": 50, "world": 30, "help": 20, "held": 10, "lines": 5, "and": 40, "two": 8,
             "lowest": 9, "1999": 7, "ünder": 3, ",": 9}  # fmt: skip
    return BPEVocabulary.learn(collections.Counter({w.encode(): n for w, n in words.items()}), 110)


def released():
    return registry.load(str(data_of("vocabs/gpt1")))


def reference(vocabulary):
    """A function from a text to its ids."""
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    model = tokenizers.models.BPE(
        ids, list(vocabulary.merges), unk_token="<unk>", end_of_word_suffix=END_OF_WORD
    )
    bpe = tokenizers.Tokenizer(model)

    def encode(text):
        words = basic_words(text, True)
        return [number for word in words for number in bpe.encode(word).ids]

    return encode


def check(vocabulary, texts):
    tokenizer, encode = registry.make(vocabulary), reference(vocabulary)
    found = tokenizer.tokenize(tf.constant(texts)).to_list()
    for text, ids in zip(texts, found, strict=True):
        assert ids == encode(text), text
    return tokenizer


def check_offsets(tokenizer, texts):
    pieces = tokenizer.tokenize_by_word(tf.constant(texts))
    columns = (pieces.ids, pieces.starts, pieces.ends, pieces.begins)
    tokens = tokenizer.vocabulary.tokens
    for text, *rows in zip(texts, *(column.to_list() for column in columns), strict=True):
        data = text.encode()
        following = [*rows[3], True][1:]  # whether the next piece begins a word
        for index, begin, end, after in zip(*rows[:3], following, strict=bool(rows[0])):
            surface = data[begin:end].decode()  # raises where a character is cut
            if index != tokenizer.unknown_id:
                piece = tokens[index].removesuffix(END_OF_WORD).replace("ς", "σ")
                assert "".join(basic_words(surface, True)).replace("ς", "σ") == piece
                assert tokens[index].endswith(END_OF_WORD) == after
        assert rows[1] == sorted(rows[1]) and rows[2] == sorted(rows[2])


def test_ids_and_offsets_of_a_learned_vocabulary(learned):
    assert learned.tokens[0] == "<unk>" and learned.tokens[-4:] == ADDED
    assert f"hello{END_OF_WORD}" in learned.tokens
    tokenizer = check(learned, TEXTS)
    check_offsets(tokenizer, TEXTS)
    # A letter that ends no word is unknown there.
    vocabulary = BPEVocabulary(("<unk>", "a", f"b{END_OF_WORD}"), ())
    check_offsets(check(vocabulary, ["a ab b ba bb aab c"]), ["a ab b ba bb aab c"])


def test_settings_beside_a_vocabulary_are_followed(learned, tmp_path):
    learned.save(str(tmp_path))
    settings = {"lower_case": True, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert registry.load_tokenizer(str(tmp_path)).settings == settings


def test_rare_letters_may_be_unknown():
    counts = collections.Counter({b"aab": 100, b"abc": 1})
    found = BPEVocabulary.learn(counts, 30, 0.99)
    assert "c" not in found.tokens and f"aab{END_OF_WORD}" in found.tokens
    with pytest.raises(InputError, match="which do not fit a vocabulary of 8 twice"):
        BPEVocabulary.learn(counts, 8)


@pytest.mark.parametrize(
    ("tokens", "merges", "message"),
    [
        (("a", "b"), (), "lacks <unk>"),
        (("<unk>", "a", "a"), (), "occurs twice"),
        (("<unk>", "a", "b</w>"), (("a", "b</w>"),), "the vocabulary lacks 'ab"),
        (("<unk>", "a", "abb"), (("a", "bb"),), "no merge before it makes 'bb'"),
    ],
)
def test_unusable_vocabularies_are_refused(tokens, merges, message):
    with pytest.raises(InputError, match=message):
        BPEVocabulary(tokens, merges)


def test_sequences_have_start_delimiter_and_extract(learned):
    tokenizer = registry.make(learned)
    start, delimiter, extract, pad = (learned.tokens.index(token) for token in ADDED)
    (one,), (pair,) = (tokenizer([*a], *b)["input_word_ids"].numpy().tolist() for a, b in (
        (["hello"], ()), (["hello"], (["world"],))))  # fmt: skip
    hello, world = (tokenizer.tokenize([word]).to_list()[0] for word in ("hello", "world"))
    assert one == [start, *hello, extract] and pair == [start, *hello, delimiter, *world, extract]
    assert (tokenizer.pad_id, tokenizer.end_id) == (pad, extract)


def test_released_vocabularies_are_recognized():
    vocabulary = released()
    assert vocabulary.kind == "bpe" and len(vocabulary) == 40478 + len(ADDED)
    tokenizer = check(vocabulary, TEXTS)
    check_offsets(tokenizer, TEXTS)
    assert tokenizer.decode(tokenizer.tokenize(["Hello,  world"])) == ["hello , world"]
    gpt2 = registry.load(str(data_of("vocabs/gpt2")))
    assert gpt2.form.model == "GPT-2" and len(gpt2) == 50257
    ids = registry.make(gpt2)(["Hello world"], ["Hi"])["input_word_ids"].numpy().tolist()
    assert ids == [[50256, 15496, 995, 50256, 17250, 50256]]
    alone = registry.make(gpt2)(["Hello", "", "Hello world"], max_seq_length=2)
    assert alone["input_word_ids"].numpy().tolist() == [
        [15496, 50256],
        [50256, 50256],
        [15496, 995],
    ]
    assert alone["input_mask"].numpy().tolist() == [[1, 0], [1, 0], [1, 1]]


@pytest.mark.slow
def test_released_vocabulary_on_every_code_point_and_random_texts():
    vocabulary = released()
    points = [chr(c) for c in range(1, sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    points = [c for c in points if is_assigned(c) or unicodedata.category(c) != "Cn"]
    check(vocabulary, [f"a{c}b {c}" for c in points])
    rng = random.Random(0)
    letters = "abcdehilorst ÀéñßΣſ\u0301\u0323 日한\U0001f600'’-_.,\t\u00a0\ue000</w>"
    texts = ["".join(rng.choices(letters, k=rng.randint(1, 40))) for _ in range(2000)]
    check_offsets(check(vocabulary, texts), texts)


@pytest.mark.slow
def test_released_vocabulary_on_the_corpora():
    vocabulary = released()
    for path in sorted(data_of("corpora").glob("*/*.txt")):
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line for line in file.read().split("\n") if line]
        for first in range(0, len(lines), 5000):
            check(vocabulary, lines[first : first + 5000])


def test_letters_for_private_use_are_unknown():
    """Such as icons of web pages; the marks of the implementation are among them."""
    words = {"a\ue000b": 9, "c\ue001": 9, "d\U000f0000": 9, "abc": 9}
    found = BPEVocabulary.learn(collections.Counter({w.encode(): n for w, n in words.items()}), 30)
    assert not any(unicodedata.category(c) == "Co" for token in found.tokens for c in token)
    tokenizer = registry.make(found, {}, "")
    assert tokenizer.tokenize(["c\ue001"]).flat_values.numpy()[-1] == tokenizer.unknown_id
