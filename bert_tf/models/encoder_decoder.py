"""An encoder and a decoder of the same layers (BART: Lewis et al. 2019, arXiv 1910.13461)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import rematerialization
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import SEEDS_PER_BLOCK, BertEncoder
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import DecoderBlock, Embeddings, TransformerBlock
from bert_tf.models.layers.attention import attention_bias
from bert_tf.models.layers.base import Layer, Weight, serializable
from bert_tf.models.layers.transformer_block import DecoderCache

# Inputs: the text to decode, and its mask.
TARGET, TARGET_MASK = "target_word_ids", "target_mask"
_SEEDS_PER_DECODER_BLOCK = 5


class DecoderEmbeddings(Embeddings):
    """Embeddings with positions and a norm of their own, and the words of others."""

    def __init__(self, config: BertConfig, words: Callable[[], keras.Variable], **kwargs):
        super().__init__(config, **kwargs)
        self._words = words

    def members(self) -> Iterator[Weight | Layer]:
        """The position table and the norm."""
        return (part for part in super().members() if getattr(part, "attribute", "") != "word")

    @property
    def word(self) -> keras.Variable:
        """The table of word embeddings."""
        return self._words()


@serializable
class PairedEmbeddings(Embeddings):
    """The embeddings of an encoder, and in `decoder` those of its decoder."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.decoder = DecoderEmbeddings(
            config, lambda: self.word, name="decoder", dtype=self.dtype_policy
        )

    def members(self) -> Iterator[Weight | Layer]:
        """Tables and norm, and the embeddings of the decoder."""
        yield from super().members()
        yield self.decoder


@serializable
class EncoderDecoder(BertEncoder):
    """A BART without heads: the decoder reads tokens from left to right, and all of the source.

    As an `Encoder`, it reads each sequence twice, with the encoder and, shifted by one token, with
    the decoder, whose outputs are those of the tokens (section 3.3 of the paper). The vector of a
    sequence is that of its last token. The layers are those of the encoder, then the decoder's.
    """

    embeddings: PairedEmbeddings

    def create_embeddings(self, policy: keras.DTypePolicy) -> PairedEmbeddings:
        """Creates `embeddings`."""
        return PairedEmbeddings(self.config, name="embeddings", dtype=policy)

    def create_blocks(self, policy: keras.DTypePolicy) -> list[TransformerBlock]:
        """Creates `blocks`: "block_0", ... of the encoder, then "decoder_block_0", ..."""
        encoder = self.config.num_hidden_layers - self.config.num_decoder_layers
        return [
            *(
                TransformerBlock(self.config, name=f"block_{index}", dtype=policy)
                for index in range(encoder)
            ),
            *(
                DecoderBlock(self.config, name=f"decoder_block_{index}", dtype=policy)
                for index in range(self.config.num_decoder_layers)
            ),
        ]

    @property
    def _layers_of(self) -> tuple[list[TransformerBlock], list[DecoderBlock]]:
        """The blocks of the encoder, and those of the decoder."""
        count = self.config.num_hidden_layers - self.config.num_decoder_layers
        return self.blocks[:count], self.blocks[count:]

    @property
    def num_seeds(self) -> int:
        """Number of dropouts: of both embeddings, of the blocks, and before the pooler."""
        encoder, decoder = map(len, self._layers_of)
        blocks = SEEDS_PER_BLOCK * encoder + _SEEDS_PER_DECODER_BLOCK * decoder
        return 2 + blocks + bool(self.config.pooler_dropout)

    def call(
        self,
        inputs: Any,
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        dtype: str | None = None,
        drop_padding: bool = False,
        outputs_at: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Encodes a batch as in the base class, or decodes given texts.

        The inputs may be a dict with TARGET and TARGET_MASK, int32 [batch, target length] each.
        The result is then `sequence_output` [batch, target length, hidden_size], from which each
        token of the target is predicted, whatever `outputs_at` is. It always has `word_embeddings`,
        the table, too.
        """
        if isinstance(inputs, Mapping) and TARGET in inputs:
            seeds = self.draw_seeds(dropout_seed) if training else None
            mask = inputs[TARGET_MASK]
            read = shifted(inputs[TARGET], mask)
            found = {
                "sequence_output": self.decode(self.batch_of(inputs), read, mask, seeds, dtype)
            }
        else:
            found = super().call(inputs, training, dropout_seed, dtype, drop_padding, outputs_at)
        return found | {"word_embeddings": tf.convert_to_tensor(self.word_embeddings)}

    def encode_batch(
        self, batch: EncoderInputs, seeds: tf.Tensor | None, dtype: str | None, drop_padding: bool
    ) -> dict[str, Any]:
        """Computes the result of `call`, without dropout if `seeds` is None."""
        return self.encode(self._embed_twice(batch, seeds, dtype), batch.mask, seeds)

    def embed(
        self, word_ids: tf.Tensor, type_ids: tf.Tensor, counted_ids: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Embeds int32 [batch, length] ids for both: [batch * length, 2 * hidden_size]."""
        del type_ids, counted_ids  # padding is after all tokens, and has any position
        return self._embed_twice(EncoderInputs(word_ids, tf.ones_like(word_ids), None), None, None)

    def _embed_twice(
        self, batch: EncoderInputs, seeds: tf.Tensor | None, dtype: str | None
    ) -> tf.Tensor:
        """Embeds each token for the encoder and, at its place in the decoder, for the decoder."""
        mask, offset = batch.mask, self.config.position_offset
        number = self.numbered(mask)
        count = tf.maximum(tf.reduce_sum(mask, 1, keepdims=True), 1)
        first, second = (None, None) if seeds is None else (seeds[0], seeds[1])
        return tf.concat(
            [
                self.embeddings(batch.word_ids, seed=first, dtype=dtype, positions=number),
                self.embeddings.decoder(
                    batch.word_ids,
                    seed=second,
                    dtype=dtype,
                    positions=offset + (number - offset + 1) % count,
                ),
            ],
            1,
        )

    def encode(  # type: ignore[override]  # it has no rows
        self, x: tf.Tensor, mask: tf.Tensor, seeds: tf.Tensor | None = None
    ) -> dict[str, Any]:
        """Applies the layers to the result of `embed`, as in the base class."""
        shape, width = tf.shape(mask), self.config.hidden_size
        x, y = x[:, :width], tf.reshape(x[:, width:], [shape[0], shape[1], width])
        count = tf.maximum(tf.reduce_sum(mask, 1, keepdims=True), 1)
        order = tf.repeat(tf.range(-1, shape[1] - 1)[tf.newaxis], shape[0], 0)
        order = tf.where(order < 0, count - 1, order)
        y = tf.reshape(tf.gather(y, order, batch_dims=1), [-1, width])
        embedded = tf.reshape(x, [shape[0], shape[1], width])
        outputs, probabilities = self._apply(x, mask, y, mask, seeds)
        # The attention of tokens: they are one place later in the decoder.
        places = (self.numbered(mask) - self.config.position_offset + 1) % count
        probabilities = [
            *probabilities[: -self.config.num_decoder_layers],
            *(
                tf.gather(tf.gather(p, places, axis=2, batch_dims=1), places, axis=3, batch_dims=1)
                for p in probabilities[-self.config.num_decoder_layers :]
            ),
        ]
        return self.result(embedded, outputs, probabilities, mask, seeds)

    def decode(
        self,
        source: EncoderInputs,
        word_ids: tf.Tensor,
        mask: tf.Tensor,
        seeds: tf.Tensor | None = None,
        dtype: str | None = None,
    ) -> tf.Tensor:
        """The decoder's outputs [batch, length, hidden_size] for given tokens.

        Args:
          source: The tokens that the encoder reads.
          word_ids: int32 [batch, length], the tokens that the decoder reads.
          mask: int32 [batch, length], 1 for tokens, 0 for padding, which is after them.
          seeds: The result of `draw_seeds`; None: no dropout.
          dtype: The dtype to compute in; None: the compute dtype of the model.
        """
        first, second = (None, None) if seeds is None else (seeds[0], seeds[1])
        places = self.numbered(source.mask)
        x = self.embeddings(source.word_ids, seed=first, dtype=dtype, positions=places)
        y = self.embeddings.decoder(
            word_ids, seed=second, dtype=dtype, positions=self.numbered(mask)
        )
        return self._apply(x, source.mask, y, mask, seeds)[0][-1]

    def _apply(
        self,
        x: tf.Tensor,
        source_mask: tf.Tensor,
        y: tf.Tensor,
        mask: tf.Tensor,
        seeds: tf.Tensor | None,
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The output and the self-attention probabilities of each layer."""
        encoder, decoder = self._layers_of
        source_bias, bias = attention_bias(source_mask, False), attention_bias(mask, True)
        outputs, probabilities, first = [], [], 2

        def next_seeds(count: int) -> tf.Tensor | None:
            nonlocal first
            first += count
            return None if seeds is None else seeds[first - count : first]

        def note(x: tf.Tensor, attended: tf.Tensor, mask: tf.Tensor) -> None:
            shape = tf.concat([tf.shape(mask), [self.config.hidden_size]], 0)
            outputs.append(tf.ensure_shape(tf.reshape(x, shape), [None, None, x.shape[-1]]))
            probabilities.append(attended)

        for block in encoder:
            x, attended = rematerialization.apply(
                block, x, source_bias, next_seeds(SEEDS_PER_BLOCK)
            )
            note(x, attended, source_mask)
        for block in decoder:
            y, attended = rematerialization.apply(
                block, (y, x), (bias, source_bias), next_seeds(_SEEDS_PER_DECODER_BLOCK)
            )
            note(y, attended, mask)
        return outputs, probabilities

    def read(self, source: EncoderInputs, dtype: str | None = None) -> list[DecoderCache]:
        """Caches of each layer of the decoder, with a source and no tokens.

        They and what extends them have the given dtype; None: the compute dtype of the model.
        """
        batch, encoder = tf.shape(source.mask)[0], self._layers_of[0]
        places = self.numbered(source.mask)
        x = self.embeddings(source.word_ids, positions=places, dtype=dtype)
        bias = attention_bias(source.mask, False)
        for block in encoder:
            x, _ = block(x, bias)
        return [
            DecoderCache(tokens, block.cross_attention.read(x, batch))
            for block, tokens in zip(
                self._layers_of[1], self.empty_caches(batch, dtype), strict=False
            )
        ]

    def extend(  # type: ignore[override]  # its caches have a source, too
        self,
        word_ids: tf.Tensor,
        positions: tf.Tensor,
        mask: tf.Tensor,
        caches: Sequence[DecoderCache],
        source_mask: tf.Tensor,
    ) -> tf.Tensor:
        """Decodes tokens that follow others, without dropout, as in the base class.

        `source_mask` is int32 [batch, source length]; the caches are those of `read`.
        """
        count = tf.shape(word_ids)[1]
        bias = self.last_bias(mask, count), attention_bias(source_mask, False)
        dtype = caches[0].source.keys.dtype
        x = self.embeddings.decoder(word_ids, positions=positions, dtype=dtype)
        for block, cache in zip(self._layers_of[1], caches, strict=True):
            x, _ = block(x, bias, cache=cache)
        return tf.reshape(x, [-1, count, self.config.hidden_size])


def shifted(ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """What a decoder reads when it predicts texts: their last token, then the others in order.

    Args:
      ids: int32 [batch, length].
      mask: int32 [batch, length], 1 for tokens, 0 for padding, which is after them.
    """
    last = tf.maximum(tf.reduce_sum(mask, 1, keepdims=True) - 1, 0)
    return tf.concat([tf.gather(ids, last, batch_dims=1), ids[:, :-1]], 1)
