"""From the logits of windows to the best spans of contexts, for training and serving alike."""

from typing import NamedTuple

import tensorflow as tf

from pipelines.tokenizers import byte_ranges

_NO_SCORE = -1e9  # of a question without candidates; finite, for JSON
# Below all scores; far from where float32 ends, so that sums stay finite.
LOW = -1e30


class Candidate(NamedTuple):
    """A possible answer: text, logits of its start and end, and bytes in the context."""

    text: str
    start_logit: float
    end_logit: float
    start: int
    end: int

    @property
    def score(self) -> float:
        """Sum of the logits."""
        return self.start_logit + self.end_logit


class SpanPrediction(NamedTuple):
    """Candidates, best first, and the score of no answer."""

    candidates: tuple[Candidate, ...]
    null_score: float

    @property
    def null_odds(self) -> float:
        """Score of no answer minus that of the best candidate."""
        return self.null_score - (self.candidates[0].score if self.candidates else _NO_SCORE)


class WindowTokens(NamedTuple):
    """The tokens of W windows, int64 [W] unless stated otherwise.

    Attributes:
      row: index of each window's context.
      offset: position of its first context token in the sequence.
      length: number of its context tokens.
      first: index of the first of these in `starts` and `ends`.
      starts: int64 [tokens], the first byte of each token in its context.
      ends: int64 [tokens], the byte after its last one.
      best: bool [W, (length)], whether a token has more context here than in any other window.
    """

    row: tf.Tensor
    offset: tf.Tensor
    length: tf.Tensor
    first: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    best: tf.RaggedTensor


class BestSpans(NamedTuple):
    """Candidates of each context, best first, [contexts, n]; `score` is LOW behind the last.

    `start` and `end` are bytes in the context, int64. The others have the type of the logits.
    """

    score: tf.Tensor
    start_logit: tf.Tensor
    end_logit: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


class _Pairs(NamedTuple):
    """Starts and ends that make an answer, [pairs]; `first` and `last` count tokens in a window."""

    window: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    start_logit: tf.Tensor
    end_logit: tf.Tensor


def best_spans(
    context: tf.Tensor, logits: tf.Tensor, tokens: WindowTokens, n_best: int, max_answer: int
) -> BestSpans:
    """The best spans of each context, in all its windows; each text occurs once.

    As in google-research/bert, the `n_best` starts and ends with the highest logits of each window
    are paired, and a start counts only in the window where it has the most context.

    Args:
      context: string [contexts].
      logits: float32 or float64 [W, length, 2], of starts and ends.
      tokens: tokens of the windows.
      n_best: number of spans per context, and of starts and ends per window.
      max_answer: maximum number of tokens in a span.
    """
    pairs = _pairs(logits, tokens, n_best, max_answer)
    score = pairs.start_logit + pairs.end_logit
    row, origin = (tf.gather(values, pairs.window) for values in (tokens.row, tokens.first))
    start = tf.gather(tokens.starts, origin + pairs.first)
    end = tf.gather(tokens.ends, origin + pairs.last)
    kept = _best_of_each(byte_ranges.fingerprints(context, row, start, end), score)

    def ragged(values: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(values, kept), tf.gather(row, kept), nrows=tf.size(context, tf.int64)
        )

    scores = ragged(score)
    most = tf.reduce_max(tf.concat([scores.row_lengths(), [n_best]], 0))
    shape = tf.stack([scores.nrows(), most])
    top = tf.math.top_k(scores.to_tensor(LOW, shape=shape), n_best)
    return BestSpans(
        top.values,
        *(
            tf.gather(ragged(values).to_tensor(0, shape=shape), top.indices, batch_dims=1)
            for values in (pairs.start_logit, pairs.end_logit, start, end)
        ),
    )


def null_scores(logits: tf.Tensor, row: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
    """Scores of no answer, [contexts]: of [CLS] as start and end, the lowest of all windows."""
    return tf.math.unsorted_segment_min(tf.reduce_sum(logits[:, 0], -1), row, contexts)


def _pairs(logits: tf.Tensor, tokens: WindowTokens, n_best: int, max_answer: int) -> _Pairs:
    """The pairs of the most probable starts and ends of each window."""
    scores, places = _ends(logits, tokens, n_best)
    score = scores[:, 0, :, tf.newaxis] + scores[:, 1, tf.newaxis, :]
    first, last = places[:, 0, :, tf.newaxis], places[:, 1, tf.newaxis, :]
    valid = (score > LOW / 2) & (last >= first) & (last < first + max_answer)
    found = tf.where(valid)
    window, start_rank, end_rank = tf.unstack(found, axis=1)
    starts, ends = (tf.stack([window, rank], 1) for rank in (start_rank, end_rank))
    first = tf.gather_nd(places[:, 0], starts)
    last = tf.gather_nd(places[:, 1], ends)
    most_context = tf.gather(
        tokens.best.flat_values, tf.gather(tokens.best.row_starts(), window) + first
    )
    start_logit, end_logit = tf.gather_nd(scores[:, 0], starts), tf.gather_nd(scores[:, 1], ends)
    pairs = (window, first, last, start_logit, end_logit)
    return _Pairs(*(tf.boolean_mask(values, most_context) for values in pairs))


def _ends(logits: tf.Tensor, tokens: WindowTokens, n_best: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The highest logits of context tokens, and their indices, [windows, 2 (start, end), n].

    The logit is LOW where there are fewer tokens.
    """
    offset, length = tokens.offset[:, tf.newaxis], tokens.length[:, tf.newaxis]
    place = tf.range(tf.shape(logits, tf.int64)[1]) - offset
    within = (place >= 0) & (place < length)
    low = tf.constant(LOW, logits.dtype)
    scores = tf.where(within[:, tf.newaxis], tf.transpose(logits, [0, 2, 1]), low)
    missing = tf.maximum(n_best - tf.shape(scores)[2], 0)
    scores = tf.pad(scores, [[0, 0], [0, 0], [0, missing]], constant_values=low)
    top = tf.math.top_k(scores, n_best)
    return top.values, tf.cast(top.indices, tf.int64) - tokens.offset[:, None, None]


def _best_of_each(keys: tf.Tensor, score: tf.Tensor) -> tf.Tensor:
    """The index of the highest score of each key, int64, in the order of first occurrence."""
    unique, number = tf.unique(keys, tf.int64)
    count = tf.size(unique, tf.int64)
    highest = tf.gather(tf.math.unsorted_segment_max(score, number, count), number)
    index = tf.range(tf.size(keys, tf.int64))
    index = tf.where(score == highest, index, tf.int64.max)
    return tf.math.unsorted_segment_min(index, number, count)
