"""The contents of a model folder: configuration, weights by our names, vocabulary and tasks."""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from absl import logging

from bert_tf import tasks
from bert_tf.models import encoders
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Declared
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import LeftToRight, TokenPrediction
from bert_tf.tasks import Task
from bert_tf.tasks.model import Heads, HeadShape, TaskModel
from bert_tf.training import checkpoints
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary

# Optional groups of weights; each is complete or absent.
POOLER = "encoder/pooler/"
MASKED_LM = "masked_lm/"
NEXT_SENTENCE = "next_sentence/"
SENTENCE_ORDER = "sentence_order/"
BIDIRECTIONAL_LM = "bidirectional_lm/"
REPLACED_TOKEN = "replaced_token/"
GENERATOR = ("generator/", "generator_lm/")
HEADS = "heads/"
_OPTIONAL_GROUPS = (
    *(POOLER, MASKED_LM, NEXT_SENTENCE, SENTENCE_ORDER, BIDIRECTIONAL_LM, REPLACED_TOKEN),
    *(*GENERATOR, HEADS),
)


@dataclasses.dataclass(frozen=True)
class Bundle:
    """A model in memory, independent of its format.

    Attributes:
      config: The configuration of the encoder.
      weights: float32 or int32 arrays by the paths of our variables, such as
        "encoder/block_0/attention/qkv/kernel" [hidden_size, 3 * hidden_size].
      vocabulary: None if the format has none (TF Hub encoders).
      tokenizer_settings: None: the defaults of the vocabulary.
      tasks: Descriptions of the heads, one for each "heads/<name>/kernel".
      place: Origin of the model, for messages.

    Raises:
      InputError: The vocabulary is larger than the embeddings, or of a kind that the family does
        not accept; the tasks do not match the heads; or a weight is not finite.
    """

    config: EncoderConfig
    weights: dict[str, np.ndarray]
    vocabulary: Vocabulary | None = None
    tokenizer_settings: TokenizerSettings | None = None
    tasks: tuple[Mapping[str, Any], ...] = ()
    place: str = "the model"

    def __post_init__(self):
        self._check_vocabulary()
        self._check_tasks()
        for name, value in self.weights.items():
            if not np.isfinite(value).all():
                raise InputError(
                    f"{self.place}: {name} has values that are not finite; the file is damaged, or "
                    "the training diverged. Take another checkpoint."
                )

    def _check_vocabulary(self) -> None:
        if self.vocabulary:
            self.config.check_vocabulary(self.vocabulary.kind, self.place)
        tokens = len(self.vocabulary or ())
        if tokens > self.config.vocab_size:
            raise InputError(
                f"{self.place}: the vocabulary has {tokens} tokens, but the model's vocab_size is "
                f"{self.config.vocab_size}. Replace the vocabulary with the one that the model was "
                "trained with."
            )

    def _check_tasks(self) -> None:
        units_of = {task["name"]: tasks.load(task).units for task in self.tasks}
        described = {task["name"]: task for task in self.tasks if units_of[task["name"]]}
        heads = head_units(self.weights)
        if described.keys() != heads.keys():
            raise InputError(
                f"{self.place}: the described tasks ({', '.join(described) or 'none'}) do not "
                f"match the heads ({', '.join(heads) or 'none'})."
            )
        for name, task in described.items():
            if heads[name] != (units := units_of[name]):
                raise InputError(
                    f"{self.place}: the head of {name} has {counted(heads[name], 'unit')}, "
                    f"but its description, {task['shape']} of "
                    f"{counted(len(task['labels']), 'label')}, requires {units}; it belongs to "
                    "another model."
                )

    def has(self, group: str) -> bool:
        """Whether the weights of an optional group exist."""
        return any(name.startswith(group) for name in self.weights)

    @property
    def generates(self) -> bool:
        """Whether it is a language model: it writes from left to right."""
        config = self.config
        if not isinstance(config, BertConfig) or self.tasks:
            return False
        if not (config.causal or config.num_decoder_layers):
            return False
        return self.has(MASKED_LM) or not config.vocab_transform

    def sha256(self) -> str:
        """A checksum of all weights."""
        return checkpoints.checksum(self.weights)

    def encoder_sha256(self) -> str:
        """A checksum of the configuration and the weights of the encoder."""
        config = json.dumps(self.config.to_dict(), sort_keys=True)
        return checkpoints.checksum(self.weights, config, "encoder/")

    def head_sha256(self, name: str) -> str:
        """A checksum of the configuration and the weights of a task's head."""
        head = json.dumps(self.task(name).get("head", {}), sort_keys=True)
        return checkpoints.checksum(self.weights, head, f"{HEADS}{name}/")

    def require_vocabulary(self) -> Vocabulary:
        """The vocabulary; an InputError if there is none."""
        if self.vocabulary is None:
            raise InputError(
                f"{self.place}: has no vocabulary; add one with bert-tf convert "
                f"--input={self.place} --output=FOLDER --vocab=vocab.txt."
            )
        return self.vocabulary

    def resolved_settings(self) -> TokenizerSettings:
        """All settings of the tokenizer, including defaults; an InputError without a vocabulary."""
        return self.require_vocabulary().resolve(self.tokenizer_settings or {})

    def stated_tokenizer(self) -> tuple[str | None, TokenizerSettings | None]:
        """The checksum of the vocabulary and the settings; None for what the format lacks."""
        if self.vocabulary is None:
            return None, None
        stated = self.resolved_settings() if self.tokenizer_settings else None
        return self.vocabulary.sha256, stated

    def tokenizer(self) -> Tokenizer:
        """The tokenizer; an InputError if the vocabulary is missing or invalid."""
        return registry.make(self.require_vocabulary(), self.resolved_settings(), self.place)

    def encoder(self, **kwargs: Any) -> Encoder:
        """The encoder as a Keras model with these weights.

        Args:
          **kwargs: Arguments of the constructor, such as dtype="mixed_bfloat16", or a name: two
            encoders in one functional model need different names.
        """
        encoder = encoders.make(self.config, **({"name": "encoder"} | self._padding() | kwargs))
        if missing := self._assign_group(encoder, "encoder"):
            logging.warning("%s: lacks %s, which are random.", self.place, ", ".join(missing))
        return encoder

    def task_model(self, chosen: Sequence[Task] | None = None, **kwargs: Any) -> TaskModel:
        """The encoder with the heads of tasks as a Keras model with these weights.

        Args:
          chosen: The tasks; None: all.
          **kwargs: Arguments of the constructor, such as dtype="mixed_bfloat16".

        Raises:
          InputError: The model has no task, or a weight is missing.
        """
        if chosen is None:
            names = [task["name"] for task in self.tasks] or [None]
            chosen = [tasks.load(self.task(name), self.config.max_seq_length) for name in names]
        model = TaskModel.for_tasks(self.config, chosen, **(self._padding() | kwargs))
        missing = self._assign_group(model.encoder, "encoder")
        missing += self._assign_group(model.heads, "heads")
        # A model whose heads do not read the pooled output may lack a pooler.
        pooled = any(task.reads_pooled for task in chosen)
        missing = [name for name in missing if pooled or not name.startswith(POOLER)]
        if missing:
            raise InputError(f"{self.place}: lacks the weight {missing[0]}.")
        return model

    def language_model(self) -> TokenPrediction:
        """The model with its head over the vocabulary as a Keras model with these weights.

        Raises:
          InputError: It is not a language model (`generates`).
        """
        config = self.config
        if not (isinstance(config, BertConfig) and self.generates):
            writes = any(tasks.load(task).generation for task in self.tasks)
            raise InputError(
                f"{self.place}: was fine-tuned to write texts; predict with it, or export it."
                if writes
                else f"{self.place}: does not write text; take a left-to-right model (GPT) or a "
                "BART."
            )
        model = (Denoising if config.num_decoder_layers else LeftToRight)(config)
        for name in assign(model, self.weights, self.place):
            if not name.startswith(POOLER):
                raise InputError(f"{self.place}: lacks the weight {name}.")
        return model

    def with_weights_of(self, model: Encoder | TaskModel) -> "Bundle":
        """A copy with the weights of a Keras model that was created from this bundle.

        LoRA updates are merged into their kernels, and int8 kernels are dequantized.

        Raises:
          InputError: The model has another configuration, or other tasks.
        """
        encoder = model.encoder if isinstance(model, TaskModel) else model
        if encoder.config != self.config:
            raise InputError(f"{self.place}: the Keras model has another configuration.")
        named = f"{encoder.name}/"
        found = {f"encoder/{k.removeprefix(named)}": v for k, v in encoder.arrays().items()}
        heads = model.heads.arrays() if isinstance(model, TaskModel) else {}
        return dataclasses.replace(self, weights=self.weights | found | heads)

    def _padding(self) -> dict[str, int]:
        """The `pad_id` argument of models, from the vocabulary."""
        return {} if self.vocabulary is None else {"pad_id": self.vocabulary.id_of("pad")}

    def _assign_group(self, part: keras.layers.Layer, group: str) -> list[str]:
        """Assigns the weights of a group to a part of a model; returns the missing names."""
        # Keras prefixes paths with the name of the layer in which a layer was created.
        here, there = f"{part.path}/", f"{group}/"
        weights = {
            here + name.removeprefix(there): value
            for name, value in self.weights.items()
            if name.startswith(there)
        }
        return [there + path.removeprefix(here) for path in assign(part, weights, self.place)]

    def only(self, name: str) -> "Bundle":
        """A copy with the head of one task only; an InputError if the model does not have it."""
        kept = {
            key: value
            for key, value in self.weights.items()
            if not key.startswith(HEADS) or key.startswith(f"{HEADS}{name}/")
        }
        return dataclasses.replace(self, tasks=(self.task(name),), weights=kept)

    def with_max_length(self, length: int) -> "Bundle":
        """A copy whose tasks read so many tokens.

        Raises:
          InputError: There is no task, or the positions do not suffice.
        """
        if not self.tasks:
            raise InputError(
                f"{self.place}: has no task, whose --max_seq_length it is; leave it out."
            )
        self.config.check_length(length)
        return dataclasses.replace(
            self, tasks=tuple({**task, "max_seq_length": length} for task in self.tasks)
        )

    def next_sentence(self) -> "Bundle | None":
        """The model with its pre-trained head on pairs as a task of its own; None: it has none.

        The task tells whether a text follows another one or is random (paper, section 3.1). A head
        of tasks with layers of its own (ModernBERT) is not that of pre-training.
        """
        if self.tasks or not self.has(NEXT_SENTENCE):
            return None
        if isinstance(self.config, BertConfig) and self.config.head_transform:
            logging.warning(
                "%s: next sentences are not told, as heads of tasks have a dense layer and a norm "
                "here that pre-training does not train.",
                self.place,
            )
            return None
        name = NEXT_SENTENCE.rstrip("/")
        task = tasks.make("pair", name, max_seq_length=self.config.max_seq_length)
        task = dataclasses.replace(task, labels=("follows", "random"))
        weights = {
            f"{HEADS}{key}" if key.startswith(NEXT_SENTENCE) else key: value
            for key, value in self.weights.items()
        }
        return dataclasses.replace(self, weights=weights, tasks=(task.describe(),))

    def task(self, name: str | None = None) -> Mapping[str, Any]:
        """The description of a task; without a name, of the only one.

        Raises:
          InputError: The model does not have the task, or has several to choose from.
        """
        if not (names := [task["name"] for task in self.tasks]):
            raise InputError(
                f"{self.place}: has no task; fine-tune it for one first (bert-tf finetune)."
            )
        if name is None and len(names) == 1:
            return self.tasks[0]
        if name not in names:
            raise InputError(
                f"{self.place}: has no task {name!r}; it has {', '.join(names)}."
                if name
                else f"{self.place}: has the tasks {', '.join(names)}; choose with --task=."
            )
        return self.tasks[names.index(name)]


def parameter_shapes(
    config: EncoderConfig, heads: Sequence[HeadShape | tuple[str, int]] = ()
) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights that a model may have, by our names, in the order of layers.

    For the head of the paper, name and number of units suffice.
    """
    parts: tuple[Declared, ...] = (
        encoders.unallocated(config),
        *encoders.pretraining_parts(config),
        Heads(config, [HeadShape(*head) for head in heads], name="heads"),
    )
    return {path: shape for part in parts for path, shape in part.shapes().items()}


def head_units(weights: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The number of units of each task's head, by the name of the task."""
    return {
        name.split("/")[1]: value.size
        for name, value in weights.items()
        if re.fullmatch(f"{HEADS}[^/]+/bias", name)
    }


def absent_groups(names: Iterable[str]) -> tuple[str, ...]:
    """The optional groups without any weight among our names of weights."""
    present = {group for name in names for group in _OPTIONAL_GROUPS if name.startswith(group)}
    return tuple(group for group in _OPTIONAL_GROUPS if group not in present)


def check_complete(
    weights: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], place: str
) -> None:
    """Checks that weights are those of a model, except for absent optional groups.

    Args:
      weights: Weights by our names.
      shapes: `parameter_shapes` of the configuration.
      place: Origin of the weights, for the InputError that names a weight that does not match.
    """
    for name, value in weights.items():
        if name not in shapes:
            raise InputError(f"{place}: has the weight {name}, which the model does not have.")
        check_shape(name, value, shapes[name], place)
    absent = absent_groups(weights)
    for name in shapes:
        if name not in weights and not name.startswith(absent):
            raise InputError(f"{place}: lacks the weight {name}.")


def check_shape(name: str, value: Any, expected: tuple[int, ...], place: str) -> None:
    """Raises InputError if a weight has another shape than expected."""
    if value.shape != expected:
        raise InputError(
            f"{place}: {name} has the shape {list(value.shape or ())}; the configuration requires "
            f"{list(expected)}."
        )


def assign(model: keras.Model, weights: dict[str, np.ndarray], place: str) -> list[str]:
    """Assigns weights to the variables of a model by path; further weights are ignored.

    Returns:
      The paths of the variables without a weight.

    Raises:
      InputError: A weight has another shape than its variable; `place` is its origin.
    """
    missing = []
    for variable in model.variables:
        value = weights.get(variable.path)
        if value is None:
            missing.append(variable.path)
        else:
            check_shape(variable.path, value, tuple(variable.shape), place)
            variable.assign(value)
    return missing
