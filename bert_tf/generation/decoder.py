"""The decoder of a language model: logits of the next token, with a cache of those before."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.models.encoder import BertEncoder
from bert_tf.models.encoder_decoder import EncoderDecoder
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers.attention import KeyValueCache
from bert_tf.models.layers.transformer_block import DecoderCache
from pipelines.tokenizers.base import Tokenizer

# Keys and values of each layer, [rows, heads, tokens, head size] each.
Caches = tuple[tuple[tf.Tensor, tf.Tensor], ...]


class DecoderState(NamedTuple):
    """What has been read; the first axis of each tensor is that of the sequences."""

    mask: tf.Tensor  # int32 [rows, tokens], 1 for tokens, 0 for padding
    caches: Caches  # of the tokens
    source: tuple[tf.Tensor, ...] = ()  # of an encoder-decoder: the mask [rows, source length]
    source_caches: Caches = ()


class Decoder:
    """A model that writes sequences of tokens: a causal encoder or an encoder-decoder with a head.

    Args:
      encoder: The model.
      token_logits: Maps its outputs [rows, hidden_size] to float32 logits [rows, vocab_size].
      start_ids: What an encoder-decoder reads before the first token that it writes.
      dtype: The dtype that an encoder-decoder computes in; None: the compute dtype of the model.

    Attributes:
      continues: Whether results continue their prompts; else prompts are sources of other texts.
      forced: Number of tokens at the beginning of a result that are not chosen, but count in its
        length in beam search.
    """

    def __init__(
        self,
        encoder: BertEncoder,
        token_logits: Callable[[tf.Tensor], tf.Tensor],
        start_ids: Sequence[int] = (),
        dtype: str | None = None,
    ):
        self._encoder, self._token_logits = encoder, token_logits
        self._start_ids, self._dtype = list(start_ids), dtype
        self.continues = not isinstance(encoder, EncoderDecoder)
        self.forced = max(len(start_ids) - 1, 0)  # the first one is read before the result

    def begin(self, ids: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, DecoderState]:
        """Reads prompts.

        Args:
          ids: int32 [rows, length], padded on the left.
          mask: int32 [rows, length], 1 for tokens, 0 for padding.

        Returns:
          float32 logits [rows, vocab_size] of the next token, and the state.
        """
        rows = tf.shape(ids)[0]
        if not isinstance(self._encoder, EncoderDecoder):
            return self._read(ids, mask, self._encoder.empty_caches(rows))
        caches = self._encoder.read(EncoderInputs(ids, mask, None), self._dtype)
        start = tf.tile(tf.constant([self._start_ids], tf.int32), [rows, 1])
        return self._read(start, tf.ones_like(start), caches, mask)

    def step(self, tokens: tf.Tensor, state: DecoderState) -> tuple[tf.Tensor, DecoderState]:
        """Reads one more token of each sequence, int32 [rows]; returns the same."""
        mask = tf.pad(state.mask, [[0, 0], [0, 1]], constant_values=1)
        caches: list[Any] = list(itertools.starmap(KeyValueCache, state.caches))
        if not self.continues:
            sources = itertools.starmap(KeyValueCache, state.source_caches)
            caches = list(map(DecoderCache, caches, sources))
        return self._read(tokens[:, tf.newaxis], mask, caches, *state.source)

    def reordered(self, state: DecoderState, order: tf.Tensor) -> DecoderState:
        """A state with other sequences in place, int32 [sequences], each of the same prompt.

        Sequences of one prompt have one source, which stays where it is.
        """
        mask, caches = tf.nest.map_structure(
            lambda x: tf.gather(x, order), (state.mask, state.caches)
        )
        return state._replace(mask=mask, caches=caches)

    def _read(
        self, ids: tf.Tensor, mask: tf.Tensor, caches: Sequence[Any], *source: tf.Tensor
    ) -> tuple[tf.Tensor, DecoderState]:
        positions = self._encoder.numbered(mask)[:, -tf.shape(ids)[1] :]
        hidden = self._encoder.extend(ids, positions, mask, caches, *source)  # fills the caches
        own, of_source = (caches, ()) if self.continues else zip(*caches, strict=True)
        known, of_sources = (
            tuple((cache.keys, cache.values) for cache in some) for some in (own, of_source)
        )
        state = DecoderState(mask, known, source, of_sources)
        return self._token_logits(hidden[:, -1]), state


def make(
    encoder: BertEncoder,
    token_logits: Callable[[tf.Tensor], tf.Tensor],
    tokenizer: Tokenizer,
    dtype: str | None = None,
) -> Decoder:
    """The decoder of a language model with a tokenizer; other arguments as of `Decoder`."""
    if not isinstance(encoder, EncoderDecoder):
        return Decoder(encoder, token_logits)
    # Texts begin with the start token; before it is the last one, as in training.
    return Decoder(encoder, token_logits, (tokenizer.separator_id, tokenizer.start_id), dtype)
