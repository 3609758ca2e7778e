"""Windows of contexts, preceded by their questions, as columns of features."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pipelines.labelled.features import FeatureColumn
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer


class WindowSizes(NamedTuple):
    """Sizes of windows in tokens, as `packing.slide` takes them."""

    max_seq_length: int
    stride: int
    max_question: int


def chunk_features(
    sizes: WindowSizes,
    examples: Sequence[SpanExample],
    first: int,
    tokenizer: Tokenizer,
    labelled: bool,
) -> tuple[dict[str, Any], dict[str, int]]:
    """Ragged tensors [windows, (numbers)] by name, of examples that begin with number `first`.

    The second result counts the examples of which something is cut.
    """
    question = tokenizer.tokenize([example.question for example in examples])
    # Several questions share a context; it is tokenized once.
    numbers: dict[str, int] = {}
    which = [numbers.setdefault(example.context, len(numbers)) for example in examples]
    context, starts, ends = (
        tf.gather(values, which) for values in tokenizer.tokenize_with_offsets(list(numbers))
    )
    windows = packing.slide(tokenizer, question, context, *sizes)
    columns = {
        "input_word_ids": windows.packed.word_ids,
        "input_type_ids": windows.packed.type_ids,
        "example": _single(windows.row + first),
        "offset": _single(windows.offset),
        "best": tf.cast(windows.best, tf.int32),
        "starts": _window_values(starts, windows),
        "ends": _window_values(ends, windows),
    }
    row = windows.row.numpy()
    is_cut = tf.gather(question.row_lengths(), row) > windows.offset - 1 - tokenizer.separators
    counts = {"long questions, cut": len(np.unique(row[is_cut.numpy()]))}
    if labelled:
        first_bytes, end_bytes = FeatureColumn.of(starts), FeatureColumn.of(ends)
        positions = [
            _answer_tokens(example, first_bytes.row(index), end_bytes.row(index))
            for index, example in enumerate(examples)
        ]
        labels = _labels(np.array(positions), windows)
        columns["labels"] = tf.RaggedTensor.from_tensor(
            tf.constant(labels), row_splits_dtype=tf.int64
        )
        has_answer = np.array([bool(example.answers) for example in examples])
        has_answer[row[labels[:, 0] > 0]] = False
        counts["answers that are in no window"] = int(has_answer.sum())
    return columns, counts


def _single(values: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_tensor(values[:, tf.newaxis], row_splits_dtype=tf.int64)


def _window_values(values: tf.RaggedTensor, windows: packing.Windows) -> tf.RaggedTensor:
    """Values of the contexts' tokens, for the tokens of each window."""
    positions = tf.ragged.range(windows.start, windows.start + windows.length)
    first = tf.gather(values.row_starts(), windows.row)
    flat = positions.flat_values + tf.gather(first, positions.value_rowids())
    return positions.with_flat_values(tf.gather(values.flat_values, flat))


def _answer_tokens(example: SpanExample, starts: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """The first and the last token of the first answer; (-1, -1) without an answer."""
    if not example.answers:
        return -1, -1
    answer = example.answers[0]
    begin = len(example.context[: answer.start].encode())
    finish = begin + len(answer.text.encode())
    first = int(np.searchsorted(ends, begin, side="right"))
    last = int(np.searchsorted(starts, finish, side="left")) - 1
    return (first, last) if first <= last else (-1, -1)


def _labels(positions: np.ndarray, windows: packing.Windows) -> np.ndarray:
    """Start and end in each window; (0, 0), which is [CLS], if the answer is not in it."""
    answer = positions[windows.row.numpy()]
    start, length = windows.start.numpy(), windows.length.numpy()
    within = (answer[:, 0] >= start) & (answer[:, 1] < start + length) & (answer[:, 0] >= 0)
    moved = answer - start[:, np.newaxis] + windows.offset.numpy()[:, np.newaxis]
    return np.where(within[:, np.newaxis], moved, 0)
