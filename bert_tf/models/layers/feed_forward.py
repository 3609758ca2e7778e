"""The position-wise feed-forward network (Vaswani et al. 2017, section 3.3)."""

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers import tensor_parallelism
from bert_tf.models.layers.base import Layer, Shape, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.tensor_parallelism import Part


@serializable
class FeedForward(Layer):
    """Two linear maps with an activation between, without the bias of the second.

    Args:
      hidden_size: width of input and output.
      intermediate_size: width between.
      activation: a name of `config.ACTIVATIONS`.
      initializer_range: of the kernels.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.initializer_range = initializer_range
        policy = self.dtype_policy
        self.intermediate = Dense(
            hidden_size, intermediate_size, initializer_range, name="intermediate", dtype=policy
        )
        self.output_dense = Dense(
            intermediate_size, hidden_size, initializer_range, name="output", dtype=policy
        )

    def members(self) -> tuple[Dense, ...]:
        """The two maps."""
        return self.intermediate, self.output_dense

    @property
    def expected_shape(self) -> Shape:
        """[rows, hidden_size]."""
        return (None, self.hidden_size)

    def flops(self, rows: int) -> int:
        """Floating-point operations of the products of so many rows."""
        return self.intermediate.flops(rows) + self.output_dense.flops(rows)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [rows, hidden_size] to [rows, hidden_size]."""
        parts = tensor_parallelism.parts(
            self.intermediate, self.output_dense, self.intermediate_size, x.dtype
        )
        if parts:
            return tf.add_n([self._part(part, x) for part in parts])
        inner = self.intermediate(x, add_bias=False)
        bias = tf.convert_to_tensor(self.intermediate.bias)
        inner = fused_ops.bias_activation(inner, bias, self.activation)
        return self.output_dense(inner, add_bias=False)

    def _part(self, part: Part, x: tf.Tensor) -> tf.Tensor:
        inner = tf.matmul(x, part.kernel)
        inner = fused_ops.bias_activation(inner, part.bias, self.activation)
        return tf.matmul(inner, part.output_kernel)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "activation": self.activation,
            "initializer_range": self.initializer_range,
        }
