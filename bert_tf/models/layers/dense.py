"""A linear map of rows, its bias left to the operation that follows."""

import tensorflow as tf

from bert_tf.models.layers.base import Layer, Weight


class Dense(Layer):
    """Multiplies [rows, inputs] by a kernel and adds a bias, or leaves that to the caller.

    Args:
      inputs: width of the input.
      units: width of the output.
      initializer_range: standard deviation of the kernel's initial values.
    """

    def __init__(self, inputs: int, units: int, initializer_range: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.inputs = inputs
        self.units = units
        self.initializer_range = initializer_range

    def statement(self) -> tuple[Weight, ...]:
        """Kernel [inputs, units] and bias [units]."""
        return (
            Weight("kernel", (self.inputs, self.units), self.initializer_range),
            Weight("bias", (self.units,), "zeros"),
        )

    def flops(self, rows: int) -> int:
        """Floating-point operations of so many rows: two for each multiply-add."""
        return 2 * rows * self.inputs * self.units

    def call(self, x: tf.Tensor, add_bias: bool = True) -> tf.Tensor:
        """Maps [rows, inputs] to [rows, units] in the compute dtype."""
        y = tf.matmul(x, tf.cast(tf.convert_to_tensor(self.kernel), x.dtype))
        return y + tf.cast(self.bias, y.dtype) if add_bias else y

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "inputs": self.inputs,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }
