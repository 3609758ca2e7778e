"""Attributes an answer to tokens: integrated gradients (Sundararajan et al., arXiv 1703.01365).

The attribution of a token is the integral of the score's gradient along the straight line from a
baseline to the token's embedding, times the difference of the two, summed over the dimensions. The
attributions of all tokens add up to the score minus that of the baseline; the error of the sum
measures the accuracy of the integral.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import TaskHead
from bert_tf.tasks.inspection import Score
from bert_tf.tasks.numbered import TokenSequence

_TINY = 1e-12


class Attribution(NamedTuple):
    """The contribution of each token to a score.

    Attributes:
      tokens: float64 [length]; 0 for special tokens, which the baseline has too.
      output: the score of the text.
      baseline: the score of the baseline.
    """

    tokens: np.ndarray
    output: float
    baseline: float

    @property
    def error(self) -> float:
        """The error of the sum, as a fraction of the difference to explain."""
        difference = self.output - self.baseline
        return abs(float(self.tokens.sum()) - difference) / max(abs(difference), _TINY)


class Attributor:
    """Attributes scores to the tokens of sequences.

    The baseline has the padding token in the place of each token of a text, with the same position
    and segment; special tokens stay. Gradients are those of the input of the first layer.

    Args:
      encoder: the encoder.
      head: the head of the task.
      pad_id: the id of padding.
      steps: number of points between baseline and text (Gauss-Legendre quadrature).
      batch_tokens: number of tokens that are computed at once.
    """

    def __init__(
        self, encoder: BertEncoder, head: TaskHead, pad_id: int, steps: int, batch_tokens: int
    ):
        self._encoder, self._head, self._pad_id = encoder, head, pad_id
        self._steps, self._batch_tokens = steps, batch_tokens

    def attribute(self, sequence: TokenSequence, scores: Sequence[Score]) -> list[Attribution]:
        """The attributions of several scores of one sequence."""
        ids = np.where(sequence.special, sequence.ids, self._pad_id)
        first, last = self._embedded(sequence, ids), self._embedded(sequence, sequence.ids)
        ends = self._scores(sequence, tf.stack([first, last]), scores).numpy()
        way = (last - first).numpy().astype(np.float64)
        gradients = np.zeros([len(scores), *way.shape])
        for points, weights in self._points(len(sequence)):
            line = first + points[:, np.newaxis, np.newaxis] * (last - first)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(line)
                found = tf.unstack(self._scores(sequence, line, scores), axis=1)
            for number, score in enumerate(found):
                slopes = tape.gradient(score, line).numpy().astype(np.float64)
                gradients[number] += np.tensordot(weights, slopes, 1)
        return [
            Attribution((way * slope).sum(-1), float(output), float(baseline))
            for slope, baseline, output in zip(gradients, *ends, strict=True)
        ]

    def _points(self, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields points from 0 to 1 and their weights, in batches."""
        points, weights = np.polynomial.legendre.leggauss(self._steps)
        rows = max(1, self._batch_tokens // length)
        for start in range(0, self._steps, rows):
            part = slice(start, start + rows)
            yield ((points[part] + 1) / 2).astype(np.float32), weights[part] / 2

    def _embedded(self, sequence: TokenSequence, ids: np.ndarray) -> tf.Tensor:
        """The input of the first layer, float32 [length, hidden_size]."""
        inputs = sequence.inputs()
        word_ids = tf.constant(ids[np.newaxis], tf.int32)
        # Padding has the position of its token, even if positions of padding are not counted.
        return self._encoder.embed(
            word_ids, inputs["input_type_ids"], counted_ids=inputs["input_word_ids"]
        )

    def _scores(
        self, sequence: TokenSequence, embedded: tf.Tensor, scores: Sequence[Score]
    ) -> tf.Tensor:
        """Float32 [rows, scores] of embeddings [rows, length, hidden_size]."""
        rows, length, width = embedded.shape
        mask = tf.ones([rows, length], tf.int32)
        outputs = self._encoder.encode(tf.reshape(embedded, [rows * length, width]), mask)
        logits = self._head(outputs)
        return tf.stack([score(logits) for score in scores], 1)
