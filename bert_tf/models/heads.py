"""The masked LM head (paper, section 3.1)."""

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Dense, LayerNorm
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable


@serializable
class MaskedLMHead(Configured, Layer):
    """Logits over the vocabulary, with the word embeddings as tied output weights."""

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
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

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [rows, vocab_size] for [rows, hidden_size]."""
        rows, _ = super().compute_output_shape(input_shape)
        return (rows, self.config.vocab_size)

    def flops(self, predictions: int) -> int:
        """Floating-point operations of the products for `predictions` positions."""
        vocabulary = 2 * predictions * self.norm.width * self.config.vocab_size
        return self.transform.flops(predictions) + vocabulary

    def call(self, x: tf.Tensor, word_embeddings: tf.Tensor) -> tf.Tensor:
        """Returns the logits without their bias.

        Args:
          x: [rows, hidden_size], encoder outputs at the positions to predict.
          word_embeddings: [vocab_size, embedding width], of the encoder.

        Returns:
          [rows, vocab_size], compute dtype, to which the caller adds `bias`.
        """
        inner = self.transform(x, add_bias=False)
        bias = tf.convert_to_tensor(self.transform.bias)
        inner = self.norm(fused_ops.bias_activation(inner, bias, self.config.hidden_act))
        table = tf.cast(tf.convert_to_tensor(word_embeddings), inner.dtype)
        return tf.matmul(inner, table, transpose_b=True)


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Gathers the vectors at some positions of each sequence.

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
