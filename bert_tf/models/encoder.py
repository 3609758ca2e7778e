"""The Transformer encoder of BERT and its relatives."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import rematerialization
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.config import BertConfig
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import Embeddings, LayerNorm, NoPooler, Pooler, TransformerBlock, pooling
from bert_tf.models.layers.attention import KeyValueCache, attention_bias
from bert_tf.models.layers.base import Layer, Shape, serializable
from bert_tf.models.layers.token_rows import MASKED, Queries, TokenRows

SEEDS_PER_BLOCK = 3


@serializable
class BertEncoder(Encoder):
    """BERT without heads, or a related model, depending on the options of the configuration.

    `pooled_output` is by default tanh of a linear map of the vector of [CLS], or of the last token
    in a causal model.

    >>> encoder = BertEncoder(BertConfig.named("tiny"))
    >>> ids = tf.constant([[101, 7592, 102]])
    >>> outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids),
    ...                    "input_type_ids": tf.zeros_like(ids)})
    >>> outputs["sequence_output"].shape
    TensorShape([1, 3, 128])
    """

    config: BertConfig
    embeddings: Embeddings
    blocks: list[TransformerBlock]

    def create_layers(self, policy: keras.DTypePolicy) -> None:
        """Creates `embeddings`, `blocks`, `pooler`, and for `pre_norm` models `final_norm`."""
        config = self.config
        self.final_norm = None
        if config.pre_norm:
            self.final_norm = LayerNorm(
                *(config.hidden_size, config.layer_norm_eps, 0.0, config.norm_bias),
                name="final_norm",
                dtype=policy,
            )
        self.embeddings = self.create_embeddings(policy)
        self.blocks = self.create_blocks(policy)
        if config.pooler_act is None:
            self.pooler = NoPooler(config.hidden_size, name="pooler", dtype=policy)
        else:
            self.pooler = Pooler(
                config.hidden_size,
                config.pooler_act,
                config.pooler_dropout,
                config.initializer_range,
                name="pooler",
                dtype=policy,
            )

    def members(self) -> tuple[Layer, ...]:
        """Embeddings, blocks from bottom to top, final norm if it exists, and pooler."""
        norm = () if self.final_norm is None else (self.final_norm,)
        return self.embeddings, *self.blocks, *norm, self.pooler

    def layer_variables(self) -> list[list[keras.Variable]]:
        """As in the base class; the final norm belongs to the last block."""
        *lower, last = super().layer_variables()
        return [*lower, last + ([] if self.final_norm is None else self.final_norm.variables)]

    def create_embeddings(self, policy: keras.DTypePolicy) -> Embeddings:
        """Creates `embeddings`."""
        return Embeddings(self.config, name="embeddings", dtype=policy)

    def create_blocks(self, policy: keras.DTypePolicy) -> list[TransformerBlock]:
        """Creates `blocks`."""
        return [
            TransformerBlock(self.config, index, name=f"block_{index}", dtype=policy)
            for index in range(self.config.num_blocks)
        ]

    @property
    def word_embeddings(self) -> keras.Variable:
        """The table of word embeddings, float32 [vocab_size, embedding width]."""
        return self.embeddings.word

    @property
    def position_embeddings(self) -> keras.Variable:
        """The table of position embeddings, float32 [max_position_embeddings, embedding width]."""
        return self.embeddings.position

    @property
    def _stack(self) -> list[TransformerBlock]:
        """The block of each layer from bottom to top; repeated if it is shared.

        Its name is part of files that Keras saves.
        """
        return list(self.blocks) * (self.config.num_hidden_layers // len(self.blocks))

    @property
    def num_seeds(self) -> int:
        """Number of dropouts: of the embeddings, of the blocks and optionally before the pooler."""
        pooler = bool(self.config.pooler_dropout)
        return 1 + SEEDS_PER_BLOCK * self.config.num_hidden_layers + pooler

    def encode_batch(
        self, batch: EncoderInputs, seeds: tf.Tensor | None, dtype: str | None, drop_padding: bool
    ) -> dict[str, Any]:
        """Computes the result of `call`, without dropout if `seeds` is None."""
        return self.encode(*self._embedded(batch, seeds, dtype, drop_padding))

    def encode_at(self, positions: tf.Tensor, *args: Any) -> dict[str, Any]:
        """As in the base class; the last layer computes no more than is needed."""
        if self._pools_first:
            return self.encode(*self._embedded(*args), outputs_at=positions)
        return super().encode_at(positions, *args)

    @property
    def _pools_first(self) -> bool:
        return not (self.config.pools_last or self.config.pool_mean)

    def _embedded(
        self, batch: EncoderInputs, seeds: tf.Tensor | None, dtype: str | None, drop_padding: bool
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None, TokenRows | None]:
        """The arguments of `encode`, from those of `encode_batch`."""
        rows = TokenRows.of_mask(batch.mask) if drop_padding else None
        seed = None if seeds is None else seeds[0]
        x = self.embeddings(batch.word_ids, batch.type_ids, seed=seed, dtype=dtype, rows=rows)
        return x, batch.mask, seeds, rows

    def flops(self, length: int, outputs: int | None = None) -> int:
        """As in the base class."""
        every = super().flops(length)
        if outputs is None or not self._pools_first:
            return every
        last = self.blocks[-1]
        return every - last.flops(length) + last.flops(length, queries=1 + outputs)

    def embed(
        self, word_ids: tf.Tensor, type_ids: tf.Tensor, counted_ids: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Embeds int32 [batch, length] ids without dropout: [batch * length, hidden_size].

        Positions follow from `counted_ids` if given, as padding is not counted in a RoBERTa.
        """
        return self.embeddings(word_ids, type_ids, counted_ids=counted_ids)

    def encode(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        seeds: tf.Tensor | None = None,
        rows: TokenRows | None = None,
        outputs_at: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Applies the layers to embedded tokens, so that gradients for embeddings can be computed.

        Args:
          x: Embeddings [batch * length, hidden_size]; or, with `rows`, [rows, hidden_size].
          mask: int32 [batch, length], 1 for tokens, 0 for padding.
          seeds: int32 [seeds], one for each dropout; None: no dropout.
          rows: The positions that x has; None: all.
          outputs_at: As for `call`, if the pooler reads the first token.

        Returns:
          The result of `call`.
        """
        assert outputs_at is None or self._pools_first
        shape, bias = tf.shape(mask), attention_bias(mask, self.config.causal)
        relative_scores = self.embeddings.relative_scores(mask.shape[1] or shape[1])
        options = {"rows": rows, "relative_scores": relative_scores}

        def padded(x: tf.Tensor) -> tf.Tensor:
            x = x if rows is None else rows.pad(x)
            return tf.reshape(x, [shape[0], shape[1], self.config.hidden_size])

        embedded = padded(x)
        outputs, probabilities = [], []
        for index, block in enumerate(self._stack):
            first = 1 + index * SEEDS_PER_BLOCK
            seed = None if seeds is None else seeds[first : first + SEEDS_PER_BLOCK]
            is_last = index == self.config.num_hidden_layers - 1
            chosen = outputs_at if is_last else None
            queries = None if chosen is None else Queries(chosen)
            x, attended = rematerialization.apply(block, x, bias, seed, queries=queries, **options)
            x = self._finish(x) if is_last else x
            if chosen is None:
                outputs.append(padded(x))
            else:
                count = tf.shape(chosen)[1] if chosen.shape[1] is None else chosen.shape[1]
                outputs.append(tf.reshape(x, [shape[0], 1 + count, self.config.hidden_size]))
            probabilities.append(attended)
        found = self.result(embedded, outputs, probabilities, mask, seeds)
        return found if outputs_at is None else found | {"sequence_output": outputs[-1][:, 1:]}

    def result(
        self,
        embedded: tf.Tensor,
        outputs: list[tf.Tensor],
        probabilities: list[tf.Tensor],
        mask: tf.Tensor,
        seeds: tf.Tensor | None,
    ) -> dict[str, Any]:
        """The result of `call`, from the input of the first layer and what each layer computed."""
        pooler_seed = seeds[-1] if seeds is not None and self.config.pooler_dropout else None
        return {
            "sequence_output": outputs[-1],
            "pooled_output": self.pool(outputs[-1], mask, pooler_seed),
            "encoder_outputs": outputs,
            "embedding_output": embedded,
            "attention_probs": probabilities,
            "input_mask": mask,
        }

    def _finish(self, x: tf.Tensor) -> tf.Tensor:
        """The output of the last layer, normalized if the model has a final norm."""
        return x if self.final_norm is None else self.final_norm(x)

    def extend(
        self,
        word_ids: tf.Tensor,
        positions: tf.Tensor,
        mask: tf.Tensor,
        caches: Sequence[KeyValueCache],
    ) -> tf.Tensor:
        """Encodes tokens that follow others, in a causal model without dropout.

        Args:
          word_ids: int32 [batch, length], the new tokens.
          positions: int32 [batch, length], rows of the position table.
          mask: int32 [batch, tokens before and new], 1 for tokens, 0 for padding.
          caches: Keys and values of the tokens before, for each layer; the new tokens are added.

        Returns:
          The outputs [batch, length, hidden_size] of the new tokens.
        """
        count = tf.shape(word_ids)[1]
        bias = self.last_bias(mask, count)
        x = self.embeddings(word_ids, positions=positions)
        for block, cache in zip(self._stack, caches, strict=True):
            x, _ = block(x, bias, cache=cache)
        x = self._finish(x)
        return tf.reshape(x, [-1, count, self.config.hidden_size])

    def numbered(self, mask: tf.Tensor) -> tf.Tensor:
        """Rows of the position table int32 [batch, length] of tokens, wherever padding is."""
        return tf.maximum(tf.cumsum(mask, axis=1) - 1, 0) + self.config.position_offset

    @staticmethod
    def last_bias(mask: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """The mask bias [batch, 1, count, all] of the last tokens, which see those before."""
        total = tf.shape(mask)[1]
        visible = tf.range(total) <= tf.range(total - count, total)[:, tf.newaxis]
        visible &= tf.cast(mask, tf.bool)[:, tf.newaxis, tf.newaxis]
        return tf.where(visible, 0.0, MASKED)

    def empty_caches(self, batch: tf.Tensor | int, dtype: str | None = None) -> list[KeyValueCache]:
        """Caches of no tokens, for each layer; without a dtype, of the compute dtype."""
        heads = self.config.num_attention_heads
        shape = [batch, heads, 0, self.config.hidden_size // heads]
        empty = tf.zeros(shape, dtype or self.compute_dtype)
        return [KeyValueCache(empty, empty) for _ in self._stack]

    def pool(
        self, sequence: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The vector of each sequence: the first token's, the last one's, or the mean of all.

        See `pools_last` and `pool_mean` of the configuration.
        """
        if self.config.pool_mean:
            return self.pooler(tf.cast(pooling.mean(sequence, mask), sequence.dtype), seed=seed)
        if not self.config.pools_last:
            return self.pooler(sequence[:, 0], seed=seed)
        positions = tf.range(tf.shape(mask)[1]) * tf.cast(mask > 0, tf.int32)
        last = tf.gather(sequence, tf.reduce_max(positions, 1), batch_dims=1)
        return self.pooler(last, seed=seed)

    def pooler_seed(self, dropout_seed: tf.Tensor | None) -> tf.Tensor | None:
        """The seed of the dropout before the pooler; None if there is none."""
        return self.draw_seeds(dropout_seed)[-1] if self.config.pooler_dropout else None

    def attention_shapes(self, batch: int | None, length: int | None) -> list[Shape]:
        """The shape of the attention probabilities of each layer."""
        return [block.attention.probabilities_shape(batch, length) for block in self._stack]
