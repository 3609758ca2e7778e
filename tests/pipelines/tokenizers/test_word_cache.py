"""Running text: the ids that words had before are those that the tokenizer computes."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokenizers import registry, word_cache
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS
from tests import strategies, tokenizers
from tests.pipelines.tokenizers import byte_bpe_reference
from tests.real_data import data_of, lines_of_corpora

_PIECES = [*SPECIAL_TOKENS, *"abeé中한ㄱ,.'σς", "##a", "##b", "##한", "##σ", "##ς"]
_RANDOM_TEXTS = 100_000


@pytest.fixture(
    scope="module", params=[(True, True), (True, False), (False, False), "byte_bpe"], ids=str
)
def tokenizer(request):
    if request.param == "byte_bpe":
        return ByteBPETokenizer(byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400))
    lower_case, strip_accents = request.param
    return tokenizers.wordpiece(_PIECES, lower_case=lower_case, strip_accents=strip_accents)


@pytest.mark.more_cases
@given(st.lists(strategies.long_texts(), max_size=20), st.lists(strategies.long_texts()))
def test_any_texts_after_any_others(tokenizer, texts, more):
    tokenizers.check_running_text(tokenizer, texts)
    tokenizers.check_running_text(tokenizer, [*more, *texts])


@pytest.mark.parametrize("nul", ["", "\0"], ids=repr)  # texts with U+0000 end with another byte
def test_words_of_gpt2_at_all_of_its_borders(nul):
    vocabulary = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)
    plain, spaced = (ByteBPETokenizer(vocabulary, add_prefix_space=p) for p in (False, True))
    # All texts of four of these: kinds of characters of one byte to four, and contractions.
    parts = ["a", "1", " ", "\n", "'", "'s", "'ll", "é", "\u3000", "一", "𝟙", "😀", "re", nul]
    texts = ["".join(each) for each in itertools.product(parts, repeat=4)]
    tokenizers.check_running_text(plain, [*byte_bpe_reference.TRICKY, *texts])
    for found, wanted in zip(
        spaced.tokenize_running_text(texts),
        plain.tokenize_running_text([x if x[:1].isspace() else f" {x}" for x in texts]),
        strict=True,
    ):
        np.testing.assert_array_equal(found, wanted)


def test_capital_sigmas_see_the_letters_around_signs(tokenizer):
    tokenizers.check_running_text(tokenizer, ["a.b a's"])
    tokenizers.check_running_text(
        tokenizer, ["aΣ.b aΣ. a.Σb 'Σ' a:Σ:b", "a.b a's", "aΣ中.b 中Σ", "aΣ", "b"]
    )


@pytest.mark.parametrize("nul", ["", "\0"], ids=repr)
@pytest.mark.parametrize("length", [*range(1, 36), 63, 64, 65, 199, 200, 201, 300])
def test_words_of_any_length_that_differ_in_one_byte(tokenizer, length, nul):
    word = ("ab" * length)[:length]
    others = [f"{word[:place]}é{word[place + 1 :]}" for place in range(min(length, 70))]
    tokenizers.check_running_text(
        tokenizer, [word, *others, f"{word}{nul}", f"{nul}{word}", f"{word} {word}a", *others]
    )


def test_full_tables_begin_anew(monkeypatch):
    for name, size in (("_MAX_WORDS", 5), ("_SLOTS", 8), ("_OCCURRENCES", 7)):
        monkeypatch.setattr(word_cache, name, size)
    texts = ["a b ab ba", "", "aa bb aab, bba a b", "中中 한 é", "b" * 40, "a b ab ba " * 5]
    tokenizers.check_running_text(tokenizers.wordpiece(_PIECES), texts)


def test_after_an_error_nothing_is_known(monkeypatch):
    tokenizer = tokenizers.wordpiece(_PIECES)
    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "tokenize", lambda words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tokenizer.tokenize_running_text(["a b"])
    tokenizers.check_running_text(tokenizer, ["a b"])


@pytest.mark.slow
def test_many_random_texts(tokenizer):
    rng = random.Random(1)
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    common = "abAB .,'-ΣσéÉ中國한국\u0301\u0345\u200d\xad\x01\u3000。\u0378"
    for _ in range(0, _RANDOM_TEXTS, 10_000):
        tokenizers.check_running_text(
            tokenizer,
            [
                "".join(rng.choices(common, k=rng.randint(0, 12)) + rng.choices(characters, k=4))
                for _ in range(10_000)
            ],
        )


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"lower_case": False}, {"strip_accents": False}], ids=str)
@pytest.mark.parametrize(
    "vocabulary", ["bert-base-uncased", "bert-base-cased", "bert-base-chinese", "kr-bert-char16424"]
)
def test_every_line_of_every_corpus(vocabulary, settings):
    _check_corpora(f"vocabs/{vocabulary}-vocab.txt", settings)


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ["roberta/vocab.json", "gpt2/encoder.json"])
def test_every_line_of_every_corpus_in_byte_level_bpe(vocabulary):
    _check_corpora(f"vocabs/{vocabulary}", {"add_prefix_space": False})


def _check_corpora(name, settings):
    path = data_of(name)
    tokenizer = registry.load_tokenizer(str(path), settings)
    for lines in lines_of_corpora():
        tokenizers.check_running_text(tokenizer, lines)
