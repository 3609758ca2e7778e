"""Decoders: logits of the next token, with a cache of what was computed before."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import tensorflow as tf

from bert_tf.models.encoder import BertEncoder
from bert_tf.models.layers.attention import KeyValueCache

StateT = TypeVar("StateT")


class Decoder(Protocol[StateT]):
    """A model that continues sequences of tokens.

    A state is a nested tuple of tensors; the first axis of each is that of the sequences.
    """

    def begin(self, ids: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, StateT]:
        """Reads prompts.

        Args:
          ids: int32 [rows, length], padded on the left.
          mask: int32 [rows, length], 1 for tokens, 0 for padding.

        Returns:
          float32 logits [rows, vocab_size] of the next token, and the state.
        """

    def step(self, tokens: tf.Tensor, state: StateT) -> tuple[tf.Tensor, StateT]:
        """Reads one more token of each sequence, int32 [rows]; returns the same."""

    def shapes(self, state: StateT) -> StateT:
        """The shapes of a state in a loop, with None for axes that change."""


class CausalState(NamedTuple):
    """The tokens that a causal model has read."""

    mask: tf.Tensor  # int32 [rows, tokens], 1 for tokens, 0 for padding
    keys: tuple[tf.Tensor, ...]  # of each layer [rows, heads, tokens, head size]
    values: tuple[tf.Tensor, ...]  # the same


class CausalDecoder(Decoder[CausalState]):
    """A causal encoder with a head over the vocabulary.

    Args:
      encoder: The encoder.
      token_logits: Maps its outputs [rows, hidden_size] to float32 logits [rows, vocab_size].
    """

    def __init__(self, encoder: BertEncoder, token_logits: Callable[[tf.Tensor], tf.Tensor]):
        self._encoder, self._token_logits = encoder, token_logits

    def begin(self, ids: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, CausalState]:
        rows = tf.shape(ids)[0]
        return self._read(ids, mask, self._encoder.empty_caches(rows))

    def step(self, tokens: tf.Tensor, state: CausalState) -> tuple[tf.Tensor, CausalState]:
        mask = tf.pad(state.mask, [[0, 0], [0, 1]], constant_values=1)
        caches = list(map(KeyValueCache, state.keys, state.values))
        return self._read(tokens[:, tf.newaxis], mask, caches)

    def shapes(self, state: CausalState) -> Any:
        return CausalState(
            tf.TensorShape([None, None]),
            *(tuple(grown(x) for x in each) for each in (state.keys, state.values)),
        )

    def _read(
        self, ids: tf.Tensor, mask: tf.Tensor, caches: list[KeyValueCache]
    ) -> tuple[tf.Tensor, CausalState]:
        numbers = tf.maximum(tf.cumsum(mask, axis=1) - 1, 0)[:, -tf.shape(ids)[1] :]
        positions = numbers + self._encoder.config.position_offset
        hidden = self._encoder.extend(ids, positions, mask, caches)
        keys, values = zip(*((cache.keys, cache.values) for cache in caches), strict=True)
        return self._token_logits(hidden[:, -1]), CausalState(mask, keys, values)


def grown(x: tf.Tensor) -> tf.TensorShape:
    """The shape of keys or values in a loop that adds tokens."""
    _, heads, _, size = x.shape
    return tf.TensorShape([None, heads, None, size])
