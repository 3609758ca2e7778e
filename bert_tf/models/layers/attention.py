"""Multi-head attention (Vaswani et al. 2017, section 3.2.2)."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import flash_attention, fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Configured, Layer, Shape, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.token_rows import MASKED, Queries, TokenRows


def attention_bias(mask: tf.Tensor, causal: bool) -> tf.Tensor:
    """The bias float32 [batch, 1, 1 or length, length] of attention scores for a mask.

    Args:
      mask: [batch, length], 1 or true for tokens, 0 for padding.
      causal: Whether a token sees only those before it, and itself.
    """
    visible = tf.expand_dims(tf.expand_dims(tf.cast(mask, tf.float32), 1), 1)
    if causal:
        length = tf.shape(mask)[1]
        visible *= tf.linalg.band_part(tf.ones([length, length]), -1, 0)
    return (1.0 - visible) * MASKED


def rotated(x: tf.Tensor, positions: tf.Tensor, theta: float) -> tf.Tensor:
    """Queries or keys rotated by their positions (Su et al. 2021, arXiv 2104.09864).

    Dimension i and i + size / 2 of a head are a point in the plane, whose angle is the position
    times theta^(-2i / size). All is computed in float32.

    Args:
      x: [..., length, size].
      positions: int32, broadcast to [..., length].
      theta: The base.
    """
    size = x.shape[-1]
    speed = np.float32(theta) ** (-np.arange(0, size, 2, dtype=np.float32) / size)
    angle = tf.cast(tf.expand_dims(positions, -1), tf.float32) * speed
    cos, sin = tf.cos(angle), tf.sin(angle)
    first, second = tf.split(tf.cast(x, tf.float32), 2, -1)
    turned = tf.concat([first * cos - second * sin, second * cos + first * sin], -1)
    return tf.cast(turned, x.dtype)


def neighbourhoods(
    qkv: tf.Tensor, mask_bias: tf.Tensor, window: int, theta: float | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Splits sequences into blocks for attention within a window (Beltagy et al. 2020, 3.1).

    The queries of a block attend to the keys of it and of both adjacent blocks, so time and memory
    grow with the length, not with its square. A block has `window` tokens, or those of a shorter
    sequence.

    Args:
      qkv: [batch, length, 3, heads, size], of queries, keys and values.
      mask_bias: float32 [batch, 1, 1, length].
      window: Tokens see those at this distance or nearer.
      theta: Base of rotary positions; None: none.

    Returns:
      Queries [blocks * batch, heads, block, size], keys and values [blocks * batch, heads,
      3 * block, size], and their mask bias [blocks * batch, 1, block, 3 * block].
    """
    length = qkv.shape[1] or tf.shape(qkv)[1]
    block = min(window, length) if isinstance(length, int) else tf.minimum(window, length)
    count = (length + block - 1) // block  # of positive numbers, whose quotients ONNX rounds alike

    def blocks(x: tf.Tensor, padding: float) -> tf.Tensor:
        """[batch, length, ...] as [batch, count + 2, block, ...], with an empty block outside."""
        sides = [[0, 0], [block, (count + 1) * block - length], *[[0, 0]] * (x.shape.rank - 2)]
        padded = tf.pad(x, sides, constant_values=padding)
        return tf.reshape(padded, [-1, count + 2, block, *x.shape[2:]])

    def joined(x: tf.Tensor) -> tf.Tensor:
        """[count + 2, batch, heads, block, ...] as [count * batch, heads, 3 * block, ...]."""
        rows = tf.concat([x[:-2], x[1:-1], x[2:]], 3)
        return tf.reshape(rows, [-1, x.shape[2], 3 * block, *x.shape[4:]])

    # Blocks are the first axis, whose slices are no copies.
    query, key, value = tf.unstack(tf.transpose(blocks(qkv, 0), [3, 1, 0, 4, 2, 5]))
    query = query[1:-1]
    if theta is not None:
        positions = tf.reshape(tf.range((count + 2) * block), [-1, 1, 1, block]) - block
        query, key = rotated(query, positions[1:-1], theta), rotated(key, positions, theta)
    query = tf.reshape(query, [-1, qkv.shape[3], block, qkv.shape[4]])
    bias = tf.transpose(blocks(mask_bias[:, 0, 0], MASKED), [1, 0, 2])
    bias = tf.reshape(joined(bias[:, :, tf.newaxis]), [-1, 1, 1, 3 * block])
    distance = tf.range(3 * block) - block - tf.range(block)[:, tf.newaxis]
    bias += tf.where(tf.abs(distance) <= window, 0.0, MASKED)
    return query, joined(key), joined(value), bias


class KeyValueCache:
    """Keys and values of the tokens that one layer has processed.

    Attributes:
      keys, values: [batch, num_heads, tokens, head size] each.
    """

    def __init__(self, keys: tf.Tensor, values: tf.Tensor):
        self.keys, self.values = keys, values

    def append(self, keys: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Appends those of new tokens; returns all."""
        self.keys = tf.concat([self.keys, keys], 2)
        self.values = tf.concat([self.values, values], 2)
        return self.keys, self.values


def attend(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask_bias: tf.Tensor,
    dropout: float,
    seed: tf.Tensor | None,
    relative_scores: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

    Args:
      query: [batch, num_heads, length, head size].
      key: [batch, num_heads, other length, head size].
      value: The same.
      mask_bias: float32, broadcast to [batch, num_heads, length, other length].
      dropout: Dropout rate of the probabilities.
      seed: int32 scalar for dropout; None: no dropout.
      relative_scores: float32, added like the bias, but with a gradient; None: nothing.

    Returns:
      The heads side by side [batch * length, num_heads * head size], and the probabilities.
    """
    heads, size = query.shape[1], query.shape[-1]
    scores = tf.matmul(query, key, transpose_b=True)
    if relative_scores is not None:
        scores += tf.cast(relative_scores * size**0.5, scores.dtype)
    rate, seed = (0.0, tf.constant(0)) if seed is None else (dropout, seed)
    probabilities, kept = fused_ops.masked_softmax(scores, mask_bias, size**-0.5, rate, seed)
    if rate == 0 and relative_scores is None and flash_attention.applies(query, key):
        context = flash_attention.attend(query, key, value, mask_bias)
    else:
        context = tf.matmul(kept, value)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, heads * size]), probabilities


@serializable
class Attention(Configured, Layer):
    """Base of attention without the bias of its output projection.

    Args:
      config: The configuration.
      index: Number of the layer, from 0, on which window and rotary positions may depend.
    """

    config: BertConfig

    def __init__(self, config: BertConfig, index: int = 0, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
        self.config, self.index = config, index
        self.create_projections()

    def create_projections(self) -> None:
        """Creates the inner layers."""
        raise NotImplementedError

    def projection(self, name: str, units: int, deviation: float | None = None) -> Dense:
        """A linear map from the vectors of tokens; the deviation is that of its initial kernel."""
        config = self.config
        deviation = deviation or config.initializer_range
        return Dense(
            *(config.hidden_size, units, deviation, config.linear_bias),
            name=name,
            dtype=self.dtype_policy,
        )

    def flops(self, length: int) -> int:
        """Floating-point operations of the products for one sequence, without the softmax."""
        return super().flops(length) + 2 * (2 * length * length * self.config.hidden_size)


@serializable
class SelfAttention(Attention):
    """Self-attention without the bias of its output projection.

    One product computes queries, keys and values: `qkv` holds their kernels side by side.

    Attributes:
      rope_theta: Base of rotary positions (`rotated`); None: none.
      window: Tokens see those at this distance or nearer; None: all.
    """

    def create_projections(self) -> None:
        """Creates `qkv` and `output_dense`."""
        config, local = self.config, self.config.is_local(self.index)
        self.rope_theta = (config.local_rope_theta if local else None) or config.rope_theta
        self.window = config.local_attention // 2 if local else None
        self.qkv = self.projection("qkv", 3 * config.hidden_size)
        self.output_dense = self.projection("output", config.hidden_size, config.residual_range)

    def members(self) -> tuple[Dense, ...]:
        """The two projections."""
        return self.qkv, self.output_dense

    def flops(self, length: int) -> int:
        """As in the base class; products of tokens that do not see each other are not counted."""
        unseen = 0 if self.window is None else max(0, length - 2 * self.window - 1)
        return super().flops(length) - 2 * (2 * length * unseen * self.config.hidden_size)

    def probabilities_shape(self, batch: int | None, length: int | None) -> Shape:
        """The shape of the attention probabilities: [batch, heads, length, length].

        With a window, it is [batch, blocks, heads, block, 3 * block], as in `neighbourhoods`.
        """
        heads = self.config.num_attention_heads
        if self.window is None:
            return (batch, heads, length, length)
        if length is None:
            return (batch, None, heads, None, None)
        block = min(self.window, length)
        return (batch, -(-length // block), heads, block, 3 * block)

    def compute_output_shape(self, input_shape: Shape) -> tuple[Shape, Shape]:
        """The shapes of x, [rows, hidden_size], and of the attention probabilities."""
        rows = super().compute_output_shape(input_shape)
        return rows, self.probabilities_shape(None, None)

    def compute_output_spec(self, x: Any, mask_bias: Any, *args: Any, **kwargs: Any) -> Any:
        """The outputs for symbolic inputs."""
        rows, _ = self.compute_output_shape(x.shape)
        batch, length = mask_bias.shape[0], mask_bias.shape[-1]
        shape = self.probabilities_shape(batch, length)
        return keras.KerasTensor(rows, x.dtype), keras.KerasTensor(shape, x.dtype)

    def call(
        self,
        x: tf.Tensor,
        mask_bias: tf.Tensor,
        seed: tf.Tensor | None = None,
        rows: TokenRows | None = None,
        queries: Queries | None = None,
        cache: KeyValueCache | None = None,
        relative_scores: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends.

        Args:
          x: [batch * length, hidden_size], compute dtype; or, with `rows`, [rows, hidden_size].
          mask_bias: float32 [batch, 1, 1 or length, length], added to the scores.
          seed: int32 scalar for dropout; None: no dropout.
          rows: The positions that x has; None: all.
          queries: The tokens that attend; None: all.
          cache: Tokens before those of x; tokens attend to both. The mask bias is then
            [batch, 1, length, all tokens], and the tokens of x are added.
          relative_scores: float32 [1, num_heads, length, length], added to the scores; None: none.

        Returns:
          The output without its bias, of the shape of x, and the attention probabilities
          as in `probabilities_shape`. With `queries`, [batch * queries, hidden_size] and
          [batch, num_heads, queries, length].
        """
        qkv = self.qkv(x) if rows is None else rows.pad(self.qkv(x))
        length, width = tf.shape(mask_bias)[-1 if cache is None else -2], self.config.hidden_size
        heads = self.config.num_attention_heads
        split = tf.reshape(qkv, [-1, length, 3, heads, width // heads])
        theta = self.rope_theta
        window = self.window if queries is None else None
        if window is not None:
            query, key, value, bias = neighbourhoods(split, mask_bias, window, theta)
        elif queries is not None:
            query, pairs = tf.split(split, [1, 2], 2)
            query = query[:, :, 0]
            key, value = tf.unstack(tf.transpose(pairs, [2, 0, 3, 1, 4]))
            if theta is not None:
                query = rotated(query, tf.range(length)[:, tf.newaxis], theta)
                key = rotated(key, tf.range(length), theta)
            query = tf.transpose(queries.of(query), [0, 2, 1, 3])
            bias = queries.of_scores(mask_bias)
            if self.window is not None:
                bias += queries.window_bias(self.window, length)
            if relative_scores is not None:
                relative_scores = queries.of_scores(relative_scores)
        else:
            bias = mask_bias
            query, key, value = tf.unstack(tf.transpose(split, [2, 0, 3, 1, 4]))
            if theta is not None:
                query, key = (rotated(x, tf.range(length), theta) for x in (query, key))
        if cache is not None:
            key, value = cache.append(key, value)
        context, probabilities = attend(
            query, key, value, bias, self.config.attention_probs_dropout_prob, seed, relative_scores
        )
        if window is not None:
            batch, block = tf.shape(mask_bias)[0], tf.shape(query)[2]
            context = tf.transpose(tf.reshape(context, [-1, batch, block, width]), [1, 0, 2, 3])
            context = tf.reshape(context, [batch, -1, width])[:, :length]
            context = tf.reshape(context, [-1, width])
            by_block = tf.reshape(probabilities, [-1, batch, heads, block, 3 * block])
            probabilities = tf.transpose(by_block, [1, 0, 2, 3, 4])
        context = context if rows is None or queries is not None else rows.drop(context)
        return self.output_dense(context, add_bias=False), probabilities


@serializable
class CrossAttention(Attention):
    """Attention of a decoder's tokens to an encoder's."""

    def create_projections(self) -> None:
        """Creates `query`, `key`, `value` and `output_dense`."""
        self.query, self.key, self.value, self.output_dense = (
            self.projection(name, self.config.hidden_size)
            for name in ("query", "key", "value", "output")
        )

    def members(self) -> tuple[Dense, ...]:
        """The projections."""
        return self.query, self.key, self.value, self.output_dense

    def read(self, source: tf.Tensor, batch: tf.Tensor) -> KeyValueCache:
        """The keys and values of the encoder's outputs [batch * source length, hidden_size]."""
        return KeyValueCache(
            self._split(self.key(source), batch), self._split(self.value(source), batch)
        )

    def call(
        self,
        x: tf.Tensor,
        mask_bias: tf.Tensor,
        seed: tf.Tensor | None = None,
        *,
        source: KeyValueCache,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends.

        Args:
          x: [batch * length, hidden_size], compute dtype.
          mask_bias: float32 [batch, 1, 1, source length], added to the scores.
          seed: int32 scalar for dropout; None: no dropout.
          source: The result of `read`.

        Returns:
          The output without its bias, of the shape of x, and the attention probabilities
          [batch, num_heads, length, source length].
        """
        query = self._split(self.query(x), tf.shape(source.keys)[0])
        context, probabilities = attend(
            query,
            source.keys,
            source.values,
            mask_bias,
            self.config.attention_probs_dropout_prob,
            seed,
        )
        return self.output_dense(context, add_bias=False), probabilities

    def _split(self, x: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
        """[batch * length, hidden_size] as [batch, num_heads, length, head size]."""
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        if heads == 1:  # tf2onnx would join the two operations below to a wrong one
            return tf.reshape(x, tf.stack([batch, 1, -1, width]))
        x = tf.reshape(x, tf.stack([batch, -1, heads, width // heads]))
        return tf.transpose(x, [0, 2, 1, 3])
