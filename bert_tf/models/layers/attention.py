"""Multi-head self-attention (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers import tensor_parallelism
from bert_tf.models.layers.base import Layer, Shape, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.tensor_parallelism import Part
from bert_tf.models.layers.unpadding import TokenRows


@serializable
class SelfAttention(Layer):
    """Self-attention up to, and without, the bias of its output projection.

    Queries, keys and values come from one product: `qkv` holds the three
    kernels side by side.

    Args:
      hidden_size: width of the encoder.
      num_heads: attention heads.
      dropout: share of the attention probabilities dropped in training.
      initializer_range: of the kernels.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.qkv, self.output_dense = (
            Dense(hidden_size, units, initializer_range, name=name, dtype=self.dtype_policy)
            for name, units in (("qkv", 3 * hidden_size), ("output", hidden_size))
        )

    def members(self) -> tuple[Dense, ...]:
        """The two projections."""
        return self.qkv, self.output_dense

    @property
    def expected_shape(self) -> Shape:
        """[rows, hidden_size]."""
        return (None, self.hidden_size)

    def compute_output_shape(self, input_shape: Shape) -> tuple[Shape, Shape]:
        """That of the input, [rows, hidden_size], and [batch, num_heads, length, length].

        Raises:
          InputError: the input has another.
        """
        rows = super().compute_output_shape(input_shape)
        return rows, (None, self.num_heads, None, None)

    def compute_output_spec(self, x: Any, mask_bias: Any, *args: Any, **kwargs: Any) -> Any:
        """What `call` returns for symbolic inputs."""
        rows, _ = self.compute_output_shape(x.shape)
        batch, length = mask_bias.shape[0], mask_bias.shape[-1]
        probabilities = keras.KerasTensor((batch, self.num_heads, length, length), x.dtype)
        return keras.KerasTensor(rows, x.dtype), probabilities

    def flops(self, length: int) -> int:
        """Floating-point operations of the products for one sequence; the softmax not counted."""
        between_tokens = 2 * (2 * length * length * self.hidden_size)
        return self.qkv.flops(length) + between_tokens + self.output_dense.flops(length)

    def call(
        self,
        x: tf.Tensor,
        mask_bias: tf.Tensor,
        seed: tf.Tensor | None = None,
        rows: TokenRows | None = None,
        first_only: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends.

        Args:
          x: [batch * length, hidden_size], compute dtype; or, with `rows`, [rows, hidden_size].
          mask_bias: float32 [batch, 1, 1 or length, length], added to the scores.
          seed: int32 scalar, of the dropout; None: no dropout.
          rows: which positions x has.
          first_only: whether the first token of each sequence attends alone, to all; the mask
            must be that of all tokens then.

        Returns:
          The output without its bias, of the shape of x, and the attention
          probabilities [batch, num_heads, length, length]; with `first_only`
          [batch, hidden_size] and [batch, num_heads, 1, length].
        """
        if rows is None:
            parts = tensor_parallelism.parts(
                self.qkv, self.output_dense, self.num_heads, x.dtype, groups=3
            )
            if parts:
                return self._in_parts(parts, x, mask_bias, first_only)
        qkv = self.qkv(x) if rows is None else rows.pad(self.qkv(x))
        context, probabilities = self._attend(qkv, mask_bias, seed, first_only)
        context = context if rows is None or first_only else rows.drop(context)
        return self.output_dense(context, add_bias=False), probabilities

    def _in_parts(
        self, parts: Sequence[Part], x: tf.Tensor, mask_bias: tf.Tensor, first_only: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """As `call`, some of the heads in each part."""
        outputs, probabilities = [], []
        for part in parts:
            qkv = tf.nn.bias_add(tf.matmul(x, part.kernel), part.bias)
            context, attended = self._attend(qkv, mask_bias, None, first_only)
            outputs.append(tf.matmul(context, part.output_kernel))
            probabilities.append(attended)
        return tf.add_n(outputs), tf.concat(probabilities, 1)

    def _attend(
        self, qkv: tf.Tensor, mask_bias: tf.Tensor, seed: tf.Tensor | None, first_only: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """What heads see: [batch * length, width] of their [batch * length, 3 * width] `qkv`.

        With `first_only` [batch, width], of the first tokens.
        """
        length, width = tf.shape(mask_bias)[-1], qkv.shape[-1] // 3
        size = self.hidden_size // self.num_heads
        split = tf.reshape(qkv, [-1, length, 3, width // size, size])
        query, key, value = tf.unstack(tf.transpose(split, [2, 0, 3, 1, 4]))
        query = query[:, :, :1] if first_only else query
        scores = tf.matmul(query, key, transpose_b=True)
        rate, seed = (0.0, tf.constant(0)) if seed is None else (self.dropout, seed)
        probabilities, kept = fused_ops.masked_softmax(scores, mask_bias, size**-0.5, rate, seed)
        context = tf.transpose(tf.matmul(kept, value), [0, 2, 1, 3])
        return tf.reshape(context, [-1, width]), probabilities

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {
            "hidden_size": self.hidden_size,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "initializer_range": self.initializer_range,
        }
