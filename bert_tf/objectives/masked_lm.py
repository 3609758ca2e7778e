"""The objectives of the paper: masked LM, next sentences, and left-to-right (3.1, 5.1, A.2)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import tensorflow as tf

from bert_tf.models import heads
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Dense
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives.base import Batch, LossSums, PretrainingObjective, Scalars, score
from bert_tf.objectives.dynamic_masking import DynamicMasking

_MASKED = frozenset(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"))


class TokenLabels(NamedTuple):
    """The tokens of a batch to predict."""

    positions: tf.Tensor | None  # int32 [batch, count]; None: all of the sequence
    ids: tf.Tensor  # int32 [batch * count], the correct tokens
    weights: tf.Tensor  # float32 [batch * count]; 0 for padding


class TokenPrediction(PretrainingObjective):
    """An encoder and the masked-LM head, which predicts the tokens of `labels`."""

    # The objectives of the paper have the same columns, so that their histories can be compared.
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "next_sentence_accuracy")
    parts: ClassVar[tuple[str, ...]] = ("masked_lm",)
    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = self.create_head()
        self.masked_lm.build(self.masked_lm.expected_shape)
        self.built = True

    def create_head(self) -> heads.MaskedLMHead:
        """The head over the vocabulary, not yet built."""
        return heads.MaskedLMHead(self.config, name="masked_lm", dtype=self.dtype_policy)

    @property
    def token_head(self) -> heads.MaskedLMHead:
        """The head over the vocabulary."""
        return self.masked_lm

    def labels(self, batch: Batch) -> TokenLabels:
        """The tokens of a batch to predict."""
        raise NotImplementedError

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits: `masked_lm` [batch, predictions, vocab_size].

        The positions are `masked_lm_positions`, int32 [batch, predictions], if given, else all.
        """
        positions = inputs.get("masked_lm_positions")
        outputs = self.encoder(inputs, training=training, outputs_at=positions)
        return self.logits(outputs)

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits for the shapes of the inputs."""
        batch, length = input_shape["input_word_ids"]
        _, count = input_shape.get("masked_lm_positions", (batch, length))
        return {"masked_lm": (batch, count, self.config.vocab_size)}

    def logits(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The logits that `call` returns, from the encoder's outputs."""
        sequence = outputs["sequence_output"]
        logits = self.token_logits(self.rows(sequence))
        shape = tf.concat([tf.shape(sequence)[:2], [self.config.vocab_size]], 0)
        return {"masked_lm": tf.reshape(logits, shape)}

    def token_logits(self, rows: tf.Tensor) -> tf.Tensor:
        """Float32 logits [rows, vocab_size] for encoder outputs [rows, hidden_size]."""
        logits = self.masked_lm(rows, self.encoder.word_embeddings)
        return tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.masked_lm.bias)

    def totals(self, batch: Batch) -> Scalars:
        """The number of tokens to predict, by the name of the part."""
        return {self.parts[0]: tf.reduce_sum(self.labels(batch).weights)}

    def encode(
        self, batch: Batch, training: bool, dropout_seed: tf.Tensor | None
    ) -> dict[str, Any]:
        """The encoder's outputs, with `sequence_output` at the positions of `outputs_at`."""
        options = {"dropout_seed": dropout_seed, "outputs_at": self.outputs_at(batch)}
        return self.encoder(batch, training=training, **options)

    def outputs_at(self, batch: Batch) -> tf.Tensor | None:
        """The positions int32 [batch, count] that `sums` reads: of tokens to predict; None: all."""
        return self.labels(batch).positions

    def sums(
        self, outputs: dict[str, tf.Tensor], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums of each part, as in the base class."""
        labels = self.labels(batch)
        logits = self.masked_lm(self.rows(outputs["sequence_output"]), self.encoder.word_embeddings)
        return {self.parts[0]: score(logits, self.masked_lm.bias, labels.ids, labels.weights)}

    def rows(self, sequence: tf.Tensor) -> tf.Tensor:
        """Encoder outputs [batch, count, width] as [batch * count, width]."""
        return tf.reshape(sequence, [-1, sequence.shape[-1]])


@serializable
class MaskedLM(TokenPrediction):
    """Predicts masked tokens: masked LM alone, "No NSP" in section 5.1.

    Args:
      config: the encoder's configuration.
      masking: masks tokens on the device; None: the examples have masks.
    """

    causal: ClassVar[bool | None] = False
    guesses_masked: ClassVar[bool] = True

    def __init__(self, config: BertConfig, masking: DynamicMasking | None = None, **kwargs):
        super().__init__(config, **kwargs)
        self.masking = masking

    @classmethod
    def for_examples(
        cls, config: EncoderConfig, features: frozenset[str], masking: DynamicMasking, **kwargs
    ) -> Self:
        """Makes the objective, with masking on the device if the examples have no masks."""
        assert isinstance(config, BertConfig)  # see `config_type`
        return cls(config, None if _MASKED & features else masking, **kwargs)

    @property
    def features(self) -> frozenset[str]:
        """The masked tokens, unless they are drawn on the device."""
        return frozenset() if self.masking else _MASKED

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """The batch with masked tokens."""
        return self.masking(batch, seed) if self.masking else batch

    def labels(self, batch: Batch) -> TokenLabels:
        """The masked tokens, at their positions."""
        names = ("masked_lm_ids", "masked_lm_weights")
        ids, weights = (tf.reshape(batch[name], [-1]) for name in names)
        return TokenLabels(batch["masked_lm_positions"], ids, weights)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        masking = self.masking and dataclasses.asdict(self.masking)
        return super().get_config() | {"masking": masking}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        masking = config["masking"] and DynamicMasking.from_dict(config["masking"])
        return super().from_config(config | {"masking": masking}, custom_objects)


@serializable
class MaskedLMNextSentence(MaskedLM):
    """Predicts masked tokens, and whether the second segment follows the first (section 3.1)."""

    trains_pooler: ClassVar[bool] = True
    pair_part: ClassVar[str] = "next_sentence"
    parts: ClassVar[tuple[str, ...]] = ("masked_lm", pair_part)

    def __init__(self, config: BertConfig, masking: DynamicMasking | None = None, **kwargs):
        super().__init__(config, masking, **kwargs)
        # 0: the second segment follows the first; 1: it is random, or the first follows it.
        self.pairs = Dense(
            config.hidden_size,
            2,
            config.initializer_range,
            # Only ALBERT's formats have a head on the order of segments.
            name=self.pair_part if config.model_type == "albert" else "next_sentence",
            dtype=self.dtype_policy,
        )
        self.pairs.build(self.pairs.expected_shape)

    @property
    def features(self) -> frozenset[str]:
        """The features of masked LM, and the labels of pairs."""
        return super().features | {"next_sentence_labels"}

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits, by those of the inputs."""
        batch, _ = input_shape["input_word_ids"]
        return super().compute_output_shape(input_shape) | {self.pair_part: (batch, 2)}

    def logits(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The logits of masked LM, and those of pairs [batch, 2], float32."""
        logits = tf.cast(self.pairs(outputs["pooled_output"]), tf.float32)
        return super().logits(outputs) | {self.pair_part: logits}

    def totals(self, batch: Batch) -> Scalars:
        """The numbers of masked tokens and of pairs."""
        pairs = tf.cast(tf.shape(batch["input_word_ids"])[0], tf.float32)
        return super().totals(batch) | {self.pair_part: pairs}

    def sums(
        self, outputs: dict[str, tf.Tensor], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums for masked tokens and for pairs."""
        found = super().sums(outputs, batch, seed)
        labels = batch["next_sentence_labels"]
        logits = self.pairs(outputs["pooled_output"], add_bias=False)
        weights = tf.ones_like(labels, tf.float32)
        return found | {self.pair_part: score(logits, self.pairs.bias, labels, weights)}


@serializable
class MaskedLMSentenceOrder(MaskedLMNextSentence):
    """Predicts masked tokens, and whether two segments are in order (Lan et al. 2019, 3.1)."""

    pair_part: ClassVar[str] = "sentence_order"
    parts: ClassVar[tuple[str, ...]] = ("masked_lm", pair_part)
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "sentence_order_accuracy")


@serializable
class LeftToRight(TokenPrediction):
    """Predicts each token from those before it, the only ones seen: "LTR" in section 5.1."""

    causal: ClassVar[bool | None] = True
    parts: ClassVar[tuple[str, ...]] = ("next_token",)
    curves: ClassVar[tuple[str, ...]] = ("loss", "next_token_accuracy")

    def labels(self, batch: Batch) -> TokenLabels:
        """The next token at each position."""
        return TokenLabels(None, *next_tokens(batch))


def next_tokens(inputs: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """The next token at each position.

    Args:
      inputs: `input_word_ids` and `input_mask`, int32 [batch, length].

    Returns:
      int32 [batch * length], and float32 [batch * length]: 1, or 0 where no token follows.
    """
    ids, weights = (
        tf.reshape(tf.pad(inputs[name][:, 1:], [[0, 0], [0, 1]]), [-1])
        for name in ("input_word_ids", "input_mask")
    )
    return ids, tf.cast(weights, tf.float32)
