"""Packing and windows against plain loops written after the paper's reference."""

import random

import pytest
import tensorflow as tf

from pipelines.tokenizers import packing
from pipelines.tokenizers.settings import Keep
from tests import tokenizers

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(40))]


@pytest.fixture(scope="module")
def tokens():
    return tokenizers.wordpiece(TOKENS)


def ragged(rows):
    return tf.ragged.constant(rows, tf.int32, row_splits_dtype=tf.int64, ragged_rank=1)


def truncate(a, b, budget):
    a, b = list(a), list(b)
    while len(a) + len(b) > budget:
        (a if len(a) > len(b) else b).pop()
    return a, b


def test_pairs_are_cut_as_in_the_reference(tokens):
    rng = random.Random(0)
    pairs = [
        ([rng.randrange(5, 45) for _ in range(rng.randrange(14))] for _ in range(2))
        for _ in range(300)
    ]
    pairs = [tuple(pair) for pair in pairs]
    for length in (8, 9, 15):
        packed = packing.pack(
            tokens, ragged([a for a, _ in pairs]), ragged([b for _, b in pairs]), length
        )
        for (a, b), words, types in zip(
            pairs, packed.word_ids.to_list(), packed.type_ids.to_list(), strict=True
        ):
            first, second = truncate(a, b, length - 3)
            assert words == [2, *first, 3, *second, 3]
            assert types == [0] * (len(first) + 2) + [1] * (len(second) + 1)
            assert packing.pack_ids(tokens, a, b, length) == (words, types)


def test_single_segments_are_cut_at_the_end(tokens):
    packed = packing.pack(tokens, ragged([[5, 6, 7, 8], []]), None, 5)
    assert packed.word_ids.to_list() == [[2, 5, 6, 7, 3], [2, 3]]
    assert packed.type_ids.to_list() == [[0] * 5, [0] * 2]
    assert packing.pack_ids(tokens, [5, 6, 7, 8], None, 5) == ([2, 5, 6, 7, 3], [0] * 5)
    assert packing.pack_ids(tokens, [], None, 5) == ([2, 3], [0] * 2)


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("head", range(10)), ("tail", range(30, 40)), ("both", [0, 1, *range(32, 40)])],
)
def test_of_long_texts_the_asked_for_part_is_kept(tokens, keep, kept):
    texts = [range(5, 45), range(5, 15), range(5, 16), range(5, 7), []]
    packed = packing.pack(tokens, ragged([list(text) for text in texts]), None, 12, Keep(keep))
    found = [row[1:-1] for row in packed.word_ids.to_list()]
    assert found[0] == [5 + index for index in kept]
    assert found[1] == list(texts[1]) and found[3:] == [[5, 6], []]  # they fit
    assert len(found[2]) == 10 and found[2] == sorted(found[2])  # one too many


def windows_by_loops(size, capacity, stride):
    """Starts and lengths of windows, and for each token the window of its maximal context."""
    spans, start = [], 0
    while True:
        length = min(size - start, capacity)
        spans.append((start, length))
        if start + length >= size:
            break
        start += min(length, stride)
    best = []
    for token in range(size):
        scores = [
            min(token - first, first + count - 1 - token) + 0.01 * count
            if first <= token < first + count
            else float("-inf")
            for first, count in spans
        ]
        best.append(scores.index(max(scores)))
    return spans, best


def test_windows_of_texts_begin_with_the_last_quarter_of_the_one_before(tokens):
    texts = [[6 + i % 30 for i in range(size)] for size in (0, 1, 8, 9, 14, 15, 20, 50)]
    packed, row, cut = packing.cut_into_windows(tokens, ragged(texts), None, 10, 3)
    expected = []
    for number, text in enumerate(texts):
        spans, _ = windows_by_loops(len(text), 8, 6)
        expected += [(number, [2, *text[first:][:count], 3]) for first, count in spans[:3]]
        assert cut[number] == (len(spans) > 3)
    found = packed.word_ids.to_list()
    assert list(zip(row.numpy().tolist(), found, strict=True)) == expected
    assert not packed.type_ids.flat_values.numpy().any()


def pairs_by_loops(first, second, budget, room):
    """The windows of a pair: of the first text if there is `room` for it, else of the longer one."""
    swapped = room is None and len(second) > len(first)
    long, short = (second, first) if swapped else (first, second)
    kept = short[: max(budget // 2, budget - len(long))]
    room = budget - len(kept) if room is None else room
    spans, _ = windows_by_loops(len(long), room, room - room // 4)
    texts = [(long[at : at + size], kept) for at, size in spans]
    return [(b, a) if swapped else (a, b) for a, b in texts], len(kept) < len(short)


def test_windows_of_pairs_are_those_of_the_longer_text(tokens):
    rng = random.Random(2)
    texts = [
        [[start + i % 9 for i in range(rng.choice([0, 1, 5, 6, 7, 12, 40]))] for start in (6, 16)]
        for _ in range(80)
    ]
    first, second = zip(*texts, strict=True)
    packed, row, cut = packing.cut_into_windows(tokens, ragged(first), ragged(second), 15, 4)
    expected = []
    for number, (a, b) in enumerate(texts):
        windows, is_cut = pairs_by_loops(a, b, 12, None)
        expected += [(number, [2, *one, 3, *two, 3]) for one, two in windows[:4]]
        assert cut[number] == (is_cut or len(windows) > 4)
        assert len(a) + len(b) > 12 or (windows, is_cut) == ([(a, b)], False)
    assert list(zip(row.numpy().tolist(), packed.word_ids.to_list(), strict=True)) == expected
    types = [[0] * (ids.index(3) + 1) + [1] * (len(ids) - ids.index(3) - 1) for _, ids in expected]
    assert packed.type_ids.to_list() == types


def test_pairs_of_a_group_have_as_many_windows_of_their_first_text(tokens):
    rng = random.Random(3)
    contexts = [[6 + i % 9 for i in range(size)] for size in (0, 2, 8, 30, 99)]
    group = sorted(rng.randrange(5) for _ in range(16))
    first = [contexts[each] for each in group]
    second = [[16 + i % 9 for i in range(rng.choice([1, 4, 7, 11]))] for _ in group]
    packed, row, cut = packing.cut_into_windows(
        tokens, ragged(first), ragged(second), 15, 4, tf.constant(group, tf.int64)
    )
    found = list(zip(row.numpy().tolist(), packed.word_ids.to_list(), strict=True))
    expected, counts = [], {}
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        kept = max(
            min(len(c), max(6, 12 - len(a)))
            for c, other in zip(second, group, strict=True) if other == group[number]
        )  # fmt: skip
        windows, is_cut = pairs_by_loops(a, b, 12, 12 - kept)
        expected += [(number, [2, *one, 3, *two, 3]) for one, two in windows[:4]]
        assert cut[number] == (is_cut or len(windows) > 4)
        assert counts.setdefault(group[number], len(windows)) == len(windows)
    assert found == expected


def test_a_group_without_first_texts_may_have_second_ones_of_a_whole_sequence(tokens):
    packed, row, cut = packing.cut_into_windows(
        tokens, ragged([[], [], [7] * 9]), ragged([[6] * 12, [6], [6] * 20]), 15, 4,
        tf.constant([0, 0, 1], tf.int64),
    )  # fmt: skip
    assert packed.word_ids.to_list()[:2] == [[2, 3, *[6] * 12, 3], [2, 3, 6, 3]]
    assert row.numpy().tolist() == [0, 1, 2, 2] and cut.numpy().tolist() == [False, False, True]


def test_windows_are_those_of_the_reference(tokens):
    rng = random.Random(1)
    questions = [[5] * rng.randrange(1, 9) for _ in range(60)]
    contexts = [[6 + i % 30 for i in range(rng.randrange(0, 50))] for _ in range(60)]
    found = packing.slide(tokens, ragged(questions), ragged(contexts), 20, 4, 6)
    rows = found.row.numpy()
    for index, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        question = question[:6]
        spans, best = windows_by_loops(len(context), 17 - len(question), 4)
        mine = [w for w, row in enumerate(rows) if row == index]
        assert [(int(found.start[w]), int(found.length[w])) for w in mine] == spans
        for number, w in enumerate(mine):
            start, length = spans[number]
            assert found.packed.word_ids[w].numpy().tolist() == [
                2, *question, 3, *context[start : start + length], 3,
            ]  # fmt: skip
            assert int(found.offset[w]) == len(question) + 2
            assert found.best[w].numpy().tolist() == [
                best[token] == number for token in range(start, start + length)
            ]
