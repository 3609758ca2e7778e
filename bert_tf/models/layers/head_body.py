"""The layers of a head below its linear map: a transform, or those of features (section 5.3)."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.head_config import HeadConfig, HeadLayers
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.lstm import BiLstm
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


@serializable
class LayerMix(Layer):
    """A weighted sum of layers: `scale` times the sum weighted by the softmax of `weights`.

    Peters et al. 2018 (arXiv 1802.05365), equation 1.
    """

    def __init__(self, count: int, width: int, **kwargs):
        super().__init__((None, None, width), **kwargs)
        self.count, self.width = count, width

    def members(self) -> tuple[Weight, ...]:
        """`weights` [count], initially equal, and `scale` [1]."""
        weights = Weight("weights", (self.count,), "zeros", "layer_weights")
        return weights, Weight("scale", (1,), "ones")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape of one layer."""
        return input_shape

    def call(self, layers: Sequence[tf.Tensor]) -> tf.Tensor:
        """Sums `count` float32 or bfloat16 tensors [batch, length, width]."""
        weights = tf.nn.softmax(tf.convert_to_tensor(self.layer_weights))
        factors = tf.unstack(tf.cast(weights * tf.convert_to_tensor(self.scale), layers[0].dtype))
        return tf.add_n([factor * x for factor, x in zip(factors, layers, strict=True)])


@serializable
class HeadBody(Layer):
    """The layers of a head below its linear map: a mix or concatenation of layers, and a BiLSTM.

    Args:
      width: Width of the encoder.
      depth: Number of layers of the encoder.
      config: The layers to read, and the BiLSTM.
      per_token: Whether there is one vector for each token, or one for each sequence: the final
        outputs of both directions of the BiLSTM.
      rate: Dropout rate of the inputs of each LSTM layer.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        config: HeadConfig,
        per_token: bool,
        rate: float = 0.1,
        **kwargs,
    ):
        super().__init__((None, None, width), **kwargs)
        self.config = config = config if isinstance(config, HeadConfig) else HeadConfig(**config)
        self.config.check_task(per_token, self.name)
        self.width, self.depth, self.per_token, self.rate = width, depth, per_token, rate
        self.indices = self.config.indices(depth)
        joined = self.config.layers is HeadLayers.CONCAT_LAST_4
        self.output_width = width * len(self.indices) if joined else width
        self.mix = self.bilstm = None
        if self.config.layers.startswith("weighted"):
            self.mix = LayerMix(len(self.indices), width, name="mix", dtype=self.dtype_policy)
        if self.config.bilstm_layers:
            sizes = (self.output_width, config.bilstm_width, config.bilstm_layers)
            self.bilstm = BiLstm(*sizes, rate, name="bilstm", dtype=self.dtype_policy)
            self.output_width = self.bilstm.width

    def members(self) -> list[Layer]:
        """The mix of layers and the BiLSTM, if they exist."""
        return [part for part in (self.mix, self.bilstm) if part is not None]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [batch, length, output_width], or [batch, output_width]."""
        batch, length, _ = input_shape
        return (batch, length, self.output_width) if self.per_token else (batch, self.output_width)

    def call(
        self, layers: Sequence[tf.Tensor], mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Computes [batch, length, output_width], or [batch, output_width].

        Args:
          layers: [batch, length, width] of each layer that is read, from bottom to top.
          mask: int [batch, length], 1 for tokens and 0 for padding.
          seed: int32 scalar for dropout; None: no dropout.
        """
        x = self.mix(layers) if self.mix is not None else tf.concat(list(layers), -1)
        if self.bilstm is None:
            return x
        tokens, ends = self.bilstm.run(x, mask, seed)
        return tokens if self.per_token else ends
