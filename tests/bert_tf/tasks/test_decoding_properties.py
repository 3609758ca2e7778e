"""Spans of windows against all pairs that there are, and places in characters against slices."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.tasks.span import decoding
from pipelines.tokenizers import byte_ranges
from tests import strategies

_LENGTH, _OFFSET = 14, 3  # of windows, and where their context begins


@st.composite
def _windows(draw):
    """Contexts of words of one or two letters, their windows, and logits without ties."""
    rng = np.random.default_rng(draw(strategies.seeds()))
    contexts, rows, firsts, lengths, starts, ends, best = [], [], [], [], [], [], []
    for row in range(draw(st.integers(1, 3))):
        words = draw(st.lists(st.sampled_from(["a", "b", "é", "ab"]), max_size=14))
        contexts.append(" ".join(words))
        bounds = np.cumsum([0, *(len(word.encode()) + 1 for word in words)])
        cut = draw(st.integers(0, len(words)))
        overlap = draw(st.integers(0, cut))
        for begin, end in ((0, cut), (cut - overlap, len(words))):
            end = min(end, begin + _LENGTH - _OFFSET)
            rows.append(row)
            firsts.append(len(starts))
            lengths.append(end - begin)
            starts += bounds[begin:end].tolist()
            ends += (bounds[begin + 1 : end + 1] - 1).tolist()
            best.append((rng.random(end - begin) < 0.7).tolist())
    logits = rng.permutation(len(rows) * _LENGTH * 2).reshape(len(rows), _LENGTH, 2) / 7
    numbers = (rows, [_OFFSET] * len(rows), lengths, firsts, starts, ends)
    ragged = tf.ragged.constant(best, tf.bool, ragged_rank=1, row_splits_dtype=tf.int64)
    tokens = decoding.WindowTokens(*(tf.constant(n, tf.int64) for n in numbers), ragged)
    return contexts, logits, tokens, best


def _all_spans(contexts, logits, tokens, best, n_best, most):
    """Of each context (score, start, end) of its spans, of each text the best, the best first."""
    found = [{} for _ in contexts]
    for window, row in enumerate(tokens.row.numpy()):
        length, first = int(tokens.length[window]), int(tokens.first[window])
        inside = logits[window, _OFFSET : _OFFSET + length]
        starts, ends = (np.argsort(-inside[:, which])[:n_best] for which in (0, 1))
        for a in starts:
            for b in ends:
                if not (a <= b < a + most and best[window][a]):
                    continue
                score = inside[a, 0] + inside[b, 1]
                start, end = int(tokens.starts[first + a]), int(tokens.ends[first + b])
                text = contexts[row].encode()[start:end]
                if score > found[row].get(text, (-np.inf,))[0]:
                    found[row][text] = (score, start, end)
    return [sorted(spans.values(), reverse=True)[:n_best] for spans in found]


@given(_windows(), st.integers(1, 30), st.integers(1, 8))
def test_the_best_spans_of_all(case, n_best, most):
    contexts, logits, tokens, best = case
    found = decoding.best_spans(tf.constant(contexts), tf.constant(logits), tokens, n_best, most)
    expected = _all_spans(contexts, logits, tokens, best, n_best, most)
    for row, spans in enumerate(expected):
        scores = found.score[row].numpy()
        assert (scores[len(spans) :] < decoding.LOW / 2).all()
        count = len(spans)
        np.testing.assert_allclose(scores[:count], [score for score, _, _ in spans])
        parts = (found.start_logit[row] + found.end_logit[row]).numpy()
        np.testing.assert_allclose(parts[:count], scores[:count])
        # Sums of two may be equal, which leaves their order open.
        if len({round(score, 6) for score, _, _ in spans}) == count:
            places = zip(found.start[row].numpy(), found.end[row].numpy(), strict=True)
            texts = [contexts[row].encode()[a:b] for a, b in places][:count]
            assert texts == [contexts[row].encode()[a:b] for _, a, b in spans]


@given(_windows())
def test_no_answer_has_the_lowest_score_of_its_windows(case):
    contexts, logits, tokens, _ = case
    found = decoding.null_scores(tf.constant(logits), tokens.row, len(contexts)).numpy()
    rows = tokens.row.numpy()
    for row, score in enumerate(found):
        assert score == min(sum(logits[w, 0]) for w in np.flatnonzero(rows == row))


@given(strategies.batches(strategies.texts()), st.data())
def test_bytes_as_characters(texts, data):
    rows, places, wanted = [], [], []
    for row in data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1)):
        characters = data.draw(st.integers(0, len(texts[row])))
        rows.append(row)
        wanted.append(characters)
        places.append(len(texts[row][:characters].encode()))
    numbers = (tf.constant(values, tf.int64) for values in (rows, places))
    assert byte_ranges.to_characters(tf.constant(texts), *numbers).numpy().tolist() == wanted
