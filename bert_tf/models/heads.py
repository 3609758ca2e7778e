"""Heads of pre-training (paper, section 3.1)."""

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Dense, LayerNorm
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable


@serializable
class MaskedLMHead(Configured, Layer):
    """Logits over the vocabulary, by the word embeddings (output tied to input).

    Args:
      config: sizes and activation.
    """

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        width, policy = config.embedding_width, self.dtype_policy
        self.transform = Dense(
            config.hidden_size, width, config.initializer_range, name="transform", dtype=policy
        )
        self.norm = LayerNorm(width, config.layer_norm_eps, name="norm", dtype=policy)

    def members(self) -> tuple[Layer | Weight, ...]:
        """The transform, its norm, and the output bias [vocab_size]."""
        bias = Weight("output_bias", (self.config.vocab_size,), "zeros", "bias")
        return self.transform, self.norm, bias

    @property
    def expected_shape(self) -> Shape:
        """[rows, hidden_size]."""
        return self.transform.expected_shape

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[rows, vocab_size] of [rows, hidden_size].

        Raises:
          InputError: the input has another width.
        """
        rows, _ = super().compute_output_shape(input_shape)
        return (rows, self.config.vocab_size)

    def flops(self, predictions: int) -> int:
        """Floating-point operations of the products for so many positions."""
        vocabulary = 2 * predictions * self.norm.width * self.config.vocab_size
        return self.transform.flops(predictions) + vocabulary

    def call(self, x: tf.Tensor, word_embeddings: tf.Tensor) -> tf.Tensor:
        """Returns the logits without their bias.

        Args:
          x: [rows, hidden_size], encoder outputs at the positions to predict.
          word_embeddings: [vocab_size, embedding width], the encoder's.

        Returns:
          [rows, vocab_size], compute dtype; `bias` is yet to be added.
        """
        inner = self.transform(x, add_bias=False)
        bias = tf.convert_to_tensor(self.transform.bias)
        inner = self.norm(fused_ops.bias_activation(inner, bias, self.config.hidden_act))
        table = tf.cast(tf.convert_to_tensor(word_embeddings), inner.dtype)
        return tf.matmul(inner, table, transpose_b=True)


@serializable
class NextSentenceHead(Dense):
    """Two logits of [CLS]: 0, B follows A; 1, B is a random segment.

    Args:
      inputs: width of the encoder.
      initializer_range: of the kernel.
    """

    def __init__(self, inputs: int, initializer_range: float = 0.02, **kwargs):
        kwargs.pop("units", None)
        super().__init__(inputs, 2, initializer_range, **kwargs)


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Takes the vectors at some positions of each sequence.

    Args:
      sequence: [batch, length, width].
      positions: int32 [batch, count].

    Returns:
      [batch * count, width].
    """
    shape = tf.shape(sequence)
    first = tf.range(shape[0])[:, tf.newaxis] * shape[1]
    flat = tf.reshape(sequence, [-1, sequence.shape[-1]])
    return tf.gather(flat, tf.reshape(positions + first, [-1]))
