"""A linear map of rows, its bias left to the operation that follows."""

import tensorflow as tf

from bert_tf.models.layers import initializers
from bert_tf.models.layers.base import Layer


class Dense(Layer):
    """Multiplies [rows, inputs] by a kernel and adds a bias, or leaves that to the caller.

    Args:
      units: width of the output.
      initializer_range: standard deviation of the kernel's initial values.
    """

    def __init__(self, units: int, initializer_range: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.initializer_range = initializer_range

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates kernel [inputs, units] and bias [units], float32 variables."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], self.units),
            initializer=initializers.truncated_normal(self.initializer_range),
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, x: tf.Tensor, add_bias: bool = True) -> tf.Tensor:
        """Maps [rows, inputs] to [rows, units] in the compute dtype."""
        y = tf.matmul(x, tf.cast(tf.convert_to_tensor(self.kernel), x.dtype))
        return y + tf.cast(self.bias, y.dtype) if add_bias else y

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "units": self.units,
            "initializer_range": self.initializer_range,
        }
