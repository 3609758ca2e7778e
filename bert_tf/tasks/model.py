"""An encoder with a head for each task."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import encoders, orders
from bert_tf.models import inputs as model_inputs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.head_config import HeadConfig
from bert_tf.models.heads import (
    DenseSentenceHead,
    MaskedLMHead,
    SentenceHead,
    TaskHead,
    VocabularyHead,
)
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable
from bert_tf.objectives.base import Batch, Scalars, score
from bert_tf.objectives.masked_lm import next_tokens
from bert_tf.tasks import Task
from bert_tf.tasks.signatures import TRANSITIONS
from pipelines.common.errors import InputError

Head = TaskHead | VocabularyHead | SentenceHead | DenseSentenceHead
TEACHER = "teacher_logits"  # a feature of batches in task distillation
_TEACHER_FRACTION = 0.5  # of the loss; the labels have the rest
_LANGUAGE_FRACTION = 0.5  # factor of the loss of next tokens in fine-tuning a GPT


class HeadShape(NamedTuple):
    """The head of a task: its name, its number of logits, and what it reads.

    With 0 units it has no weights: it is the model's own over the vocabulary if there are logits
    for each token, or else the vector of the sequence.
    """

    name: str
    units: int
    per_token: bool = False
    config: HeadConfig = HeadConfig()

    @classmethod
    def of(cls, task: Task) -> "HeadShape":
        """The head of a task."""
        return cls(task.name, task.units, task.per_token, task.head)

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> "HeadShape":
        """The inverse of `to_values`; a head is returned as it is."""
        shape = cls(*values)
        config: Any = shape.config
        known = isinstance(config, HeadConfig)
        return shape if known else shape._replace(config=HeadConfig.from_dict(config, "the head"))

    def to_values(self) -> tuple[Any, ...]:
        """The head as JSON values."""
        plain = (self.name, self.units, self.per_token)
        return plain if self.config == HeadConfig() else (*plain, self.config.to_dict())

    def make(self, config: EncoderConfig, **kwargs: Any) -> Head:
        """The layer, for an encoder with this configuration.

        Raises:
          InputError: it is one over the vocabulary, and the model has no decoder.
        """
        width, pooling = config.hidden_size, self.config.pooling
        if not self.units and not self.per_token:
            return SentenceHead(width, pooling, name=self.name, **kwargs)
        if self.config.dense_width:
            act = self.config.dense_act
            return DenseSentenceHead(width, self.units, pooling, act, name=self.name, **kwargs)
        if not self.units:
            if not (isinstance(config, BertConfig) and config.num_decoder_layers):
                raise InputError(
                    f"{self.name}: writes texts, for which a model needs a decoder; use a BART."
                )
            return VocabularyHead(config, name=self.name, **kwargs)
        return TaskHead(
            width,
            self.units,
            self.per_token,
            config.task_dropout,
            config.initializer_range,
            config.num_hidden_layers,
            self.config,
            config if isinstance(config, BertConfig) and config.head_transform else None,
            name=self.name,
            **kwargs,
        )


@serializable
class Heads(Configured, Layer):
    """The heads of all tasks, whose variables are named heads/<task>/...

    Args:
      config: configuration of the encoder.
      heads: one for each task.
    """

    def __init__(self, config: EncoderConfig, heads: Sequence[HeadShape], **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.head_shapes = tuple(map(HeadShape.from_values, heads))
        self.of = {
            shape.name: shape.make(config, dtype=self.dtype_policy) for shape in self.head_shapes
        }

    def members(self) -> Iterable[Head]:
        """The heads."""
        return self.of.values()

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """Shapes of the encoder's outputs."""
        width = self.config.hidden_size
        return {"sequence_output": (None, None, width), "pooled_output": (None, width)}

    def call(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Computes the float32 logits of each task, by name, from the encoder's outputs."""
        return {name: head(outputs) for name, head in self.of.items()}

    def compute_output_shape(self, input_shape: dict[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits, for shapes of the encoder's outputs."""
        return {name: head.compute_output_shape(input_shape) for name, head in self.of.items()}

    def compute_output_spec(  # type: ignore[override]  # each Keras layer has its own inputs
        self, outputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """The result of `call` for symbolic outputs of the encoder."""
        return {name: head.compute_output_spec(outputs) for name, head in self.of.items()}

    def get_config(self) -> dict:
        """The arguments of the constructor, and later adaptations."""
        return super().get_config() | {"heads": [shape.to_values() for shape in self.head_shapes]}


@serializable
class TaskModel(Configured, keras.Model):
    """One encoder that tasks share, and their heads.

    Args:
      config: configuration of the encoder.
      heads: one for each task.
      pad_id: id of padding, as in `BertEncoder`.
    """

    def __init__(
        self, config: EncoderConfig, heads: Sequence[HeadShape], pad_id: int | None = None, **kwargs
    ):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.head_shapes = tuple(map(HeadShape.from_values, heads))
        policy = self.dtype_policy
        self.encoder = encoders.make(config, pad_id=pad_id, name="encoder", dtype=policy)
        self.heads = Heads(config, self.head_shapes, name="heads", dtype=policy)
        # The pooler is only useful for heads that read its output.
        self.encoder.pooler.trainable = any(head.reads_pooled for head in self.heads.members())
        self.heads.build(self.heads.expected_shape)
        self.build(model_inputs.SHAPES)  # Keras records the shapes of the inputs

    @classmethod
    def for_tasks(cls, config: EncoderConfig, tasks: Sequence[Task], **kwargs: Any) -> "TaskModel":
        """A model with the heads of tasks."""
        return cls(config, [HeadShape.of(task) for task in tasks], **kwargs)

    @property
    def input_dtype(self) -> str:
        """Type of the inputs, for exports by Keras."""
        return "int32"

    def weights_by_path(self) -> dict[str, Weight]:
        """Declarations of all variables, by path."""
        return self.encoder.weights_by_path() | self.heads.weights_by_path()

    def call(self, inputs: Any, training: bool = False) -> dict[str, tf.Tensor]:
        """Computes the float32 logits of each task, by name, from inputs of the encoder."""
        summed = {name for name, head in self.heads.of.items() if head.both_orders}
        if not summed:
            return self.heads(self.encoder(inputs, training=training))
        both = orders.both(model_inputs.complete(inputs, self.encoder.pad_id))
        return {
            name: orders.added(x) if name in summed else tf.split(x, 2)[0]
            for name, x in self.heads(self.encoder(both, training=training)).items()
        }

    def compute_output_shape(self, input_shape: Any) -> dict[str, Shape]:
        """The shapes of the logits, for shapes of the inputs."""
        return self.heads.compute_output_shape(self.encoder.compute_output_shape(input_shape))

    def compute_output_spec(self, inputs: Any, training: bool = False) -> Any:
        """The result of `call` for symbolic inputs."""
        return self.heads.compute_output_spec(self.encoder.compute_output_spec(inputs))

    def get_config(self) -> dict:
        """The arguments of the constructor, and later adaptations."""
        heads = [shape.to_values() for shape in self.head_shapes]
        return super().get_config() | {"heads": heads, "pad_id": self.encoder.pad_id}


class TaskObjective:
    """One task of a model, as the training loop takes it (`Trainable`).

    A GPT is also trained to predict the next token (Radford et al. 2018, section 3.2).

    Args:
      model: the encoder and the heads.
      task: defines the loss.
    """

    curves = ("loss",)

    def __init__(self, model: TaskModel, task: Task):
        self.model = model
        self.task = task
        self.head = model.heads.of[task.name]
        config, policy = model.config, model.dtype_policy
        self._language_model = None
        if isinstance(config, BertConfig) and config.model_type == "openai-gpt":
            # It has no weights of its own.
            self._language_model = MaskedLMHead(config, name="language_model", dtype=policy)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Variables of the head, and of the part of the encoder that the task uses."""
        encoder = self.model.encoder
        pooler = [] if self.head.reads_pooled else encoder.pooler.variables
        top = max(self.task.head.indices(self.model.config.num_hidden_layers))
        above = [] if self._language_model else encoder.layer_variables()[1 + top :]
        # Attention alone reads the table of relative positions, which the embeddings have (MPNet).
        relative = getattr(encoder.embeddings, "relative_positions", None)
        if relative is not None and top == 0 and above:
            above.append([relative])
        unused = {id(variable) for variable in itertools.chain(pooler, *above)}
        shared = [v for v in encoder.trainable_variables if id(v) not in unused]
        return [*shared, *self.head.trainable_variables]

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """Returns the batch unchanged."""
        return batch

    def totals(self, batch: Batch) -> Scalars:
        """The divisors of the loss: the sum of the weights, and for GPT the number of tokens."""
        total = {"total": tf.reduce_sum(self._weights(batch))}
        if self._language_model is None:
            return total
        _, mask = next_tokens(self._inputs(batch))
        return total | {"tokens": tf.reduce_sum(mask)}

    def batch_loss(
        self, batch: Batch, totals: Scalars, training: bool, dropout_seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Scalars]:
        """The loss of a batch or of a part of one; counts are the sums of losses and of weights."""
        seed = dropout_seed if training else None
        outputs = self._outputs(batch, training=training, dropout_seed=seed)
        # Different from all seeds of the encoder.
        head_seed = None if seed is None else seed ^ 0x5BD1E995
        logits = self._logits(self.head(outputs, seed=head_seed), batch)
        weights = self._weights(batch)
        if self.head.transitions is not None:
            batch = batch | {TRANSITIONS: tf.convert_to_tensor(self.head.transitions)}
        loss = tf.reduce_sum(self._losses(logits, batch) * weights)
        counts = {"loss": loss, "total": tf.reduce_sum(weights)}
        mean = tf.math.divide_no_nan(loss, totals["total"])
        if self._language_model and training and not self.task.layer_outputs(batch):
            of_tokens = self._language_loss(outputs["sequence_output"], batch)
            mean += _LANGUAGE_FRACTION * tf.math.divide_no_nan(of_tokens, totals["tokens"])
        return mean, counts

    def _language_loss(self, sequence: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The sum of the losses of predicting each token from those before it."""
        assert self._language_model is not None
        ids, mask = next_tokens(self._inputs(batch))
        rows = tf.reshape(sequence, [-1, sequence.shape[-1]])
        table = self.model.encoder.word_embeddings
        logits = self._language_model(rows, table)
        return score(logits, self._language_model.bias, ids, mask).loss

    def _weights(self, batch: Batch) -> tf.Tensor:
        """The weights of the losses; texts without labels have equal ones."""
        return self.task.loss_weights(batch) if "labels" in batch else batch["weights"]

    def _losses(self, logits: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The losses by labels, by a teacher, or the mean of both, whatever the batch has."""
        if TEACHER not in batch:
            return self.task.losses(logits, batch)
        of_teacher = self.task.teacher_losses(logits, batch[TEACHER])
        if "labels" not in batch:
            return of_teacher
        of_labels = self.task.losses(logits, batch)
        return _TEACHER_FRACTION * of_teacher + (1 - _TEACHER_FRACTION) * of_labels

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """The mean loss."""
        return {"loss": counts["loss"] / max(counts["total"], 1e-9)}

    def logits(self, batch: Batch, dtype: str = "float32") -> tf.Tensor:
        """Logits of a batch without dropout, computed in `dtype`."""
        outputs = self._outputs(batch, dtype=dtype)
        return self._logits(self.head(outputs), batch)

    def results(self, logits: np.ndarray, lengths: Sequence[int]) -> list[Any]:
        """What predictions are made of, for each row of `logits`; padding is cut off.

        With a CRF, each is a pair of logits and the transitions of the head.
        """
        if not self.head.per_token:
            return list(logits)
        rows = [row[:length] for row, length in zip(logits, lengths, strict=True)]
        if self.head.transitions is None:
            return rows
        transitions = self.head.transitions.numpy()
        return [(row, transitions) for row in rows]

    def _inputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The encoder's inputs, of both orders of pairs where the head needs them."""
        inputs = self.task.encoder_inputs(batch)
        return orders.both(inputs) if self.head.both_orders else inputs

    def _logits(self, logits: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The logits of the rows of a batch, from the head's of all sequences."""
        return self.task.logits(orders.added(logits) if self.head.both_orders else logits, batch)

    def _outputs(self, batch: Batch, **options: Any) -> dict[str, Any]:
        """The encoder's outputs; those that the batch has are not computed again."""
        encoder, inputs = self.model.encoder, self._inputs(batch)
        layers = self.task.layer_outputs(batch)
        if layers:
            return encoder.known_outputs(layers, inputs, **options)
        if self.head.reads_pooled and not self._language_model:
            options["outputs_at"] = inputs["input_word_ids"][:, :0]
        return encoder(inputs, **options)
