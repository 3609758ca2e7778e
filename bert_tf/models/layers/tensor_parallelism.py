"""Layers in parts that are computed at once (Shoeybi et al., arXiv 1909.08053, section 3).

Two linear maps with attention or an activation between them are cut lengthwise: a part has some of
the columns of the first kernel and the rows of the second that meet them, and what the parts give
is added up. No part needs another. So the threads of a processor share a layer, where they would
share each of its products, which takes longer than it saves while a product is small.
"""

import contextvars
from contextlib import AbstractContextManager
from typing import NamedTuple

import tensorflow as tf

from bert_tf.models.layers.dense import Dense
from bert_tf.models.switches import switched


class Part(NamedTuple):
    """A part of two linear maps, of the dtype that is computed in.

    Attributes:
      kernel: [inputs, columns], of the first map.
      bias: [columns], of the first map.
      output_kernel: [rows, outputs], of the second map.
    """

    kernel: tf.Tensor
    bias: tf.Tensor
    output_kernel: tf.Tensor


class Cut:
    """Kernels in parts, each cut once, whatever is traced with them.

    Args:
      count: into how many parts layers are cut, or fewer.
    """

    def __init__(self, count: int):
        self._count = count
        self._known: dict[tuple[Dense, tf.DType], list[Part]] = {}

    def parts(
        self, first: Dense, second: Dense, units: int, dtype: tf.DType, groups: int
    ) -> list[Part]:
        """See `parts`."""
        count = next(n for n in range(min(self._count, units), 0, -1) if units % n == 0)
        if count == 1 or any(dense.quantized or dense.lora_enabled for dense in (first, second)):
            return []
        key = first, dtype
        if key not in self._known:
            with tf.init_scope():
                self._known[key] = _parts(first, second, count, dtype, groups)
        return self._known[key]


_cut: contextvars.ContextVar[Cut | None]
_cut = contextvars.ContextVar("tensor_parallelism", default=None)


def in_parts(cut: Cut | None) -> AbstractContextManager[None]:
    """Within it, layers that are traced for inference are in parts; None: as a whole.

    The parts are constants beside the variables: the memory of the kernels is taken once more.
    """
    return switched(_cut, cut)


def parts(first: Dense, second: Dense, units: int, dtype: tf.DType, groups: int = 1) -> list[Part]:
    """The parts of two linear maps within `in_parts`; none where they are to stay whole.

    Kernels that LoRA or int8 computes with stay whole.

    Args:
      first: its columns are `groups` times `units` blocks, as those of queries, keys and values
        are three times the heads.
      second: its rows are `units` blocks.
      units: blocks that stay whole.
      dtype: to compute in.
      groups: of columns; each part has the same of all.
    """
    cut = _cut.get()
    return [] if cut is None else cut.parts(first, second, units, dtype, groups)


def _parts(first: Dense, second: Dense, count: int, dtype: tf.DType, groups: int) -> list[Part]:
    def columns(value: tf.Tensor) -> list[tf.Tensor]:
        shape = tf.shape(value)[:-1]
        grouped = tf.reshape(value, tf.concat([shape, [groups, -1]], 0))
        flat = tf.concat([shape, [-1]], 0)
        return [tf.reshape(part, flat) for part in tf.split(grouped, count, -1)]

    kernel, bias, output_kernel = (
        tf.cast(tf.convert_to_tensor(value), dtype)
        for value in (first.kernel, first.bias, second.kernel)
    )
    cut = zip(columns(kernel), columns(bias), tf.split(output_kernel, count), strict=True)
    return [Part(*each) for each in cut]
