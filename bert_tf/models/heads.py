"""Heads: the masked LM head (paper, section 3.1) and the heads of tasks (3.2, 5.1, 5.3)."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import activations, fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.head_config import HeadConfig, Pooling
from bert_tf.models.layers import Dense, pooling
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable
from bert_tf.models.layers.head_body import HeadBody, HeadTransform, transform_layers, transformed

# Makes the seed of the body differ from that of the dropout before the linear map.
_BODY_SEED = 0x3C6EF372


@serializable
class MaskedLMHead(Configured, Layer):
    """Logits over the vocabulary, with the word embeddings as tied output weights.

    Without `vocab_transform` it has no weights of its own, and its bias is zero.
    """

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
        self.config = config
        width, policy = config.embedding_width, self.dtype_policy
        if not config.vocab_transform:
            self.bias = np.zeros(config.vocab_size, np.float32)
            return
        self.transform, self.norm = transform_layers(config, width, policy, "transform")

    def members(self) -> tuple[Layer | Weight, ...]:
        """The transform, its norm, and the output bias [vocab_size]."""
        if not self.config.vocab_transform:
            return ()
        bias = Weight("output_bias", (self.config.vocab_size,), "zeros", "bias")
        return self.transform, self.norm, bias

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [rows, vocab_size] for [rows, hidden_size]."""
        rows, _ = super().compute_output_shape(input_shape)
        return (rows, self.config.vocab_size)

    def flops(self, predictions: int) -> int:
        """Floating-point operations of the products for `predictions` positions."""
        vocabulary = 2 * predictions * self.config.embedding_width * self.config.vocab_size
        return super().flops(predictions) + vocabulary

    def call(self, x: tf.Tensor, word_embeddings: tf.Tensor) -> tf.Tensor:
        """Returns the logits [rows, vocab_size], in the compute dtype, without their bias.

        Args:
          x: [rows, hidden_size], encoder outputs at the positions to predict.
          word_embeddings: [vocab_size, embedding width], of the encoder.
        """
        inner = x
        if self.config.vocab_transform:
            inner = transformed(x, self.transform, self.norm, self.config.hidden_act)
        table = tf.cast(tf.convert_to_tensor(word_embeddings), inner.dtype)
        return tf.matmul(inner, table, transpose_b=True)


class OutputsHead(Layer):
    """A head that reads outputs of the encoder by name, and returns float32.

    Attributes:
      per_token: Whether it has outputs for every token.
      reads_pooled: Whether it reads the pooled output, rather than those of tokens.
      both_orders: Whether pairs are read in both orders.
      encoder_width: Width of the encoder.
      transitions: Scores of a tag (column) after another (row), of a CRF [units + 1, units + 1];
        the last row is the start of a text, the last column its end. None: not a CRF.
    """

    per_token = reads_pooled = both_orders = False
    encoder_width: int
    transitions: keras.Variable | None = None

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """The shapes of the encoder's outputs that it reads."""
        return {"sequence_output": (None, None, self.encoder_width)}

    def compute_output_spec(self, x: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The output for symbolic outputs of the encoder."""
        shapes = {name: x[name].shape for name in self.expected_shape}
        return keras.KerasTensor(self.compute_output_shape(shapes), "float32")


@serializable
class VocabularyHead(OutputsHead, MaskedLMHead):
    """The head of tasks that write texts: that of the model, without weights of its own."""

    per_token = True

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.encoder_width, self.units = config.hidden_size, config.vocab_size

    def compute_output_shape(  # type: ignore[override]  # each Keras layer has its own arguments
        self, input_shape: dict[str, Shape]
    ) -> Shape:
        """The shape [batch, length, vocab_size]."""
        *rows, _ = input_shape["sequence_output"]
        return (*rows, self.config.vocab_size)

    def call(self, outputs: dict[str, Any], seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns float32 logits [batch, length, vocab_size] of outputs of the encoder.

        It has no dropout, so `seed` has no effect.
        """
        sequence = outputs["sequence_output"]
        logits = super().call(
            tf.reshape(sequence, [-1, self.config.hidden_size]), outputs["word_embeddings"]
        )
        shape = tf.concat([tf.shape(sequence)[:2], [self.units]], 0)
        return tf.reshape(tf.cast(logits, tf.float32), shape)


@serializable
class SentenceHead(OutputsHead):
    """The vector of a sequence, pooled of those of its tokens, without weights.

    Reimers and Gurevych 2019 (arXiv 1908.10084), section 3.

    Args:
      width: Of the vectors.
      pooling: One of `PLAIN_POOLING`.
    """

    def __init__(self, width: int, pooling: str = Pooling.MEAN, **kwargs):
        super().__init__((None, None, width), **kwargs)
        self.width = self.units = self.encoder_width = width
        self.pooling = Pooling(pooling)

    def compute_output_shape(self, input_shape: dict[str, Shape]) -> Shape:
        """The shape [batch, width]."""
        return (input_shape["sequence_output"][0], self.width)

    def call(self, outputs: dict[str, Any], seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns float32 vectors [batch, width]; it has no dropout, so `seed` has no effect."""
        return pooling.PLAIN[self.pooling](outputs["sequence_output"], outputs["input_mask"])


@serializable
class DenseSentenceHead(OutputsHead, Dense):
    """The vector of a sequence, pooled of those of its tokens, a linear map and an activation.

    Args:
      inputs: Width of the encoder.
      units: Width of the vectors.
      pooling: One of `PLAIN_POOLING`.
      dense_act: One of `DENSE_ACTIVATIONS`.
    """

    def __init__(self, inputs: int, units: int, pooling: str, dense_act: str, **kwargs):
        super().__init__(inputs, units, **kwargs)
        self.encoder_width, self.pooling, self.dense_act = inputs, Pooling(pooling), dense_act

    def compute_output_shape(  # type: ignore[override]  # each Keras layer has its own arguments
        self, input_shape: dict[str, Shape]
    ) -> Shape:
        """The shape [batch, units]."""
        return (input_shape["sequence_output"][0], self.units)

    def call(self, outputs: dict[str, Any], seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns float32 vectors [batch, units]; it has no dropout, so `seed` has no effect."""
        pool = pooling.PLAIN[self.pooling]
        vectors = super().call(pool(outputs["sequence_output"], outputs["input_mask"]))
        return activations.function(self.dense_act)(vectors)


@serializable
class TaskHead(OutputsHead, Dense):
    """The output layer of a task: dropout and a linear map of the pooled output or of every token.

    Args:
      inputs: Width of the encoder.
      units: Number of logits.
      per_token: Whether there are logits for every token.
      rate: Dropout rate of the inputs.
      initializer_range: Standard deviation of the initial kernel.
      depth: Number of layers of the encoder; needed for a body.
      body: The layers below the linear map, and whether pairs are read in both orders; None: no.
      encoder: The configuration of an encoder whose heads have a `HeadTransform`, as ModernBERT's;
        None: another. It is not used if there is a body.
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
        encoder: BertConfig | Mapping[str, Any] | None = None,
        **kwargs,
    ):
        config = body if isinstance(body, HeadConfig) else HeadConfig(**(body or {}))
        layers = None
        if config.has_body:
            policy = kwargs.get("dtype")
            layers = HeadBody(inputs, depth, config, per_token, rate, name="body", dtype=policy)
        width = inputs if layers is None else layers.output_width
        super().__init__(width, units, initializer_range, **kwargs)
        self.encoder_width, self.depth = inputs, depth
        self.per_token, self.rate = per_token, rate
        self.reads_pooled, self.both_orders = config.reads_pooled(per_token), config.both_orders
        self.config, self.body, self.transform = config, layers, None
        if encoder is not None and layers is None:
            known = encoder if isinstance(encoder, BertConfig) else BertConfig(**encoder)
            self.transform = HeadTransform(known, name="transform", dtype=self.dtype_policy)

    def members(self) -> tuple[Any, ...]:
        """The body or transform, if it exists, kernel [its width, units], bias [units], and CRF."""
        below = (part for part in (self.body, self.transform) if part is not None)
        shape = (self.units + 1, self.units + 1)
        crf = (Weight("transitions", shape, "zeros"),) if self.config.crf else ()
        return (*below, *super().members(), *crf)

    @property
    def variable_serialization_spec(self) -> dict:
        """The variables in files of Keras by mode of quantization, with those of the CRF."""
        crf = ["transitions"] if self.config.crf else []
        return {mode: names + crf for mode, names in super().variable_serialization_spec.items()}

    @property
    def indices(self) -> tuple[int, ...]:
        """The numbers of the layers that it reads; 0: the embeddings."""
        return self.config.indices(self.depth)

    def call(
        self, outputs: dict[str, Any], seed: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        """Returns float32 logits [batch, units], or [batch, length, units].

        Args:
          outputs: Outputs of the encoder.
          seed: int32 scalar for dropout; None: no dropout, unless in training.
          training: Whether to draw a missing seed, as needed by `fit` of Keras.
        """
        if training and seed is None:
            seed = tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)
        x = self._features(outputs, seed)
        rows = tf.reshape(x, [-1, x.shape[-1]])
        rows = rows if self.transform is None else self.transform(rows)
        logits = super().call(fused_ops.dropout(rows, self.rate, seed), add_bias=False)
        logits = tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.bias)
        return tf.reshape(logits, tf.concat([tf.shape(x)[:-1], [self.units]], 0))

    def _features(self, outputs: dict[str, Any], seed: tf.Tensor | None) -> tf.Tensor:
        """The input of the linear map."""
        if self.body is None:
            return outputs["sequence_output" if self.per_token else "pooled_output"]
        layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        body_seed = None if seed is None else seed ^ _BODY_SEED
        return self.body([layers[i] for i in self.indices], outputs["input_mask"], body_seed)

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """The shapes of the encoder's outputs."""
        return {
            "sequence_output": (None, None, self.encoder_width),
            "pooled_output": (None, self.encoder_width),
        }

    def compute_output_shape(  # type: ignore[override]  # each Keras layer has its own arguments
        self, input_shape: dict[str, Shape]
    ) -> Shape:
        """The shape [batch, units], or [batch, length, units]."""
        if self.body is not None:
            *rows, _ = self.body.compute_output_shape(input_shape["sequence_output"])
            return (*rows, self.units)
        shape = input_shape["sequence_output" if self.per_token else "pooled_output"]
        return super().compute_output_shape(shape)

    def get_config(self) -> dict:
        """Arguments of the constructor, and later adaptations."""
        body = None if self.config.is_plain else self.config.to_dict()
        encoder = None if self.transform is None else self.transform.config.to_dict()
        return super().get_config() | {
            "inputs": self.encoder_width,
            "body": body,
            "encoder": encoder,
        }
