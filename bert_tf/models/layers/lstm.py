"""Long short-term memory over sequences (Hochreiter and Schmidhuber 1997; Sak et al. 2014)."""

import math
from typing import NamedTuple

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers.base import Layer, Shape, Weight, serializable


class State(NamedTuple):
    """What an LSTM carries from one token to the next.

    Attributes:
      output: [batch, width], of the token before.
      cell: float32 [batch, cells].
    """

    output: tf.Tensor
    cell: tf.Tensor


@serializable
class Lstm(Layer):
    """One layer of LSTM in one direction, without peepholes.

    Where the mask is 0 the state stays as it was, so that padding on either side changes nothing.
    Gates are in the order input, candidate, forget, output. Cells are float32 whatever the
    inputs are.

    Args:
      inputs: width of the input.
      cells: width of the cell.
      projection: width that outputs are projected to; None: they are as wide as the cell.
      reverse: whether it reads from the last token to the first.
      cell_clip: cells are clipped to this range; None: they are not.
      projection_clip: projected outputs likewise.
      forget_bias: added to the forget gate, beside the bias that is learned.
    """

    def __init__(
        self,
        inputs: int,
        cells: int,
        projection: int | None = None,
        reverse: bool = False,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        forget_bias: float = 1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.inputs, self.cells, self.projection = inputs, cells, projection
        self.reverse = reverse
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.forget_bias = forget_bias

    @property
    def width(self) -> int:
        """Of the outputs."""
        return self.projection or self.cells

    def members(self) -> tuple[Weight, ...]:
        """Kernel [inputs + width, 4 cells], bias [4 cells], and projection [cells, width]."""
        rows = self.inputs + self.width
        kernel = Weight("kernel", (rows, 4 * self.cells), 1 / math.sqrt(rows))
        bias = Weight("bias", (4 * self.cells,), "zeros")
        if self.projection is None:
            return kernel, bias
        shape = (self.cells, self.projection)
        return (
            kernel,
            bias,
            Weight("projection", shape, 1 / math.sqrt(self.cells), "projection_kernel"),
        )

    @property
    def expected_shape(self) -> Shape:
        """[batch, length, inputs]."""
        return (None, None, self.inputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[batch, length, width]."""
        return (*input_shape[:-1], self.width)

    def flops(self, length: int) -> int:
        """Floating-point operations of a sequence: two for each multiply-add of the products."""
        products = (self.inputs + self.width) * 4 * self.cells
        return 2 * length * (products + self.cells * (self.projection or 0))

    def initial_state(self, batch: tf.Tensor, dtype: tf.DType) -> State:
        """Zeros for so many sequences."""
        return State(tf.zeros([batch, self.width], dtype), tf.zeros([batch, self.cells]))

    def call(self, x: tf.Tensor, mask: tf.Tensor, state: State | None = None) -> tf.Tensor:
        """Returns the output at each token, of the shape and dtype that `run` says."""
        return self.run(x, mask, state)[0]

    def run(
        self, x: tf.Tensor, mask: tf.Tensor, state: State | None = None
    ) -> tuple[tf.Tensor, State]:
        """Reads sequences.

        Args:
          x: [batch, length, inputs], of any floating-point dtype.
          mask: int [batch, length], 1 for tokens and 0 for padding.
          state: to begin with; None: zeros.

        Returns:
          The outputs [batch, length, width], of the dtype of x, where the mask is 0 those of the
          token before; and the state after the last token read.
        """
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        from_input, recurrent = kernel[: self.inputs], kernel[self.inputs :]
        flat = tf.reshape(x, [-1, self.inputs])
        gates = tf.matmul(flat, from_input) + tf.cast(tf.convert_to_tensor(self.bias), x.dtype)
        shape = tf.shape(x)
        gates = tf.transpose(tf.reshape(gates, [shape[0], shape[1], 4 * self.cells]), [1, 0, 2])
        # An array, because the gradient of a slice is as large as all of it, at every token.
        each = tf.TensorArray(x.dtype, shape[1], element_shape=gates.shape[1:]).unstack(gates)
        there = tf.transpose(mask > 0)[:, :, tf.newaxis]
        length = shape[1]

        def advance(
            index: tf.Tensor, before: State, outputs: tf.TensorArray
        ) -> tuple[tf.Tensor, State, tf.TensorArray]:
            at = length - 1 - index if self.reverse else index
            summed = each.read(at) + tf.matmul(before.output, recurrent)
            after = self._advance(summed, before.cell)
            pairs = zip(after, before, strict=True)
            kept = State(*(tf.where(there[at], new, old) for new, old in pairs))
            return index + 1, kept, outputs.write(at, kept.output)

        begin = state or self.initial_state(shape[0], x.dtype)
        # Outputs hold where nothing is read, so all of the array is written.
        array = tf.TensorArray(x.dtype, length, element_shape=[x.shape[0], self.width])
        _, end, outputs = tf.while_loop(
            lambda index, *_: index < length,
            advance,
            (0, begin, array),
            maximum_iterations=length,
        )
        return tf.transpose(outputs.stack(), [1, 0, 2]), end

    def _advance(self, summed: tf.Tensor, cell: tf.Tensor) -> State:
        """The state after a token.

        Args:
          summed: [batch, 4 cells], the input of the gates.
          cell: float32 [batch, cells].
        """
        dtype = summed.dtype
        inputs, candidate, forget, output = tf.split(tf.cast(summed, tf.float32), 4, 1)
        kept = tf.sigmoid(forget + self.forget_bias) * cell
        cell = kept + tf.sigmoid(inputs) * tf.tanh(candidate)
        if self.cell_clip is not None:
            cell = tf.clip_by_value(cell, -self.cell_clip, self.cell_clip)
        found = tf.cast(tf.sigmoid(output) * tf.tanh(cell), dtype)
        if self.projection is not None:
            found = tf.matmul(found, tf.cast(tf.convert_to_tensor(self.projection_kernel), dtype))
            if self.projection_clip is not None:
                found = tf.clip_by_value(found, -self.projection_clip, self.projection_clip)
        return State(found, cell)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "inputs": self.inputs,
            "cells": self.cells,
            "projection": self.projection,
            "reverse": self.reverse,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
            "forget_bias": self.forget_bias,
        }


@serializable
class BiLstm(Layer):
    """Layers of LSTM, each of which reads the one below it in both directions.

    Args:
      inputs: width of the input.
      cells: width of each direction.
      depth: layers.
      rate: share of the inputs of each layer that is dropped in training.
    """

    def __init__(self, inputs: int, cells: int, depth: int = 1, rate: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.inputs, self.cells, self.depth, self.rate = inputs, cells, depth, rate
        self.directions = [
            tuple(
                Lstm(
                    2 * cells if index else inputs,
                    cells,
                    reverse=name == "backward",
                    name=f"layer_{index}_{name}",
                    dtype=self.dtype_policy,
                )
                for name in ("forward", "backward")
            )
            for index in range(depth)
        ]

    @property
    def width(self) -> int:
        """Of the outputs."""
        return 2 * self.cells

    def members(self) -> list[Lstm]:
        """The LSTMs from bottom to top, the forward one of each layer first."""
        return [lstm for both in self.directions for lstm in both]

    @property
    def expected_shape(self) -> Shape:
        """[batch, length, inputs]."""
        return (None, None, self.inputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[batch, length, 2 cells]."""
        return (*input_shape[:-1], self.width)

    def flops(self, length: int) -> int:
        """Floating-point operations of the products of a sequence."""
        return sum(lstm.flops(length) for lstm in self.members())

    def call(self, x: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns what `run` does at each token."""
        return self.run(x, mask, seed)[0]

    def run(
        self, x: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads sequences.

        Args:
          x: [batch, length, inputs], of any floating-point dtype.
          mask: int [batch, length], 1 for tokens and 0 for padding.
          seed: int32 scalar, of the dropout; None: nothing is dropped.

        Returns:
          The outputs of the highest layer in the dtype of x: at each token [batch, length,
          2 cells], forward ones first; and of either direction at its end, [batch, 2 cells].
        """
        ends: list[tf.Tensor] = []
        for index, both in enumerate(self.directions):
            x = fused_ops.dropout(x, self.rate, None if seed is None else seed + index)
            found = [lstm.run(x, mask) for lstm in both]
            x = tf.concat([outputs for outputs, _ in found], -1)
            ends = [state.output for _, state in found]
        return x, tf.concat(ends, -1)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "inputs": self.inputs,
            "cells": self.cells,
            "depth": self.depth,
            "rate": self.rate,
        }
