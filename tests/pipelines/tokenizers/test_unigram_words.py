"""SentencePiece's ids of running text, from a table of words."""

import collections
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokenizers import registry, sentencepiece_numbering, unigram_words, word_cache
from pipelines.tokenizers.sentencepiece_vocabulary import SPACE, SentencePieceVocabulary
from tests import strategies, tokenizers
from tests.pipelines.tokenizers.test_sentencepiece import TEXTS
from tests.real_data import data_of, lines_of_corpora
from tests.tokenizers import check_running_text


def _albert():
    words = collections.Counter(word.encode() for text in TEXTS * 9 for word in text.split())
    return registry.make(SentencePieceVocabulary.learn(words, 120))


def _xlm_r():
    model = sentencepiece_numbering.of_fairseq(tokenizers.fairseq_model(), False, "")
    return registry.make(SentencePieceVocabulary(model))


def _camembert():
    model = sentencepiece_numbering.of_fairseq(tokenizers.fairseq_model(), True, "")
    return registry.make(SentencePieceVocabulary(model))


def _defined():
    """A model with pieces of its user's, of one byte and of several."""
    model = tokenizers.fairseq_model(user_defined_symbols=["o", "er", "–"], size=420)
    model = sentencepiece_numbering.of_fairseq(model, False, "")
    return registry.make(SentencePieceVocabulary(model))


def _tied(scores):
    """A tokenizer of pieces with scores, of XLM-R's form; without a normalization."""
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [*special, *scores.items(), ("<mask>", 0.0)]
    vocabulary = SentencePieceVocabulary(sentencepiece_numbering.of_scores(pieces, b""))
    tokenizer = registry.make(vocabulary)
    known = {piece: scores.get(piece, -math.inf) for piece, _ in pieces}
    return tokenizer, unigram_words.UnigramWords(
        vocabulary, known, tokenizer.tokenize, tokenizer._normalized, lambda found: found
    )


def _is_sure(words, text):
    ids, _ = words._cache.ids([text])
    return words._unsure not in ids


@pytest.fixture(scope="module", params=[_albert, _xlm_r, _camembert, _defined])
def tokenizer(request):
    found = request.param()
    assert found._words() is not None
    return found


@given(st.lists(strategies.long_texts(), max_size=20), st.lists(strategies.long_texts()))
def test_any_texts_after_any_others(tokenizer, texts, more):
    check_running_text(tokenizer, texts)
    check_running_text(tokenizer, [*more, *texts])


def test_texts_of_many_forms(tokenizer):
    check_running_text(tokenizer, [*TEXTS, *tokenizers.SENTENCES, *TEXTS])
    check_running_text(tokenizer, [])
    check_running_text(tokenizer, ["", " ", "\t\n"])
    check_running_text(tokenizer, ["東京は大きい。" * 20, "hello " * 5000, "\u2603" * 4000])
    check_running_text(tokenizer, ["a\u2603 \u2603", "㌖ ㌖ﷺ a", "▁ a▁ ▁b", "over – lower o-er"])


def test_words_whose_best_segmentations_are_close_are_left_to_sentencepiece():
    """Of "ab", and of "a" and "b", that are as good, the text before decides which is found."""
    scores = {SPACE: -1.1, "a": -3.3, "b": -2.7, "ab": -6.0, "c": -1.7, "d": -0.3}
    tokenizer, words = _tied(scores)
    texts = [f"{'c' * first}{'d' * second} ab" for first in range(30) for second in range(30)]
    expected = tokenizer.tokenize(texts).to_list()
    assert len({row[-1] for row in expected}) == 2  # "ab", and "b" after "a"
    ids, splits = words.ids(texts)
    assert [ids[a:b].tolist() for a, b in itertools.pairwise(splits)] == expected
    assert _is_sure(words, "cd c") and not _is_sure(words, "ab")


def test_long_texts_are_left_to_sentencepiece():
    """Rounding grows with the sum of the scores, and so with the text."""
    scores = {SPACE: -1.1, "a": -3.3, "b": -2.7, "ab": -5.95, "c": -11.7}
    tokenizer, words = _tied(scores)
    assert _is_sure(words, "ab") and words._longest == int(2**16 / 21.7 / 2)
    texts = [f"{('c' * 20 + ' ') * count}ab" for count in (10_000, 12_345, 20_000)]
    expected = tokenizer.tokenize(texts).flat_values.numpy().tolist()
    assert words.ids(texts)[0].tolist() == expected
    words._longest = 10**9
    assert words.ids(texts)[0].tolist() != expected


def test_full_tables_begin_anew(monkeypatch):
    for name, size in (("_MAX_WORDS", 5), ("_SLOTS", 8), ("_OCCURRENCES", 7)):
        monkeypatch.setattr(word_cache, name, size)
    check_running_text(_xlm_r(), [*tokenizers.SENTENCES, "", "b" * 40])


def test_pieces_across_words_need_the_whole_text():
    def learned(**settings):
        model = tokenizers.fairseq_model(**settings)
        return SentencePieceVocabulary(sentencepiece_numbering.of_fairseq(model, False, ""))

    assert unigram_words.independent_scores(learned())
    for settings in (
        {"model_type": "bpe"},
        {"split_by_whitespace": False, "sentences": ["new york city", "new york"] * 50},
        {"normalization_rule_name": "identity"},  # a tab is a character
        {"remove_extra_whitespaces": False},
        {"add_dummy_prefix": False},
        {"user_defined_symbols": ["\n\n"]},
        {"byte_fallback": True, "size": 700},
    ):
        vocabulary = learned(**settings)
        assert unigram_words.independent_scores(vocabulary) is None, settings
        check_running_text(registry.make(vocabulary), TEXTS)


@pytest.mark.slow
def test_every_line_of_every_corpus():
    tokenizer = registry.load_tokenizer(str(data_of("vocabs/albert/30k-clean.model")))
    for lines in lines_of_corpora():
        check_running_text(tokenizer, lines)
