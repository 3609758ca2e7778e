"""Byte-level BPE of any text, against the tokenizers library; and of any bytes."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokenizers import bpe_vocabulary as vocabulary
from pipelines.tokenizers import byte_bpe_words
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from tests import strategies
from tests.pipelines.tokenizers import byte_bpe_reference

_CONTRACTIONS = st.sampled_from(["'s", "'re", "'", "'ll", " 's", "s'", "\n ", "  ", " \u3000"])


def _texts():
    return st.lists(strategies.texts(6) | _CONTRACTIONS, max_size=5).map("".join)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "prefix"])
def tokenizer(request):
    learned = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)
    return ByteBPETokenizer(learned, add_prefix_space=request.param)


@given(texts=strategies.batches(_texts(), 20))
def test_ids_are_those_of_the_library(tokenizer, texts):
    tokens, merges = tokenizer.vocabulary.tokens, tokenizer.vocabulary.merges
    prefix = tokenizer.settings["add_prefix_space"]
    reference = byte_bpe_reference.make(tokens, merges, bool(prefix))
    byte_bpe_reference.check(tokenizer, reference, texts)


@given(data=st.data())
def test_ids_of_any_vocabulary_are_those_of_the_library(data):
    """Of words of few letters, whose pairs overlap most."""
    letters = data.draw(st.sampled_from(["ab", "abc", "aé", "a '", "ab한"]))
    words = st.lists(st.text(st.sampled_from(letters), min_size=1, max_size=9), min_size=3)
    corpus, texts = data.draw(words), data.draw(words)
    counts = collections.Counter(byte_bpe_words.split_words(corpus * 3).numpy().tolist())
    learned = vocabulary.ByteBPEVocabulary.learn(counts, data.draw(st.integers(262, 300)))
    reference = byte_bpe_reference.make(learned.tokens, learned.merges, False)
    byte_bpe_reference.check(ByteBPETokenizer(learned), reference, texts)


@given(texts=strategies.batches(st.one_of(strategies.raw_texts(), _texts().map(str.encode)), 20))
def test_nothing_is_lost_of_any_bytes(tokenizer, texts):
    byte_bpe_reference.check_bytes(tokenizer, texts)


@pytest.mark.more_cases
@given(texts=strategies.batches(strategies.raw_texts(), 20))
def test_texts_do_not_touch_each_other(tokenizer, texts):
    together = tokenizer.tokenize_by_word(texts)
    half = len(texts) // 2
    parts = [tokenizer.tokenize_by_word(part) for part in (texts[:half], texts[half:]) if part]
    for name in together._fields:
        apart = [row for part in parts for row in getattr(part, name).to_list()]
        assert getattr(together, name).to_list() == apart
