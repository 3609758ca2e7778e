"""Tasks whose rows have several sequences: choices, compared texts, windows of a long text."""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base import Batch, Task
from bert_tf.tasks.signatures import ServedModel
from pipelines.labelled.features import FeatureColumn, Features, packed_columns
from pipelines.tokenizers.packing import Packed

_LENGTHS = "sequence_lengths"
ABSENT = -1e9  # the score of a choice that a row does not have


@dataclasses.dataclass(frozen=True)
class SequencesTask(Task):
    """A row of features is an example: its sequences in their order, and the length of each.

    Without these lengths, a row is one sequence, as in other tasks.
    """

    @property
    def max_sequences(self) -> int | None:
        """The number of sequences that no row exceeds; None: that of the data."""
        return None

    def sequence_columns(self, packed: Packed, counts: np.ndarray) -> dict[str, FeatureColumn]:
        """The columns of packed sequences, `counts` of which, int [rows], make a row each."""
        lengths = packed.word_ids.row_lengths().numpy()
        splits = np.concatenate([[0], np.cumsum(counts)])
        tokens = np.concatenate([[0], np.cumsum(lengths)])[splits]
        columns = {
            name: FeatureColumn(column.values, tokens)
            for name, column in packed_columns(packed).items()
        }
        return columns | {_LENGTHS: FeatureColumn(lengths, splits)}

    def sequence_splits(self, features: Features) -> np.ndarray:
        """Where each sequence begins among the tokens of all rows, and the end; int64."""
        if _LENGTHS not in features:
            return super().sequence_splits(features)
        return np.concatenate([[0], np.cumsum(features[_LENGTHS].values)])

    def row_lengths(self, features: Features) -> np.ndarray:
        """The longest sequence of each example."""
        lengths = features[_LENGTHS]
        return np.maximum.reduceat(lengths.values, lengths.splits[:-1])

    def assemble(self, features: Features, rows: np.ndarray, size: int) -> Batch:
        """As usual, but [size, sequences, length]; empty sequences fill up rows that have fewer."""
        if _LENGTHS not in features:
            return super().assemble(features, rows, size)
        splits, lengths = features["input_word_ids"].splits, features[_LENGTHS]
        chosen = lengths.lengths if self.fixed_length else lengths.lengths[rows]
        fixed = self.max_sequences if self.fixed_length else None
        count, sequences = fixed or int(chosen.max()), []
        for row in rows:
            ends = splits[row] + np.cumsum(lengths.row(row))
            own = list(itertools.pairwise([splits[row], *ends]))
            sequences += own + [(0, 0)] * (count - len(own))
        flat = self.padded(features, sequences, size * count)
        batch: Batch = {k: x.reshape(size, count, *x.shape[1:]) for k, x in flat.items()}
        batch["weights"] = (np.arange(size) < len(rows)).astype(np.float32)
        return batch | self.batch_labels(features, rows, size, batch["input_mask"].shape[-1])

    def encoder_inputs(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """All sequences, int32 [size * sequences, length]."""
        inputs = super().encoder_inputs(batch)
        length = tf.shape(batch["input_word_ids"])[-1]
        return {name: tf.reshape(value, [-1, length]) for name, value in inputs.items()}

    def layer_outputs(self, batch: dict[str, tf.Tensor]) -> dict[int, tf.Tensor]:
        """Those of all sequences, [size * sequences, length, width]."""
        outputs = super().layer_outputs(batch)
        if batch["input_mask"].shape.rank == 2:
            return outputs
        return {
            index: tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], 0))
            for index, value in outputs.items()
        }


def window_means(logits: tf.Tensor, row: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """The mean logits [batch, units] of the windows of each text.

    Args:
      logits: float32 [windows, units].
      row: int64 [windows], the text of each.
      batch: int64 scalar, the number of texts.
    """
    sums, counts = (
        tf.math.unsorted_segment_sum(x, row, batch) for x in (logits, tf.ones_like(logits))
    )
    return sums / counts


def some_present(model: ServedModel, values: tf.Tensor, present: tf.Tensor, what: str) -> tf.Tensor:
    """The values [batch, choices, ...], checked to have a choice in each row.

    Args:
      model: other runtimes than TensorFlow have no checks.
      values: [batch, choices, ...].
      present: bool [batch, choices].
      what: what a choice is called.

    Raises (in the graph):
      InvalidArgumentError: a row has no choice.
    """
    if model.portable:
        return values
    message = f"every row must have a {what} that is not empty."
    check = tf.debugging.Assert(tf.reduce_all(tf.reduce_any(present, -1)), [message])
    with tf.control_dependencies([check]):
        return tf.identity(values)


def best_present(scores: tf.Tensor, present: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The index of the best choice, int32 [batch], and the scores, `ABSENT` where there is none.

    Args:
      scores: float32 [batch, choices].
      present: bool [batch, choices].
    """
    scores = tf.where(present, scores, ABSENT)
    # A lower score is appended, so that a batch without choices has a highest one, too.
    filled = tf.concat([scores, tf.fill([tf.shape(scores)[0], 1], 2 * ABSENT)], 1)
    return tf.argmax(filled, -1, tf.int32), scores
