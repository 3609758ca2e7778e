"""A linear-chain conditional random field over the tags of words (Lafferty et al. 2001).

The score of the tags of a text is the sum of the emissions of its words, of the transitions from
each tag to the next, and of those from the start to the first tag and from the last one to the end.
Of T tags, the table of transitions is [T + 1, T + 1]: its last row is the start, its last column
the end. The probability of tags is the softmax of their score over all tags that a text could have.
"""

import functools

import tensorflow as tf

# The score of what cannot be: finite, so that differences are; its exponential is 0.
FORBIDDEN = -1e4


def log_likelihood(
    emissions: tf.Tensor, tags: tf.Tensor, is_word: tf.Tensor, transitions: tf.Tensor
) -> tf.Tensor:
    """Logarithms of the probabilities of the tags of texts, float32 [batch]; 0 without words.

    Args:
      emissions: float32 [batch, length, T].
      tags: int32 [batch, length], from 0 to T - 1; only those of words count.
      is_word: bool [batch, length], the tokens that have a tag.
      transitions: float32 [T + 1, T + 1].
    """
    count = tf.shape(emissions)[-1]
    # Words move to the front, where each follows the one before it.
    order = tf.argsort(tf.cast(~is_word, tf.int32), stable=True)
    emissions, tags = (tf.gather(x, order, batch_dims=1) for x in (emissions, tags))
    words = tf.reduce_sum(tf.cast(is_word, tf.int32), 1)
    there = tf.sequence_mask(words, tf.shape(tags)[1])
    before = tf.pad(tags[:, :-1], [[0, 0], [1, 0]], constant_values=count)
    each = tf.gather(emissions, tags, batch_dims=2)
    each += tf.gather_nd(transitions, tf.stack([before, tags], -1))
    last = tf.gather(tags, tf.maximum(words - 1, 0), batch_dims=1)
    score = tf.reduce_sum(tf.where(there, each, 0.0), 1) + tf.gather(transitions[:, count], last)
    total = _forward(*_by_time(emissions, there), transitions)[-1] + transitions[:, count]
    return tf.where(words > 0, score - tf.reduce_logsumexp(total, 1), 0.0)


@functools.partial(
    tf.function,
    input_signature=[
        tf.TensorSpec([None, None, None]),
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None, None]),
    ],
    autograph=False,
)
def decode(
    emissions: tf.Tensor, words: tf.Tensor, transitions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The most probable tags of texts (Viterbi 1967), and the probability of each tag.

    Args:
      emissions: float32 [batch, length, T].
      words: int64 [batch], the number of words of each text.
      transitions: float32 [T + 1, T + 1].

    Returns:
      int32 and float32 [batch, length], undefined after the last word. The probability of a tag is
      its marginal: the sum over all tags of the other words.
    """
    count, length = tf.shape(emissions)[-1], tf.shape(emissions)[1]
    emissions = tf.pad(emissions, [[0, 0], [0, 1], [0, 0]])  # no text may have a word
    scores, there = _by_time(emissions, tf.sequence_mask(words, length + 1))
    begin, numbers = _start(scores), tf.zeros_like(scores[0], tf.int32) + tf.range(count + 1)
    end = tf.zeros_like(begin) + transitions[:, count]

    def go_back(after: tf.Tensor, row: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        sums = tf.reduce_logsumexp(transitions + (row[0] + after)[:, tf.newaxis], 2)
        return tf.where(row[1], sums, after)

    def best_to(before: tuple[tf.Tensor, ...], row: tuple[tf.Tensor, tf.Tensor]) -> tuple:
        paths = before[0][:, :, tf.newaxis] + transitions
        best, came_from = tf.reduce_max(paths, 1) + row[0], tf.argmax(paths, 1, tf.int32)
        return tf.where(row[1], best, before[0]), tf.where(row[1], came_from, numbers)

    after = tf.scan(go_back, (scores, there), end, reverse=True)
    after = tf.concat([after[1:], end[tf.newaxis]], 0)
    marginals = tf.nn.softmax(_forward(scores, there, transitions) + after)
    best, came_from = tf.scan(best_to, (scores, there), (begin, numbers))
    last = tf.argmax(best[-1] + end, -1, tf.int32)
    tags = tf.scan(
        lambda tag, origins: tf.gather(origins, tag, batch_dims=1), came_from, last, reverse=True
    )
    tags = tf.concat([tags[1:], last[tf.newaxis]], 0)
    found = tags, tf.gather(marginals, tags, batch_dims=2)
    return tuple(tf.transpose(x)[:, :length] for x in found)


def _by_time(emissions: tf.Tensor, there: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Scores of tags and start, [length, batch, T + 1], and which are words, [length, batch, 1]."""
    scores = tf.pad(emissions, [[0, 0], [0, 0], [0, 1]], constant_values=FORBIDDEN)
    return tf.transpose(scores, [1, 0, 2]), tf.transpose(there)[:, :, tf.newaxis]


def _start(scores: tf.Tensor) -> tf.Tensor:
    """Scores before the first word, [batch, T + 1]: nothing but the start has come."""
    width = tf.shape(scores)[-1]
    row = tf.one_hot(width - 1, width, 0.0, FORBIDDEN)
    return tf.zeros_like(scores[0]) + row


def _forward(scores: tf.Tensor, there: tf.Tensor, transitions: tf.Tensor) -> tf.Tensor:
    """Log-sums of the scores of all tags up to each word, by its tag [length, batch, T + 1]."""

    def advance(before: tf.Tensor, row: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        sums = tf.reduce_logsumexp(before[:, :, tf.newaxis] + transitions, 1) + row[0]
        return tf.where(row[1], sums, before)

    return tf.scan(advance, (scores, there), _start(scores))
