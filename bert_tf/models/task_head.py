"""The head of a task (paper, section 3.2), with what may stand below its linear map (5.1, 5.3)."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.head_config import HeadConfig, HeadLayers
from bert_tf.models.layers import BiLstm, Dense, LayerMix
from bert_tf.models.layers.base import Layer, Shape, serializable

# Any other number than the seed of the output's dropout draws on its own.
_BODY_SEED = 0x3C6EF372


@serializable
class HeadBody(Layer):
    """What a head makes of the outputs of layers before its linear map.

    Args:
      width: of the encoder.
      depth: layers of the encoder.
      config: which of them are read, and the BiLSTM over them.
      per_token: whether there is a vector for every token, or one of each sequence: what the
        BiLSTM has at its end in either direction.
      rate: share of the inputs of each layer of LSTM that is dropped in training.
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
        super().__init__(**kwargs)
        self.config = config if isinstance(config, HeadConfig) else HeadConfig(**config)
        self.config.check_task(per_token, self.name)
        self.width, self.depth, self.per_token, self.rate = width, depth, per_token, rate
        self.indices = self.config.indices(depth)
        self.mix = self._make_mix()
        self.bilstm = self._make_bilstm()

    def _make_mix(self) -> LayerMix | None:
        if not self.config.layers.startswith("weighted"):
            return None
        return LayerMix(len(self.indices), self.width, name="mix", dtype=self.dtype_policy)

    def _make_bilstm(self) -> BiLstm | None:
        if not self.config.bilstm_layers:
            return None
        joined = self.config.layers is HeadLayers.CONCAT_LAST_4
        return BiLstm(
            self.width * len(self.indices) if joined else self.width,
            self.config.bilstm_width,
            self.config.bilstm_layers,
            self.rate,
            name="bilstm",
            dtype=self.dtype_policy,
        )

    @property
    def output_width(self) -> int:
        """Of the vectors that it makes."""
        if self.bilstm is not None:
            return self.bilstm.width
        joined = self.config.layers is HeadLayers.CONCAT_LAST_4
        return self.width * len(self.indices) if joined else self.width

    def members(self) -> list[Layer]:
        """The mix of layers and the BiLSTM, as far as there are such."""
        return [part for part in (self.mix, self.bilstm) if part is not None]

    @property
    def expected_shape(self) -> Shape:
        """[batch, length, width], of each layer."""
        return (None, None, self.width)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[batch, length, output_width], or [batch, output_width]."""
        batch, length, _ = input_shape
        return (batch, length, self.output_width) if self.per_token else (batch, self.output_width)

    def call(
        self, layers: Sequence[tf.Tensor], mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Makes vectors of tokens, or of sequences.

        Args:
          layers: [batch, length, width] of each layer that is read, from bottom to top.
          mask: int [batch, length], 1 for tokens and 0 for padding.
          seed: int32 scalar, of the dropout; None: nothing is dropped.

        Returns:
          [batch, length, output_width], or [batch, output_width], of the dtype of the layers.
        """
        x = self.mix(layers) if self.mix is not None else tf.concat(list(layers), -1)
        if self.bilstm is None:
            return x
        tokens, ends = self.bilstm.run(x, mask, seed)
        return tokens if self.per_token else ends

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "width": self.width,
            "depth": self.depth,
            "config": self.config.to_dict(),
            "per_token": self.per_token,
            "rate": self.rate,
        }


@serializable
class TaskHead(Dense):
    """The output layer of a task: a linear map, after dropout, of [CLS] or of every token.

    Args:
      inputs: width of the encoder.
      units: logits.
      per_token: whether there are logits for every token.
      rate: share of the inputs dropped in training.
      initializer_range: of the kernel.
      depth: layers of the encoder; of need to a head that does not read the last one.
      body: what stands below the linear map; None: nothing.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        per_token: bool = False,
        rate: float = 0.1,
        initializer_range: float = 0.02,
        depth: int = 1,
        body: HeadConfig | Mapping[str, Any] | None = None,
        **kwargs,
    ):
        config = body if isinstance(body, HeadConfig) else HeadConfig(**(body or {}))
        made = None
        if not config.is_plain:
            policy = kwargs.get("dtype")
            made = HeadBody(inputs, depth, config, per_token, rate, name="body", dtype=policy)
        width = inputs if made is None else made.output_width
        super().__init__(width, units, initializer_range, **kwargs)
        self.encoder_width, self.depth = inputs, depth
        self.per_token = per_token
        self.rate = rate
        self.config = config
        self.body = made

    def members(self) -> tuple[Any, ...]:
        """The body, if there is one, kernel [its width, units] and bias [units]."""
        linear = super().members()
        return linear if self.body is None else (self.body, *linear)

    @property
    def reads_pooled(self) -> bool:
        """Whether it reads the pooled output, and no token's."""
        return self.config.reads_pooled(self.per_token)

    @property
    def indices(self) -> tuple[int, ...]:
        """The numbers of the layers that it reads; 0 is the embeddings."""
        return self.config.indices(self.depth)

    def call(
        self,
        outputs: dict[str, Any],
        seed: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Returns float32 logits [batch, units], or [batch, length, units].

        Args:
          outputs: of the encoder.
          seed: int32 scalar, of the dropout; None: no dropout, unless in training.
          training: whether to draw a seed where there is none, as `fit` of Keras wants it.
        """
        if training and seed is None:
            seed = tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)
        x = self._features(outputs, seed)
        rows = tf.reshape(x, [-1, x.shape[-1]])
        logits = super().call(fused_ops.dropout(rows, self.rate, seed), add_bias=False)
        logits = tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.bias)
        return tf.reshape(logits, tf.concat([tf.shape(x)[:-1], [self.units]], 0))

    def _features(self, outputs: dict[str, Any], seed: tf.Tensor | None) -> tf.Tensor:
        """What the linear map takes."""
        if self.body is None:
            return outputs["sequence_output" if self.per_token else "pooled_output"]
        layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        body_seed = None if seed is None else seed ^ _BODY_SEED
        return self.body([layers[i] for i in self.indices], outputs["input_mask"], body_seed)

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """Those of the encoder's outputs."""
        return {
            "sequence_output": (None, None, self.encoder_width),
            "pooled_output": (None, self.encoder_width),
        }

    def compute_output_shape(  # type: ignore[override]  # each Keras layer says what it takes
        self, input_shape: dict[str, Shape]
    ) -> Shape:
        """[batch, units], or [batch, length, units], by the shapes of the encoder's outputs."""
        if self.body is not None:
            *rows, _ = self.body.compute_output_shape(input_shape["sequence_output"])
            return (*rows, self.units)
        shape = input_shape["sequence_output" if self.per_token else "pooled_output"]
        return super().compute_output_shape(shape)

    def compute_output_spec(  # type: ignore[override]  # each Keras layer says what it takes
        self, outputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """What `call` returns for symbolic outputs of the encoder."""
        shapes = {name: outputs[name].shape for name in self.expected_shape}
        return keras.KerasTensor(self.compute_output_shape(shapes), "float32")

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        changes: dict[str, Any] = {
            "per_token": self.per_token,
            "rate": self.rate,
            "inputs": self.encoder_width,
        }
        if self.body is not None:
            changes |= {"depth": self.depth, "body": self.config.to_dict()}
        return super().get_config() | changes
