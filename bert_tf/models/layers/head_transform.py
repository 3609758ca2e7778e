"""The layers below the output layer of a head: dense, activation and norm."""

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Configured, Layer, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.normalization import LayerNorm


def transform_layers(
    config: BertConfig, width: int, policy: keras.DTypePolicy, name: str
) -> tuple[Dense, LayerNorm]:
    """The dense layer, with a name, and the norm below the output layer of a head."""
    dense = Dense(
        *(config.hidden_size, width, config.initializer_range, config.transform_bias),
        name=name,
        dtype=policy,
    )
    norm = LayerNorm(
        width, config.layer_norm_eps, use_bias=config.norm_bias, name="norm", dtype=policy
    )
    return dense, norm


def transformed(x: tf.Tensor, dense: Dense, norm: LayerNorm, activation: str) -> tf.Tensor:
    """Applies dense layer, activation and norm to [rows, width]."""
    inner = dense(x, add_bias=False)
    return norm(fused_ops.bias_activation(inner, tf.convert_to_tensor(dense.bias), activation))


@serializable
class HeadTransform(Configured, Layer):
    """A dense layer, the activation of the encoder and a norm, below a linear map (ModernBERT)."""

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
        self.config = config
        policy = self.dtype_policy
        self.dense, self.norm = transform_layers(config, config.hidden_size, policy, "dense")

    def members(self) -> tuple[Layer, ...]:
        """The dense layer and the norm."""
        return self.dense, self.norm

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [rows, hidden_size] to [rows, hidden_size]."""
        return transformed(x, self.dense, self.norm, self.config.hidden_act)
