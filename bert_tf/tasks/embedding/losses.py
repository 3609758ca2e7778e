"""Losses of sentence embeddings, equal to those of sentence-transformers.

They are of a whole batch: the texts of other rows are negatives. Vectors are float32
[rows, texts, width]; `present`, float32 [rows], is 0 for rows that only fill up the batch.
"""

import tensorflow as tf

_SCALE = 20.0  # of cosines, as logits
_ABSENT = -1e9  # the logit of a text that is not there


def ranking(vectors: tf.Tensor, ids: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """The first text of each row must find the second among the others of all rows.

    Henderson et al. 2017 (arXiv 1705.00652), section 4.4, with cosines. The first text itself, and
    all second texts that it has in the batch, are no negatives, wherever they stand.

    Args:
      vectors: see above.
      ids: int [rows, texts], the same for texts that are the same.
      present: see above.

    Returns:
      float32 [rows].
    """
    vectors = tf.math.l2_normalize(vectors, -1)
    queries = vectors[:, 0]
    others = tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [-1, vectors.shape[-1]])
    there = tf.tile(present, [tf.shape(vectors)[1] - 1])
    logits = _SCALE * tf.matmul(queries, others, transpose_b=True)
    right = tf.range(tf.shape(queries)[0])
    first, second = ids[:, 0, tf.newaxis], ids[:, 1, tf.newaxis]
    candidates = tf.reshape(tf.transpose(ids[:, 1:]), [-1])
    alike = tf.cast(first == ids[:, 0], tf.float32)  # [rows, rows] of the same first text
    answered = tf.matmul(alike, tf.cast(second == candidates, tf.float32)) > 0
    own = right[:, tf.newaxis] == tf.range(tf.size(candidates))
    negative = ~answered & (first != candidates)
    logits = tf.where((there > 0) & (own | negative), logits, _ABSENT)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(right, logits)


def similarity(vectors: tf.Tensor, similarities: tf.Tensor) -> tf.Tensor:
    """Squared difference of the cosine of two texts from a similarity, float32 [rows].

    Reimers and Gurevych 2019 (arXiv 1908.10084), section 3, "regression objective function".
    """
    return tf.square(cosines(vectors) - similarities)


def triplet(vectors: tf.Tensor, classes: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """The farthest text of the same class must be nearer than the nearest of another class.

    Hermans et al. 2017 (arXiv 1703.07737), "batch hard" with a soft margin.

    Returns:
      float32 [rows].
    """
    points = vectors[:, 0]
    squares = tf.reduce_sum(tf.square(points), -1)
    products = tf.matmul(points, points, transpose_b=True)
    squared = tf.maximum(squares[:, tf.newaxis] - 2 * products + squares, 0.0)
    # The square root has no gradient at 0, the distance of a text from itself.
    distances = tf.where(squared > 0, tf.sqrt(tf.where(squared > 0, squared, 1.0)), 0.0)
    both = present[:, tf.newaxis] * present
    same = tf.cast(classes[:, tf.newaxis] == classes, tf.float32) * both
    farthest = tf.reduce_max(distances * same, -1)
    away = tf.where(both - same > 0, distances, tf.reduce_max(distances))
    return tf.math.softplus(farthest - tf.reduce_min(away, -1))


def cosines(vectors: tf.Tensor) -> tf.Tensor:
    """Cosines of the first two texts of each row, float32 [rows]."""
    first, second = tf.unstack(tf.math.l2_normalize(vectors[:, :2], -1), 2, 1)
    return tf.reduce_sum(first * second, -1)
