"""Replaced token detection, the objective of ELECTRA (Clark et al. 2020, arXiv 2003.10555)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import tensorflow as tf

from bert_tf.models import heads
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.electra import Generator, ReplacedTokenHead
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives import dynamic_masking
from bert_tf.objectives.base import Batch, LossSums, Scalars, score
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.masked_lm import MaskedLM

_MASK_FRACTION = 0.85  # of the chosen tokens; the others stay, none becomes a random token
_LAMBDA = 50.0  # weight of the discriminator's loss (appendix A)
_DRAWS = "sampling_draws"  # a feature: int32 [batch, predictions], below dynamic_masking.RESOLUTION
_STREAM = 3  # of random numbers; masking has the others
# Any number; it makes the generator's dropout differ from the discriminator's.
_GENERATOR = 0x165667B1


@serializable
class ReplacedToken(MaskedLM):
    """A generator fills masked tokens, and the encoder tells which tokens were replaced.

    The generator is trained as a masked LM; its samples have no gradient. A sample that equals the
    original token is not a replacement. Positions are drawn without replacement; the original
    program draws with replacement, so some of its positions coincide.

    The configuration must have a `generator`.
    """

    parts: ClassVar[tuple[str, ...]] = ("masked_lm", "replaced_token")
    part_weights: ClassVar[Mapping[str, float]] = {"replaced_token": _LAMBDA}
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "replaced_token_accuracy")

    def create_head(self) -> heads.MaskedLMHead:
        """The generator's head over the vocabulary; creates the other parts, too."""
        policy, config = self.dtype_policy, self.config.generator
        assert config is not None  # see `pretraining.inputs`
        self.generator = Generator(config, self.encoder.embeddings, name="generator", dtype=policy)
        self.replaced_token = ReplacedTokenHead(self.config, name="replaced_token", dtype=policy)
        self.replaced_token.build(self.replaced_token.expected_shape)
        return heads.MaskedLMHead(config, name="generator_lm", dtype=policy)

    @classmethod
    def for_examples(
        cls, config: EncoderConfig, features: frozenset[str], masking: DynamicMasking, **kwargs
    ) -> Self:
        """Makes the objective, with ELECTRA's masking unless the examples have masks."""
        changed = dataclasses.replace(masking, mask_fraction=_MASK_FRACTION, random_fraction=0.0)
        return super().for_examples(config, features, changed, **kwargs)

    def flops(self, max_seq_length: int, max_predictions: int) -> int:
        """As in the base class, of generator and discriminator."""
        generator = self.generator.flops(max_seq_length, outputs=max_predictions)
        head = self.masked_lm.flops(max_predictions)
        return generator + head + self.encoder.flops(max_seq_length)

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """The batch with masked tokens and the random numbers that decide the samples."""
        batch = super().prepare(batch, seed)
        shape = tf.shape(batch["masked_lm_positions"])
        return batch | {
            _DRAWS: dynamic_masking.draw(shape, seed, _STREAM, dynamic_masking.RESOLUTION)
        }

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits of the inputs as they are.

        `masked_lm` [batch, predictions, vocab_size] are the generator's, at `masked_lm_positions`
        if given, else at all positions; `replaced_token` [batch, length] the discriminator's.
        """
        positions = inputs.get("masked_lm_positions")
        outputs = self.generator(inputs, training=training, outputs_at=positions)
        logits = self.logits(outputs)
        sequence = self.encoder(inputs, training=training)["sequence_output"]
        return logits | {"replaced_token": self._detect(sequence)}

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits for the shapes of the inputs."""
        shape = input_shape["input_word_ids"]
        return super().compute_output_shape(input_shape) | {"replaced_token": shape}

    def totals(self, batch: Batch) -> Scalars:
        """The numbers of masked tokens and of all tokens."""
        tokens = tf.cast(tf.reduce_sum(batch["input_mask"]), tf.float32)
        return super().totals(batch) | {"replaced_token": tokens}

    def encode(
        self, batch: Batch, training: bool, dropout_seed: tf.Tensor | None
    ) -> dict[str, Any]:
        """The discriminator's outputs for tokens some of which the generator has replaced.

        Also `generator_logits` [batch * predictions, vocab_size], without their bias, and
        `replaced`, bool [batch, length].
        """
        other = None if dropout_seed is None else dropout_seed ^ _GENERATOR
        positions = batch["masked_lm_positions"]
        generated = self.generator(
            batch, training=training, dropout_seed=other, outputs_at=positions
        )
        rows = self.rows(generated["sequence_output"])
        logits = self.masked_lm(rows, self.encoder.word_embeddings)
        scores = tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.masked_lm.bias)
        draws = tf.cast(tf.reshape(batch[_DRAWS], [-1]), tf.float32) / dynamic_masking.RESOLUTION
        sampled = sample(tf.stop_gradient(scores), draws)
        sampled = tf.reshape(sampled, tf.shape(positions))

        ids, used = batch["input_word_ids"], batch["masked_lm_weights"] > 0
        places = tf.one_hot(positions, tf.shape(ids)[1], dtype=tf.int32)
        change = tf.where(used, sampled - tf.gather(ids, positions, batch_dims=1), 0)
        differs = tf.cast(used & (sampled != batch["masked_lm_ids"]), tf.int32)
        replaced = tf.einsum("bs,bsl->bl", differs, places) > 0
        corrupted = ids + tf.einsum("bs,bsl->bl", change, places)
        outputs = self.encoder(
            batch | {"input_word_ids": corrupted}, training=training, dropout_seed=dropout_seed
        )
        return outputs | {"generator_logits": logits, "replaced": replaced}

    def sums(
        self, outputs: dict[str, Any], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums for masked tokens, for all tokens, and (`found`) for replaced ones."""
        labels = self.labels(batch)
        logits = self._detect(outputs["sequence_output"])
        replaced, weights = outputs["replaced"], tf.cast(batch["input_mask"], tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(replaced, tf.float32), logits)
        correct = tf.cast((logits > 0) == replaced, tf.float32)
        return {
            "masked_lm": score(
                outputs["generator_logits"], self.masked_lm.bias, labels.ids, labels.weights
            ),
            "replaced_token": LossSums.of(losses, correct, weights),
            "found": LossSums.of(losses, correct, weights * tf.cast(replaced, tf.float32)),
        }

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Adds `replaced_token_found`, the fraction of replaced tokens that are detected.

        `replaced_token_majority` is the accuracy of "none was replaced".
        """
        metrics = super().metrics_of(counts)
        tokens, replaced = (
            counts.get(f"{name}_total", 0.0) for name in ("replaced_token", "found")
        )
        if not (tokens and replaced):
            return metrics
        return metrics | {
            "replaced_token_majority": 1 - replaced / tokens,
            "replaced_token_found": counts["found_correct"] / replaced,
        }

    def _detect(self, sequence: tf.Tensor) -> tf.Tensor:
        """The discriminator's float32 logits [batch, length]."""
        rows = tf.reshape(sequence, [-1, self.config.hidden_size])
        return tf.reshape(self.replaced_token(rows), tf.shape(sequence)[:2])


def sample(logits: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Samples from the softmax of logits by inverting its cumulative distribution.

    Args:
      logits: float32 [rows, classes].
      draws: float32 [rows], uniform from 0 to below 1. The samples depend on nothing else, so they
        are the same however a batch is split.

    Returns:
      int32 [rows].
    """
    cumulative = tf.cumsum(tf.nn.softmax(logits), axis=1)
    passed = cumulative <= draws[:, tf.newaxis] * cumulative[:, -1:]
    found = tf.reduce_sum(tf.cast(passed, tf.int32), 1)
    return tf.minimum(found, tf.shape(logits)[1] - 1)
