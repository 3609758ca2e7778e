"""Packing, windows and runs of words against plain loops in float64."""

import itertools

import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.tokenizers import packing
from tests.pipelines.tokenizers.test_packing import ragged, truncate


class _Rules:
    """Special tokens of a tokenizer, with one separator between segments or two.

    GPT-2's is not framed: its single texts have no special tokens.
    """

    pad_id, start_id, separator_id, end_id = 0, 2, 3, 3

    def __init__(self, separators, typed, framed=True):
        self.separators, self.typed, self.framed = separators, typed, framed
        self.overhead = 2 * framed, 2 + separators


_RULES = st.builds(_Rules, st.sampled_from([1, 2]), st.booleans(), st.booleans())
_SEGMENT = st.lists(st.integers(5, 99), max_size=20)
_PAIRS = st.lists(st.tuples(_SEGMENT, _SEGMENT), min_size=1, max_size=20)


@given(_PAIRS, _RULES, st.integers(5, 24))
def test_pairs_lose_tokens_from_the_end_of_the_longer_one(pairs, rules, length):
    first, second = zip(*pairs, strict=True)
    packed = packing.pack(rules, ragged(first), ragged(second), length)
    rows = zip(packed.word_ids.to_list(), packed.type_ids.to_list(), strict=True)
    for (a, b), (ids, types) in zip(pairs, rows, strict=True):
        a_kept, b_kept = truncate(a, b, length - rules.overhead[1])
        assert ids == [2, *a_kept, *[3] * rules.separators, *b_kept, 3]
        begin = 1 + len(a_kept) + rules.separators
        assert types == [0] * begin + [int(rules.typed)] * (len(b_kept) + 1)
        assert packing.pack_ids(rules, a, b, length) == (ids, types)
    inputs = packing.padded(rules, packed, length)
    for ids, row, mask in zip(
        packed.word_ids.to_list(),
        inputs["input_word_ids"].numpy().tolist(),
        inputs["input_mask"].numpy().tolist(),
        strict=True,
    ):
        assert row == ids + [0] * (length - len(ids))
        assert mask == [1] * len(ids) + [0] * (length - len(ids))


@given(st.lists(_SEGMENT, min_size=1, max_size=20), _RULES, st.integers(3, 24))
def test_single_segments_lose_their_end(segments, rules, length):
    packed = packing.pack(rules, ragged(segments), None, length)
    framed = [[2, *ids[: length - 2], 3] for ids in segments]
    bare = [ids[:length] or [3] for ids in segments]
    assert packed.word_ids.to_list() == (framed if rules.framed else bare)
    for ids, row in zip(segments, packed.word_ids.to_list(), strict=True):
        assert packing.pack_ids(rules, ids, None, length) == (row, [0] * len(row))


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 60) | st.integers(250, 700)),
        min_size=1,
        max_size=4,
    ),
    _RULES,
    st.integers(9, 40) | st.integers(120, 260),
    st.integers(1, 200),
    st.integers(0, 12),
)
# Two windows of 114 and 14 tokens: 0.01 a token makes their scores the same but for rounding.
@example([(0, 115)], _Rules(1, True), 117, 101, 0)
def test_each_token_has_windows_and_most_context_in_one(sizes, rules, length, stride, most):
    """The reference's `_check_is_max_context`, in the float64 of Python."""
    questions = [[5] * size for size, _ in sizes]
    contexts = [list(range(6, 6 + size)) for _, size in sizes]
    found = packing.slide(rules, ragged(questions), ragged(contexts), length, stride, most)
    rows, starts, lengths = (v.numpy().tolist() for v in (found.row, found.start, found.length))
    sequences, best = found.packed.word_ids.to_list(), found.best.to_list()
    budget = length - rules.overhead[1]
    for index, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        question = question[: min(most, budget // 2)]
        windows = [w for w, row in enumerate(rows) if row == index]
        spans = [(starts[w], lengths[w]) for w in windows]
        _check_spans(spans, len(context), budget - len(question), stride)
        winners = [_max_context(spans, token) for token in range(len(context))]
        for number, w in enumerate(windows):
            start, size = spans[number]
            part = context[start : start + size]
            assert sequences[w] == [2, *question, *[3] * rules.separators, *part, 3]
            assert sequences[w][int(found.offset[w]) :][:size] == part
            assert best[w] == [winners[t] == number for t in range(start, start + size)]


def _check_spans(spans, size, capacity, stride):
    assert spans[0][0] == 0 and sum(spans[-1]) == size
    for (start, length), (following, _) in itertools.pairwise(spans):
        assert length == capacity and start + length < size
        assert following - start == min(stride, capacity)
    assert spans[-1][1] <= capacity


def _max_context(spans, token):
    """The first window in which a token has most context."""
    scores = [
        min(token - start, start + length - 1 - token) + 0.01 * length
        if start <= token < start + length
        else float("-inf")
        for start, length in spans
    ]
    return scores.index(max(scores))


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=6),
    st.integers(4, 16),
    st.booleans(),
)
def test_words_stay_whole_in_as_few_sequences_as_can_be(texts, length, framed):
    """Texts are lists of the lengths of words; filling each sequence in turn is the fewest."""
    tokens = itertools.count(5)
    words = [[[next(tokens) for _ in range(size)] for size in text] for text in texts]
    pieces = ragged([[token for word in text for token in word] for text in words])
    first = [place == 0 for text in words for word in text for place in range(len(word))]
    found = packing.cut_words(_Rules(1, True, framed), pieces, tf.constant(first, tf.bool), length)
    expected, places, limit = [], [], length - 2 * framed
    for text in words:
        row = None
        for word in text:
            if row is None or len(row) + len(word) > limit:
                row = []
                expected.append(row)
            places.append((len(expected) - 1, len(row) + framed))
            row += word
    around = ([2], [3]) if framed else ([], [])
    wanted = [[*around[0], *row[:limit], *around[1]] for row in expected]
    assert found.packed.word_ids.to_list() == wanted
    assert list(zip(found.row.numpy(), found.position.numpy(), strict=True)) == places
