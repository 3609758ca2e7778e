"""One block of the encoder."""

from typing import Any

import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers.attention import SelfAttention
from bert_tf.models.layers.base import Configured, Layer, Shape, serializable
from bert_tf.models.layers.feed_forward import FeedForward
from bert_tf.models.layers.normalization import ResidualNorm
from bert_tf.models.layers.unpadding import TokenRows


@serializable
class TransformerBlock(Configured, Layer):
    """Self-attention and feed-forward network, each with residual and LayerNorm.

    Args:
      config: sizes, activation and dropout.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        policy = self.dtype_policy
        self.attention = SelfAttention(
            config.hidden_size,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            config.initializer_range,
            name="attention",
            dtype=policy,
        )
        self.feed_forward = FeedForward(
            config.hidden_size,
            config.intermediate_size,
            config.hidden_act,
            config.initializer_range,
            name="feed_forward",
            dtype=policy,
        )
        self.attention_norm, self.output_norm = (
            ResidualNorm(
                config.hidden_size,
                config.layer_norm_eps,
                config.hidden_dropout_prob,
                name=name,
                dtype=policy,
            )
            for name in ("attention_norm", "output_norm")
        )

    def members(self) -> tuple[Layer, ...]:
        """The sub-layers."""
        return self.attention, self.attention_norm, self.feed_forward, self.output_norm

    @property
    def expected_shape(self) -> Shape:
        """[rows, hidden_size]."""
        return self.attention.expected_shape

    def compute_output_shape(self, input_shape: Shape) -> tuple[Shape, Shape]:
        """Those of the attention: of its output, and of its probabilities.

        Raises:
          InputError: the input has another width.
        """
        return self.attention.compute_output_shape(input_shape)

    def compute_output_spec(self, x: Any, mask_bias: Any, *args: Any, **kwargs: Any) -> Any:
        """What `call` returns for symbolic inputs."""
        return self.attention.compute_output_spec(x, mask_bias)

    def flops(self, length: int) -> int:
        """Floating-point operations of the products for one sequence."""
        return self.attention.flops(length) + self.feed_forward.flops(length)

    def call(
        self,
        x: tf.Tensor,
        mask_bias: tf.Tensor,
        seed: tf.Tensor | None = None,
        rows: TokenRows | None = None,
        first_only: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Applies the block.

        Args:
          x: [batch * length, hidden_size], compute dtype; or, with `rows`, [rows, hidden_size].
          mask_bias: float32 [batch, 1, 1 or length, length], added to the attention scores.
          seed: int32 [3], one for each dropout; None: no dropout.
          rows: which positions x has.
          first_only: whether only what comes of the first token of each sequence is of use.

        Returns:
          The output, as x, and the attention probabilities
          [batch, heads, length, length]; with `first_only` [batch, hidden_size], and those of
          the first tokens, [batch, heads, 1, length].
        """
        seeds = [None] * 3 if seed is None else tf.unstack(seed)
        attended, probabilities = self.attention(
            x, mask_bias, seed=seeds[0], rows=rows, first_only=first_only
        )
        if first_only:
            length = tf.shape(mask_bias)[-1]
            padded = [-1, length, x.shape[-1]]
            x = tf.reshape(x, padded)[:, 0] if rows is None else rows.first(x, length)
        x = self.attention_norm(attended, self.attention.output_dense.bias, x, seed=seeds[1])
        mapped = self.feed_forward(x)
        x = self.output_norm(mapped, self.feed_forward.output_dense.bias, x, seed=seeds[2])
        return x, probabilities
