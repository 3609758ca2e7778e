"""Which tokens an answer comes from: integrated gradients (Sundararajan et al., arXiv 1703.01365).

The attribution of a token is the integral of the answer's gradient along the straight line from a
baseline to the token's embedding, times the way between the two, summed over the dimensions. The
attributions of all tokens add up to the answer less that of the baseline: how nearly they do tells
how well the integral was taken.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.inspection.sequences import TokenSequence
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.task_head import TaskHead

# One number for each row, float32 [rows], of logits [rows, units] or [rows, length, units].
Score = Callable[[tf.Tensor], tf.Tensor]
_TINY = 1e-12


class Attribution(NamedTuple):
    """How much each token speaks for an answer.

    Attributes:
      tokens: float64 [length]; those of special tokens, which the baseline has too, are 0.
      output: the score of the text.
      baseline: that of the baseline.
    """

    tokens: np.ndarray
    output: float
    baseline: float

    @property
    def error(self) -> float:
        """What lacks for completeness: a share of the difference that is to be explained."""
        difference = self.output - self.baseline
        return abs(float(self.tokens.sum()) - difference) / max(abs(difference), _TINY)


class Attributor:
    """Attributes scores to the tokens of sequences.

    The baseline has the padding token in the place of each token of a text, at its position and
    in its segment; the special tokens stay. All of it is what the first layer gets.

    Args:
      encoder: the encoder.
      head: of the task.
      pad_id: the padding token.
      steps: points between baseline and text, by the rule of Gauss and Legendre.
      batch_tokens: tokens that are computed at once.
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
        """Points from 0 to 1 and their weights, as many at once as may be computed."""
        points, weights = np.polynomial.legendre.leggauss(self._steps)
        rows = max(1, self._batch_tokens // length)
        for start in range(0, self._steps, rows):
            part = slice(start, start + rows)
            yield ((points[part] + 1) / 2).astype(np.float32), weights[part] / 2

    def _embedded(self, sequence: TokenSequence, ids: np.ndarray) -> tf.Tensor:
        """What the first layer gets, float32 [length, hidden_size]."""
        inputs = sequence.inputs()
        word_ids = tf.constant(ids[np.newaxis], tf.int32)
        # Padding in the place of a token has its position, also where padding is not counted.
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
