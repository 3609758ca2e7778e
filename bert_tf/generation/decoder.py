"""Decoders: logits of the next token, with a cache of what was computed before."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import tensorflow as tf

from bert_tf.models.encoder import BertEncoder
from bert_tf.models.encoder_decoder import EncoderDecoder
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers.attention import KeyValueCache
from bert_tf.models.layers.transformer_block import DecoderCache
from pipelines.tokenizers.base import Tokenizer

StateT = TypeVar("StateT")


class Decoder(Protocol[StateT]):
    """A model that writes sequences of tokens.

    A state is a nested tuple of tensors; the first axis of each is that of the sequences.

    Attributes:
      continues: Whether they continue their prompts; else prompts are sources of other texts.
      forced: Number of tokens at the beginning of a result that are not chosen, but count in its
        length in beam search.
    """

    continues: ClassVar[bool] = True
    forced: int = 0

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

    def reordered(self, state: StateT, order: tf.Tensor) -> StateT:
        """A state with other sequences in place, int32 [sequences], each of the same prompt."""
        return tf.nest.map_structure(lambda x: tf.gather(x, order), state)


class LayerCache(NamedTuple):
    """Keys and values of one layer, as part of a state."""

    keys: tf.Tensor  # [rows, heads, tokens, head size]
    values: tf.Tensor  # the same


class CausalState(NamedTuple):
    """The tokens that a causal model has read."""

    mask: tf.Tensor  # int32 [rows, tokens], 1 for tokens, 0 for padding
    caches: tuple[LayerCache, ...]


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
        caches = [KeyValueCache(*cache) for cache in state.caches]
        return self._read(tokens[:, tf.newaxis], mask, caches)

    def _read(
        self, ids: tf.Tensor, mask: tf.Tensor, caches: list[KeyValueCache]
    ) -> tuple[tf.Tensor, CausalState]:
        positions = self._encoder.numbered(mask)[:, -tf.shape(ids)[1] :]
        hidden = self._encoder.extend(ids, positions, mask, caches)
        return self._token_logits(hidden[:, -1]), CausalState(mask, _contents(caches))


class SourceState(NamedTuple):
    """A source, and the tokens that a decoder has read."""

    tokens: CausalState
    source_mask: tf.Tensor  # int32 [rows, source length]
    caches: tuple[LayerCache, ...]  # of the source


class SourceDecoder(Decoder[SourceState]):
    """The decoder of an encoder-decoder, with a head over the vocabulary; prompts are sources.

    Args:
      encoder: The model.
      token_logits: Maps its outputs [rows, hidden_size] to float32 logits [rows, vocab_size].
      start_ids: What the decoder reads before the first token that it writes.
      dtype: The dtype to compute in; None: the compute dtype of the model.
    """

    continues: ClassVar[bool] = False

    def __init__(
        self,
        encoder: EncoderDecoder,
        token_logits: Callable[[tf.Tensor], tf.Tensor],
        start_ids: Sequence[int],
        dtype: str | None = None,
    ):
        self._encoder, self._token_logits = encoder, token_logits
        self._start_ids, self._dtype = list(start_ids), dtype
        self.forced = len(start_ids) - 1  # without what the decoder reads before the result

    def begin(self, ids: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, SourceState]:
        caches = self._encoder.read(EncoderInputs(ids, mask, None), self._dtype)
        start = tf.tile(tf.constant([self._start_ids], tf.int32), [tf.shape(ids)[0], 1])
        return self._read(start, tf.ones_like(start), mask, caches)

    def step(self, tokens: tf.Tensor, state: SourceState) -> tuple[tf.Tensor, SourceState]:
        known = state.tokens
        mask = tf.pad(known.mask, [[0, 0], [0, 1]], constant_values=1)
        caches = [
            DecoderCache(KeyValueCache(*own), KeyValueCache(*source))
            for own, source in zip(known.caches, state.caches, strict=True)
        ]
        return self._read(tokens[:, tf.newaxis], mask, state.source_mask, caches)

    def reordered(self, state: SourceState, order: tf.Tensor) -> SourceState:
        """As in the base class; sequences of one prompt have one source."""
        return state._replace(tokens=super().reordered(state.tokens, order))  # type: ignore

    def _read(
        self, ids: tf.Tensor, mask: tf.Tensor, source_mask: tf.Tensor, caches: list[DecoderCache]
    ) -> tuple[tf.Tensor, SourceState]:
        positions = self._encoder.numbered(mask)[:, -tf.shape(ids)[1] :]
        hidden = self._encoder.extend(ids, positions, mask, caches, source_mask)
        known = CausalState(mask, _contents([cache.tokens for cache in caches]))
        sources = _contents([cache.source for cache in caches])
        return self._token_logits(hidden[:, -1]), SourceState(known, source_mask, sources)


def make(
    encoder: BertEncoder,
    token_logits: Callable[[tf.Tensor], tf.Tensor],
    tokenizer: Tokenizer,
    dtype: str | None = None,
) -> Decoder:
    """The decoder of a language model.

    Args:
      encoder: As for `CausalDecoder`.
      token_logits: The same.
      tokenizer: The tokenizer of the model.
      dtype: As for `SourceDecoder`.
    """
    if not isinstance(encoder, EncoderDecoder):
        return CausalDecoder(encoder, token_logits)
    # Texts begin with the start token; before it is the last one, as in training.
    return SourceDecoder(encoder, token_logits, (tokenizer.separator_id, tokenizer.start_id), dtype)


def _contents(caches: Sequence[KeyValueCache]) -> tuple[LayerCache, ...]:
    """Caches as part of a state."""
    return tuple(LayerCache(cache.keys, cache.values) for cache in caches)
