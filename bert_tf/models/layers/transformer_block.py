"""Blocks of encoder and decoder: attention and the feed-forward network."""

import functools
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.attention import (
    CrossAttention,
    KeyValueCache,
    SelfAttention,
    attention_bias,
)
from bert_tf.models.layers.base import Configured, Layer, Shape, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.normalization import LayerNorm, ResidualNorm
from bert_tf.models.layers.token_rows import Queries, TokenRows
from pipelines.common.errors import InputError


@serializable
class FeedForward(Configured, Layer):
    """The position-wise feed-forward network (Vaswani et al. 2017, section 3.3).

    Two linear maps with an activation between them, without the bias of the second.

    With `gated`, the first map has two halves, and the activation of one is multiplied by the other
    (Shazeer 2020, arXiv 2002.05202).
    """

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
        self.config = config
        hidden_size, inner = config.hidden_size, config.intermediate_size
        width = 2 * inner if config.gated else inner
        self.intermediate, self.output_dense = (
            Dense(*sizes, deviation, config.linear_bias, name=name, dtype=self.dtype_policy)
            for name, sizes, deviation in (
                ("intermediate", (hidden_size, width), config.initializer_range),
                ("output", (inner, hidden_size), config.residual_range),
            )
        )

    def members(self) -> tuple[Dense, ...]:
        """The two maps."""
        return self.intermediate, self.output_dense

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [rows, hidden_size] to [rows, hidden_size]."""
        inner = self.intermediate(x, add_bias=False)
        bias, activation = tf.convert_to_tensor(self.intermediate.bias), self.config.hidden_act
        if self.config.gated:
            (inner, gate), (bias, gate_bias) = tf.split(inner, 2, -1), tf.split(bias, 2)
            inner = fused_ops.bias_activation(inner, bias, activation)
            inner *= gate + tf.cast(gate_bias, gate.dtype)
        else:
            inner = fused_ops.bias_activation(inner, bias, activation)
        return self.output_dense(inner, add_bias=False)


@serializable
class TransformerBlock(Configured, Layer):
    """Self-attention and feed-forward network, each followed by residual and LayerNorm.

    With `pre_norm`, LayerNorm comes before each instead (Radford et al. 2019, section 2.3: GPT-2).

    In a Keras model of your own it maps [batch, length, hidden_size] to the same shape:

    >>> block = TransformerBlock(BertConfig.named("tiny"))
    >>> block(tf.zeros([2, 5, 128]), mask=tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])).shape
    TensorShape([2, 5, 128])

    Args:
      config: The configuration.
      index: Number of the layer, from 0, on which attention and norms may depend.
    """

    config: BertConfig
    attention_norm: Any  # None: there is none

    def __init__(self, config: BertConfig, index: int = 0, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
        self.config, self.index, self.supports_masking = config, index, True
        policy = self.dtype_policy
        self.attention = SelfAttention(config, index, name="attention", dtype=policy)
        self.feed_forward = FeedForward(config, name="feed_forward", dtype=policy)
        epsilon, rate = config.layer_norm_eps, config.hidden_dropout_prob
        norm = functools.partial(
            LayerNorm if config.pre_norm else ResidualNorm,
            *(config.hidden_size, epsilon, rate, config.norm_bias),
            dtype=policy,
        )
        has_first = not config.pre_norm or index or config.first_norm
        self.attention_norm = norm(name="attention_norm") if has_first else None
        self.output_norm = norm(name="output_norm")

    def members(self) -> tuple[Layer, ...]:
        """The sub-layers."""
        norm = () if self.attention_norm is None else (self.attention_norm,)
        return self.attention, *norm, self.feed_forward, self.output_norm

    def compute_output_shape(self, input_shape: Shape) -> Any:
        """The shape of the output, and of the attention probabilities where x has rows."""
        if len(input_shape) != 3:
            return self.attention.compute_output_shape(input_shape)
        if input_shape[-1] not in (None, self.config.hidden_size):
            raise InputError(
                f"the input is {input_shape[-1]} wide, but hidden_size is "
                f"{self.config.hidden_size}; change one of them."
            )
        return input_shape

    def compute_output_spec(
        self, x: Any, mask_bias: Any = None, *args: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        """The outputs for symbolic inputs."""
        if len(x.shape) == 3:
            return keras.KerasTensor(self.compute_output_shape(x.shape), self.compute_dtype)
        return self.attention.compute_output_spec(x, mask_bias)

    def flops(self, length: int, queries: int | None = None) -> int:
        """Operations of the products for one sequence, of which `queries` tokens attend.

        None: all do. Where not all do, they see all tokens.
        """
        if queries is None:
            return super().flops(length)
        qkv, output = self.attention.members()
        scores = 2 * (2 * queries * length * self.config.hidden_size)
        return qkv.flops(length) + scores + output.flops(queries) + self.feed_forward.flops(queries)

    def call(
        self,
        x: tf.Tensor,
        mask_bias: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        rows: TokenRows | None = None,
        queries: Queries | None = None,
        cache: KeyValueCache | None = None,
        relative_scores: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
    ) -> Any:
        """Applies the block; arguments and results as for `SelfAttention.call`.

        `seed` is int32 [3], one for each dropout; None: no dropout. The output includes all biases.
        With x of [batch, length, hidden_size], `mask` is int or bool [batch, length], true for
        tokens (None: all are), and the result is the output alone.
        """
        if x.shape.rank == 3:
            self.compute_output_shape(x.shape)  # which checks the width
            shape = tf.shape(x)
            mask = tf.ones(shape[:2]) if mask is None else mask
            bias = attention_bias(mask, self.config.causal)
            rows = tf.reshape(x, [-1, x.shape[-1]])
            output, _ = self.call(rows, bias, seed, relative_scores=relative_scores)
            return tf.reshape(output, shape)
        assert mask_bias is not None
        seeds = [None] * 3 if seed is None else tf.unstack(seed)
        pre_norm = self.config.pre_norm
        attended, probabilities = self.attention(
            self.attention_norm(x) if pre_norm and self.attention_norm else x,
            mask_bias,
            seed=seeds[0],
            rows=rows,
            queries=queries,
            cache=cache,
            relative_scores=relative_scores,
        )
        if queries is not None:
            length, width = tf.shape(mask_bias)[-1], x.shape[-1]
            if rows is None:
                x = tf.reshape(queries.of(tf.reshape(x, [-1, length, width])), [-1, width])
            else:  # no more rows are read than attend, in answers of exports
                numbers = queries.of(tf.reshape(rows.rows, [-1, length]))
                x = tf.gather(x, tf.reshape(numbers, [-1]))
        bias = self.attention.output_dense.bias
        if pre_norm:
            x = self._add(x, attended, bias, seeds[1])
        else:
            x = self.attention_norm(attended, bias, x, seed=seeds[1])
        mapped = self.feed_forward(self.output_norm(x) if pre_norm else x)
        bias = self.feed_forward.output_dense.bias
        if pre_norm:
            return self._add(x, mapped, bias, seeds[2]), probabilities
        return self.output_norm(mapped, bias, x, seed=seeds[2]), probabilities

    def _add(self, x: tf.Tensor, y: tf.Tensor, bias: Any, seed: tf.Tensor | None) -> tf.Tensor:
        """Returns x + dropout(y + bias)."""
        y += tf.cast(tf.convert_to_tensor(bias), y.dtype)
        return x + fused_ops.dropout(y, self.config.hidden_dropout_prob, seed)


class DecoderCache(NamedTuple):
    """What one layer of a decoder knows of the tokens before, and of the source."""

    tokens: KeyValueCache
    source: KeyValueCache


@serializable
class DecoderBlock(TransformerBlock):
    """Self-attention, attention to the source, and feed-forward network, each with a post-norm."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        policy = self.dtype_policy
        self.cross_attention = CrossAttention(config, name="cross_attention", dtype=policy)
        self.cross_norm = ResidualNorm(
            config.hidden_size,
            config.layer_norm_eps,
            config.hidden_dropout_prob,
            name="cross_norm",
            dtype=policy,
        )

    def members(self) -> tuple[Layer, ...]:
        """The sub-layers."""
        attention, norm, *rest = super().members()
        return attention, norm, self.cross_attention, self.cross_norm, *rest

    def call(  # type: ignore[override]  # it has a source, too
        self,
        x: tf.Tensor | tuple[tf.Tensor, tf.Tensor],
        mask_bias: tuple[tf.Tensor, tf.Tensor],
        seed: tf.Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Applies the block.

        Args:
          x: The decoder's tokens [batch * length, hidden_size], and the encoder's outputs
            [batch * source length, hidden_size]; with a cache, the tokens alone.
          mask_bias: Those of `SelfAttention.call` and of `CrossAttention.call`.
          seed: int32 [5], one for each dropout; None: no dropout.
          cache: The tokens before, to which those of x are added, and the source.

        Returns:
          The output [batch * length, hidden_size], and the self-attention probabilities.
        """
        seeds = [None] * 5 if seed is None else tf.unstack(seed)
        bias, source_bias = mask_bias
        if cache is None:
            x, outputs = x
            source = self.cross_attention.read(outputs, tf.shape(source_bias)[0])
        else:
            source = cache.source
        attended, probabilities = self.attention(
            x, bias, seed=seeds[0], cache=None if cache is None else cache.tokens
        )
        x = self.attention_norm(attended, self.attention.output_dense.bias, x, seed=seeds[1])
        crossed, _ = self.cross_attention(x, source_bias, seed=seeds[2], source=source)
        x = self.cross_norm(crossed, self.cross_attention.output_dense.bias, x, seed=seeds[3])
        mapped = self.feed_forward(x)
        bias = self.feed_forward.output_dense.bias
        return self.output_norm(mapped, bias, x, seed=seeds[4]), probabilities
