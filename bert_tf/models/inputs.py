"""Inputs of the encoder in all accepted forms: ids, mask and segments."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import MODEL_INPUTS

_IDS, _MASK, _TYPES = MODEL_INPUTS
_FORMS = (
    f"the encoder takes a dict of {_IDS}, {_MASK} and {_TYPES}, these three in a list, or the ids "
    "alone"
)
SHAPES: dict[str, tuple[int | None, ...]] = dict.fromkeys(MODEL_INPUTS, (None, None))


class EncoderInputs(NamedTuple):
    """A batch of sequences, [batch, length] each; `type_ids` may be None."""

    word_ids: tf.Tensor
    mask: tf.Tensor
    type_ids: tf.Tensor | None

    @classmethod
    def of(cls, inputs: Any, pad_id: int, types: int) -> Self:
        """Converts inputs of any accepted form, and makes a missing mask.

        Args:
          inputs: As for `BertEncoder.call`.
          pad_id: The padding id; without a mask, all other ids are tokens.
          types: Number of segment embeddings of the model.

        Raises:
          InputError: The inputs have another form, names, rank, dtype or shape; or, in eager mode,
            a mask other than 0 and 1, or a segment that the model does not have.
        """
        found = named(inputs, types > 0)
        if tf.executing_eagerly():
            _check_values(_MASK, found.get(_MASK), 2)
            _check_values(_TYPES, found.get(_TYPES) if types else None, types)
        word_ids = tf.cast(found[_IDS], tf.int32)
        mask = found.get(_MASK)
        mask = tf.cast(word_ids != pad_id if mask is None else mask, tf.int32)
        type_ids = found.get(_TYPES) if types else None
        return cls(word_ids, mask, None if type_ids is None else tf.cast(type_ids, tf.int32))


def complete(inputs: Any, pad_id: int) -> dict[str, tf.Tensor]:
    """All three inputs by name, int32 [batch, length] each, of any form with segments.

    Raises:
      InputError: As for `EncoderInputs.of`, or the segments are missing.
    """
    found = EncoderInputs.of(inputs, pad_id, types=2)
    if found.type_ids is None:
        raise InputError(f"pairs that are read in both orders need {_TYPES}; {_FORMS}.")
    return dict(zip(MODEL_INPUTS, found, strict=True))


def named(inputs: Any, typed: bool) -> dict[str, Any]:
    """The given inputs by name, tensors or symbolic tensors; as `EncoderInputs.of` accepts them."""
    if isinstance(inputs, Mapping):
        found = {name: inputs[name] for name in MODEL_INPUTS if inputs.get(name) is not None}
        others = sorted(inputs.keys() - set(MODEL_INPUTS))
        wanted = MODEL_INPUTS if typed else (_IDS, _MASK)
        missing = [name for name in wanted if name not in found]
        # A batch may also have labels, but an unknown name in place of an input is a mistake.
        if _IDS not in found or (others and missing):
            unknown = f" and has {', '.join(map(repr, others))}" if others else ""
            raise InputError(f"the input lacks {', '.join(missing)}{unknown}; {_FORMS}.")
    elif isinstance(inputs, list | tuple):
        if len(inputs) != len(MODEL_INPUTS):
            raise InputError(f"the input is a list of {len(inputs)}; {_FORMS}.")
        pairs = zip(MODEL_INPUTS, inputs, strict=True)
        found = {name: value for name, value in pairs if value is not None}
    else:
        found = {_IDS: inputs}
    for name, value in found.items():
        _check(name, value)
    shape = tf.TensorShape(found[_IDS].shape)
    for name, value in found.items():
        other = tf.TensorShape(value.shape)
        if not shape.is_compatible_with(other):
            raise InputError(f"{name} has the shape {other}, but {_IDS} {shape}.")
    return found


def _check_values(name: str, values: Any, count: int) -> None:
    """Raises InputError unless all values are whole numbers from 0 on, below a count."""
    if values is None or tf.as_dtype(values.dtype).is_bool:
        return
    values = np.asarray(values)
    wrong = values[~np.isin(values, np.arange(count))]
    if wrong.size:
        raise InputError(f"{name} has {wrong[0]}; it must be a whole number from 0 to {count - 1}.")


def _check(name: str, value: Any) -> None:
    """Raises InputError if a value is not a batch of whole numbers."""
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        raise InputError(
            f"{name} is a {type(value).__name__}; pad it (to_tensor), to [batch, length]."
        )
    dtype = tf.as_dtype(value.dtype)
    whole = dtype.is_integer or (name == _MASK and (dtype.is_bool or dtype.is_floating))
    if not whole:
        raise InputError(
            f"{name} is {dtype.name}; ids are whole numbers (int32). Create a symbolic input with "
            f"keras.Input(shape, dtype='int32'), and convert texts with tokenizer(texts)."
        )
    rank = tf.TensorShape(value.shape).rank
    if rank not in (None, 2):
        raise InputError(
            f"{name} has {rank} ax{'is' if rank == 1 else 'es'}; it must be [batch, length]."
        )
