"""Vectors of words, made of their characters (Kim et al. 2016, arXiv 1508.06615)."""

import math
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import activations, fused_ops
from bert_tf.models.elmo.characters import KINDS, NOTHING
from bert_tf.models.elmo_config import CHARACTERS, ElmoConfig
from bert_tf.models.layers import Dense
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable

_CHARACTER_SPREAD = 0.5  # standard deviation of the first embeddings of characters
_FIRST_GATE = -2.0  # bias of gates: what comes in is let through


@serializable
class Convolution(Layer):
    """The greatest value of each filter over the characters of a word, with a bias.

    Args:
      inputs: width of the embeddings of characters.
      width: characters that a filter sees.
      filters: how many there are.
    """

    def __init__(self, inputs: int, width: int, filters: int, **kwargs):
        super().__init__(**kwargs)
        self.inputs, self.width, self.filters = inputs, width, filters

    def members(self) -> tuple[Weight, ...]:
        """Kernel [width, inputs, filters] and bias [filters]."""
        shape = (self.width, self.inputs, self.filters)
        spread = 1 / math.sqrt(self.width * self.inputs)
        return Weight("kernel", shape, spread), Weight("bias", (self.filters,), "zeros")

    @property
    def expected_shape(self) -> Shape:
        """[words, characters, inputs]."""
        return (None, None, self.inputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[words, filters]."""
        return (input_shape[0], self.filters)

    def flops(self, words: int) -> int:
        """Floating-point operations of so many words: two for each multiply-add."""
        places = CHARACTERS - self.width + 1
        return 2 * words * places * self.width * self.inputs * self.filters

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [words, characters, inputs] to [words, filters], in the dtype of x."""
        kernel, bias = (
            tf.cast(tf.convert_to_tensor(value), x.dtype) for value in (self.kernel, self.bias)
        )
        return tf.reduce_max(tf.nn.conv1d(x, kernel, 1, "VALID"), 1) + bias

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        sizes = {"inputs": self.inputs, "width": self.width, "filters": self.filters}
        return super().get_config() | sizes


@serializable
class Highway(Layer):
    """A layer that lets through what its gate does not replace (Srivastava et al. 2015).

    It is g · relu(Wx + b) + (1 - g) · x, with the gate g = sigmoid(Vx + c).

    Args:
      width: of input and output.
    """

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        spread, policy = 1 / math.sqrt(width), self.dtype_policy
        self.gate = Dense(width, width, spread, name="gate", dtype=policy)
        self.transform = Dense(width, width, spread, name="transform", dtype=policy)

    def members(self) -> tuple[Dense, Dense]:
        """The gate and the transform."""
        return self.gate, self.transform

    def build(self, input_shape: object = None) -> None:
        """Creates the variables; gates begin nearly closed."""
        if not self.built:
            super().build(input_shape)
            self.gate.bias.assign(tf.fill([self.width], _FIRST_GATE))

    @property
    def expected_shape(self) -> Shape:
        """[rows, width]."""
        return (None, self.width)

    def flops(self, rows: int) -> int:
        """Floating-point operations of so many rows."""
        return self.gate.flops(rows) + self.transform.flops(rows)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [rows, width] to [rows, width], in the dtype of x."""
        gate = tf.sigmoid(self.gate(x))
        return gate * tf.nn.relu(self.transform(x)) + (1 - gate) * x

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"width": self.width}


@serializable
class WordEmbeddings(Configured, Layer):
    """A vector of each word: convolutions over its characters, highways, and a projection.

    Args:
      config: sizes.
    """

    config: ElmoConfig

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        policy = self.dtype_policy
        self.convolutions = [
            Convolution(
                config.character_size, width, count, name=f"convolution_{index}", dtype=policy
            )
            for index, (width, count) in enumerate(config.filters)
        ]
        found = sum(count for _, count in config.filters)
        self.highways = [
            Highway(found, name=f"highway_{index}", dtype=policy)
            for index in range(config.num_highway_layers)
        ]
        spread = 1 / math.sqrt(found)
        self.projection = Dense(
            found, config.projection_size, spread, name="projection", dtype=policy
        )

    def members(self) -> Iterator[Weight | Layer]:
        """Characters of words [vocab_size, 50], embeddings of characters, and what reads them."""
        config = self.config
        shape = (config.vocab_size, CHARACTERS)
        yield Weight("word_characters", shape, "zeros", "characters", whole=True)
        shape = (KINDS, config.character_size)
        yield Weight("character_embeddings", shape, _CHARACTER_SPREAD, "table")
        yield from (*self.convolutions, *self.highways, self.projection)

    @property
    def expected_shape(self) -> Shape:
        """[batch, length]."""
        return (None, None)

    def flops(self, length: int) -> int:
        """Floating-point operations of the products for one sequence of words that all differ."""
        parts = (*self.convolutions, *self.highways, self.projection)
        return sum(part.flops(length) for part in parts)

    def call(self, word_ids: tf.Tensor, dtype: str | None = None) -> tf.Tensor:
        """Embeds int32 [batch, length] ids as [batch, length, projection_size].

        Each word of the batch is computed once, but where XLA compiles all: that takes shapes that
        are known beforehand. The result has `dtype`, or the compute dtype.
        """
        dtype = dtype or self.compute_dtype
        words, places = tf.reshape(word_ids, [-1]), None
        if not fused_ops.is_compiled_whole():
            words, places = tf.unique(words)
        vectors = self._vectors(words, dtype)
        if places is not None:
            vectors = _spread(vectors, places)
        return tf.reshape(vectors, [*tf.unstack(tf.shape(word_ids)), self.config.projection_size])

    def _vectors(self, words: tf.Tensor, dtype: str) -> tf.Tensor:
        """Those of int32 [words] ids, [words, projection_size]."""
        characters = tf.gather(tf.convert_to_tensor(self.characters), words)
        there = tf.cast(characters != NOTHING, tf.float32)[:, :, tf.newaxis]
        # Looked up in float32, so that the gradient of the table is summed in float32.
        rows = tf.gather(tf.convert_to_tensor(self.table), tf.maximum(characters - 1, 0))
        x = tf.cast(tf.cast(rows, tf.float32) * there, dtype)
        x = tf.concat([convolution(x) for convolution in self.convolutions], -1)
        x = activations.function(self.config.char_act)(x)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[batch, length, projection_size] of [batch, length]."""
        return (*input_shape, self.config.projection_size)

    def compute_output_spec(  # type: ignore[override]  # each Keras layer says what it takes
        self, word_ids: Any, *args: Any, dtype: str | None = None, **kwargs: Any
    ) -> Any:
        """What `call` returns for symbolic ids."""
        shape = self.compute_output_shape(word_ids.shape)
        return keras.KerasTensor(shape, dtype or self.compute_dtype)


def _spread(vectors: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Takes rows [words, width] to [places, width]; their gradients are summed in float32."""

    @tf.custom_gradient
    def apply(vectors: tf.Tensor) -> tuple[tf.Tensor, Any]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            wide = tf.cast(upstream, tf.float32)
            summed = tf.math.unsorted_segment_sum(wide, places, tf.shape(vectors)[0])
            return tf.cast(summed, vectors.dtype)

        return tf.gather(vectors, places), gradient

    return apply(vectors)
