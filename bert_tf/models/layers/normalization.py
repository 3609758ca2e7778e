"""Layer normalization, in float32 whatever the compute dtype."""

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers.base import Layer, Shape, Weight, serializable


@serializable
class LayerNorm(Layer):
    """LayerNorm over the last axis of [rows, width], then dropout.

    Args:
      width: of input and output.
      epsilon: added to the variance.
      rate: share of the outputs dropped in training.
    """

    def __init__(self, width: int, epsilon: float = 1e-12, rate: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.epsilon = epsilon
        self.rate = rate

    def members(self) -> tuple[Weight, ...]:
        """Gamma and beta [width]."""
        return Weight("gamma", (self.width,), "ones"), Weight("beta", (self.width,), "zeros")

    @property
    def expected_shape(self) -> Shape:
        """[rows, width]."""
        return (None, self.width)

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Normalizes; drops out where a seed (int32 scalar) is given."""
        rate, seed = (0.0, tf.constant(0)) if seed is None else (self.rate, seed)
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        return fused_ops.norm_dropout(x, gamma, beta, self.epsilon, rate, seed)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "width": self.width,
            "epsilon": self.epsilon,
            "rate": self.rate,
        }


@serializable
class ResidualNorm(LayerNorm):
    """LayerNorm(residual + dropout(x + bias)): the end of every sub-layer (post-norm)."""

    def call(  # type: ignore[override]  # each Keras layer says what it takes
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        residual: tf.Tensor,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Adds and normalizes [rows, width]; drops out where a seed (int32 scalar) is given."""
        rate, seed = (0.0, tf.constant(0)) if seed is None else (self.rate, seed)
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        bias = tf.convert_to_tensor(bias)
        return fused_ops.residual_norm(x, bias, residual, gamma, beta, self.epsilon, rate, seed)
