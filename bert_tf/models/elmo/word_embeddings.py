"""Vectors of words from their characters (Kim et al. 2016, arXiv 1508.06615).

The characters of a word are its first UTF-8 bytes b, as numbers [begin, b..., end, fill...], 50 in
all. As in the original program at inference, they are shifted by one: 0 is no character.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import activations, fused_ops
from bert_tf.models.elmo_config import CHARACTERS, ElmoConfig
from bert_tf.models.layers import Dense
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable
from pipelines.tokenizers.vocabulary import Vocabulary

_CHARACTER_SPREAD = 0.5  # standard deviation of the initial character embeddings
_FIRST_GATE = -2.0  # initial bias of gates: the input passes through
_NOTHING = 0  # replaces each character of padding
_BEGIN_TEXT, _END_TEXT, _BEGIN_WORD, _END_WORD, _FILL = range(257, 262)
_KINDS = 261  # characters with embeddings, from 1 on
_MAX_BYTES = CHARACTERS - 2


def character_table(vocabulary: Vocabulary) -> np.ndarray:
    """The characters of all words, int32 [words, 50].

    Padding has none; the start token and the separator have one character each, which stands for
    the beginning and the end of a text.
    """
    found = np.array([_row(word.encode()[:_MAX_BYTES]) for word in vocabulary.tokens], np.int32)
    found[vocabulary.id_of("start")] = _row([_BEGIN_TEXT - 1])
    found[vocabulary.id_of("separator")] = _row([_END_TEXT - 1])
    found[vocabulary.id_of("pad")] = _NOTHING
    return found


def _row(values: bytes | Sequence[int]) -> list[int]:
    """The characters of a word with unshifted values."""
    row = [_BEGIN_WORD, *(value + 1 for value in values), _END_WORD]
    return row + [_FILL] * (CHARACTERS - len(row))


@serializable
class Convolution(Layer):
    """The maximum of filters, `width` wide, over the characters of a word, with a bias."""

    def __init__(self, inputs: int, width: int, filters: int, **kwargs):
        super().__init__((None, None, inputs), **kwargs)
        self.inputs, self.width, self.filters = inputs, width, filters

    def members(self) -> tuple[Weight, ...]:
        """Kernel [width, inputs, filters] and bias [filters]."""
        shape = (self.width, self.inputs, self.filters)
        spread = 1 / math.sqrt(self.width * self.inputs)
        return Weight("kernel", shape, spread), Weight("bias", (self.filters,), "zeros")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [words, filters]."""
        return (input_shape[0], self.filters)

    def flops(self, words: int) -> int:
        """Floating-point operations for `words` words: 2 per multiply-add."""
        places = CHARACTERS - self.width + 1
        return 2 * words * places * self.width * self.inputs * self.filters

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [words, characters, inputs] to [words, filters], in the dtype of x."""
        kernel, bias = (
            tf.cast(tf.convert_to_tensor(value), x.dtype) for value in (self.kernel, self.bias)
        )
        found = tf.reduce_max(tf.nn.conv1d(x, kernel, 1, "VALID"), 1)
        # Of no words, the convolution of oneDNN has another shape.
        return tf.reshape(found, [tf.shape(x)[0], self.filters]) + bias


@serializable
class Highway(Layer):
    """A highway layer (Srivastava et al. 2015).

    It computes g · relu(Wx + b) + (1 - g) · x, with the gate g = sigmoid(Vx + c).
    """

    def __init__(self, width: int, **kwargs):
        super().__init__((None, width), **kwargs)
        self.width = width
        spread, policy = 1 / math.sqrt(width), self.dtype_policy
        self.gate = Dense(width, width, spread, name="gate", dtype=policy)
        self.transform = Dense(width, width, spread, name="transform", dtype=policy)

    def members(self) -> tuple[Dense, Dense]:
        """The gate and the transform."""
        return self.gate, self.transform

    def build(self, input_shape: object = None) -> None:
        """Creates the variables; gates are initially almost closed."""
        if not self.built:
            super().build(input_shape)
            self.gate.bias.assign(tf.fill([self.width], _FIRST_GATE))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [rows, width] to [rows, width], in the dtype of x."""
        gate = tf.sigmoid(self.gate(x))
        return gate * tf.nn.relu(self.transform(x)) + (1 - gate) * x


@serializable
class WordEmbeddings(Configured, Layer):
    """A vector for each word: convolutions over its characters, highways, and a projection."""

    config: ElmoConfig

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__((None, None), **kwargs)
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
        """Characters of words [vocab_size, 50], character embeddings, and the inner layers."""
        config = self.config
        shape = (config.vocab_size, CHARACTERS)
        yield Weight("word_characters", shape, "zeros", "characters", integer=True)
        shape = (_KINDS, config.character_size)
        yield Weight("character_embeddings", shape, _CHARACTER_SPREAD, "table")
        yield from (*self.convolutions, *self.highways, self.projection)

    def call(self, word_ids: tf.Tensor, dtype: str | None = None) -> tf.Tensor:
        """Embeds int32 [batch, length] ids as [batch, length, projection_size].

        Each distinct word of the batch is computed once, except in a program of XLA, whose shapes
        must be known beforehand. The result has `dtype`, or the compute dtype.
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
        """The vectors [words, projection_size] of int32 [words] ids."""
        characters = tf.gather(tf.convert_to_tensor(self.characters), words)
        there = tf.cast(characters != _NOTHING, tf.float32)[:, :, tf.newaxis]
        # Looked up in float32, so that the gradient of the table is summed in float32.
        rows = tf.gather(tf.convert_to_tensor(self.table), tf.maximum(characters - 1, 0))
        x = tf.cast(tf.cast(rows, tf.float32) * there, dtype)
        x = tf.concat([convolution(x) for convolution in self.convolutions], -1)
        x = activations.function(self.config.char_act)(x)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [batch, length, projection_size] for [batch, length]."""
        return (*input_shape, self.config.projection_size)

    def compute_output_spec(  # type: ignore[override]  # each Keras layer has its own arguments
        self, word_ids: Any, *args: Any, dtype: str | None = None, **kwargs: Any
    ) -> Any:
        """The output for symbolic ids."""
        shape = self.compute_output_shape(word_ids.shape)
        return keras.KerasTensor(shape, dtype or self.compute_dtype)


def _spread(vectors: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Gathers rows [words, width] as [places, width]; gradients are summed in float32."""

    @tf.custom_gradient
    def apply(vectors: tf.Tensor) -> tuple[tf.Tensor, Any]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            wide = tf.cast(upstream, tf.float32)
            summed = tf.math.unsorted_segment_sum(wide, places, tf.shape(vectors)[0])
            return tf.cast(summed, vectors.dtype)

        return tf.gather(vectors, places), gradient

    return apply(vectors)
