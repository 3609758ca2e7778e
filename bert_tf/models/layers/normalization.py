"""Layer normalization, in float32 with any compute dtype."""

import numpy as np
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers.base import Layer, Weight, serializable


@serializable
class LayerNorm(Layer):
    """LayerNorm (Ba et al. 2016) over the last axis of [rows, width], then dropout with a rate.

    With `use_bias` false, beta is zero.
    """

    def __init__(
        self, width: int, epsilon: float = 1e-12, rate: float = 0.0, use_bias: bool = True, **kwargs
    ):
        super().__init__((None, width), **kwargs)
        self.width, self.epsilon, self.rate, self.use_bias = width, epsilon, rate, use_bias
        if not use_bias:
            self.beta = np.zeros(width, np.float32)

    def members(self) -> tuple[Weight, ...]:
        """Gamma and, if it has one, beta [width]."""
        gamma = Weight("gamma", (self.width,), "ones")
        return (gamma, Weight("beta", (self.width,), "zeros")) if self.use_bias else (gamma,)

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Normalizes x; applies dropout if a seed (int32 scalar) is given."""
        rate, seed = (0.0, tf.constant(0)) if seed is None else (self.rate, seed)
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        return fused_ops.norm_dropout(x, gamma, beta, self.epsilon, rate, seed)


@serializable
class ResidualNorm(LayerNorm):
    """LayerNorm(residual + dropout(x + bias)), which ends each sub-layer (post-norm)."""

    def call(  # type: ignore[override]  # each Keras layer has its own arguments
        self, x: tf.Tensor, bias: tf.Tensor, residual: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Adds and normalizes [rows, width]; applies dropout if a seed (int32 scalar) is given."""
        rate, seed = (0.0, tf.constant(0)) if seed is None else (self.rate, seed)
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        bias = tf.convert_to_tensor(bias)
        return fused_ops.residual_norm(x, bias, residual, gamma, beta, self.epsilon, rate, seed)
