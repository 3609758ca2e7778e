"""Long short-term memory over sequences (Hochreiter and Schmidhuber 1997; Sak et al. 2014)."""

import math
from typing import NamedTuple

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers.base import Layer, Shape, Weight, serializable

_FORGET_BIAS = 1.0  # added to the forget gate, in addition to its learned bias


class LstmState(NamedTuple):
    """The state of an LSTM between two tokens.

    Attributes:
      output: [batch, width], the output for the previous token.
      cell: float32 [batch, cells].
    """

    output: tf.Tensor
    cell: tf.Tensor


@serializable
class Lstm(Layer):
    """One LSTM layer in one direction, without peepholes.

    The state does not change where the mask is 0, so padding on either side has no effect. Gates
    are in the order input, candidate, forget, output. Cells are always float32.

    Args:
      inputs: Width of the input.
      cells: Width of the cell.
      projection: Width of the projected outputs; None: no projection.
      reverse: Whether it reads from the last token to the first.
      cell_clip: Cells are clipped to [-cell_clip, cell_clip]; None: they are not clipped.
      projection_clip: The same for projected outputs.
    """

    def __init__(
        self,
        inputs: int,
        cells: int,
        projection: int | None = None,
        reverse: bool = False,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        **kwargs,
    ):
        super().__init__((None, None, inputs), **kwargs)
        self.inputs, self.cells, self.projection = inputs, cells, projection
        self.reverse, self.cell_clip, self.projection_clip = reverse, cell_clip, projection_clip

    @property
    def width(self) -> int:
        """Width of the outputs."""
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

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [batch, length, width]."""
        return (*input_shape[:-1], self.width)

    def flops(self, length: int) -> int:
        """Floating-point operations of the products for one sequence: 2 per multiply-add."""
        products = (self.inputs + self.width) * 4 * self.cells
        return 2 * length * (products + self.cells * (self.projection or 0))

    def call(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The outputs of `run`."""
        return self.run(x, mask)[0]

    def run(self, x: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, LstmState]:
        """Reads sequences.

        Args:
          x: [batch, length, inputs], of any floating-point dtype.
          mask: int [batch, length], 1 for tokens and 0 for padding.

        Returns:
          The outputs [batch, length, width], in the dtype of x, which repeat the previous output
          where the mask is 0; and the state after the last token.
        """
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        from_input, recurrent = kernel[: self.inputs], kernel[self.inputs :]
        flat = tf.reshape(x, [-1, self.inputs])
        gates = tf.matmul(flat, from_input) + tf.cast(tf.convert_to_tensor(self.bias), x.dtype)
        shape = tf.shape(x)
        gates = tf.transpose(tf.reshape(gates, [shape[0], shape[1], 4 * self.cells]), [1, 0, 2])
        # An array, because the gradient of a slice would be as large as the whole tensor per token.
        each = tf.TensorArray(x.dtype, shape[1], element_shape=gates.shape[1:]).unstack(gates)
        there = tf.transpose(mask > 0)[:, :, tf.newaxis]
        length = shape[1]

        def advance(
            index: tf.Tensor, before: LstmState, outputs: tf.TensorArray
        ) -> tuple[tf.Tensor, LstmState, tf.TensorArray]:
            at = length - 1 - index if self.reverse else index
            summed = each.read(at) + tf.matmul(before.output, recurrent)
            after = self._advance(summed, before.cell)
            pairs = zip(after, before, strict=True)
            kept = LstmState(*(tf.where(there[at], new, old) for new, old in pairs))
            return index + 1, kept, outputs.write(at, kept.output)

        batch = shape[0]
        begin = LstmState(tf.zeros([batch, self.width], x.dtype), tf.zeros([batch, self.cells]))
        array = tf.TensorArray(x.dtype, length, element_shape=[x.shape[0], self.width])
        _, end, outputs = tf.while_loop(
            lambda index, *_: index < length, advance, (0, begin, array), maximum_iterations=length
        )
        return tf.transpose(outputs.stack(), [1, 0, 2]), end

    def _advance(self, summed: tf.Tensor, cell: tf.Tensor) -> LstmState:
        """The next state, from the input of the gates [batch, 4 cells] and the cell."""
        dtype = summed.dtype
        inputs, candidate, forget, output = tf.split(tf.cast(summed, tf.float32), 4, 1)
        kept = tf.sigmoid(forget + _FORGET_BIAS) * cell
        cell = kept + tf.sigmoid(inputs) * tf.tanh(candidate)
        if self.cell_clip is not None:
            cell = tf.clip_by_value(cell, -self.cell_clip, self.cell_clip)
        found = tf.cast(tf.sigmoid(output) * tf.tanh(cell), dtype)
        if self.projection is not None:
            found = tf.matmul(found, tf.cast(tf.convert_to_tensor(self.projection_kernel), dtype))
            if self.projection_clip is not None:
                found = tf.clip_by_value(found, -self.projection_clip, self.projection_clip)
        return LstmState(found, cell)


@serializable
class BiLstm(Layer):
    """A stack of `depth` bidirectional LSTM layers, each direction `cells` wide.

    `rate` is the dropout rate of the inputs of each layer.
    """

    def __init__(self, inputs: int, cells: int, depth: int = 1, rate: float = 0.0, **kwargs):
        super().__init__((None, None, inputs), **kwargs)
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
        """Width of the outputs."""
        return 2 * self.cells

    def members(self) -> list[Lstm]:
        """The LSTMs from bottom to top, forward before backward."""
        return [lstm for both in self.directions for lstm in both]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [batch, length, 2 cells]."""
        return (*input_shape[:-1], self.width)

    def call(self, x: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """The outputs of `run` at each token."""
        return self.run(x, mask, seed)[0]

    def run(
        self, x: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads sequences as `Lstm.run` does; `seed` is an int32 scalar, None for no dropout.

        Returns:
          The outputs of the top layer, in the dtype of x: at each token [batch, length, 2 cells],
          forward first; and the final ones of both directions, [batch, 2 cells].
        """
        ends: list[tf.Tensor] = []
        for index, both in enumerate(self.directions):
            x = fused_ops.dropout(x, self.rate, None if seed is None else seed + index)
            found = [lstm.run(x, mask) for lstm in both]
            x = tf.concat([outputs for outputs, _ in found], -1)
            ends = [state.output for _, state in found]
        return x, tf.concat(ends, -1)
