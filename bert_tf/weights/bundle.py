"""A model at rest: configuration, weights by our names, vocabulary, tasks."""

import dataclasses
import hashlib
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
from bert_tf.models.layers.base import Declared
from bert_tf.tasks import Task
from bert_tf.tasks.model import Heads, HeadShape, TaskModel
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary

# The groups that a model may lack; each is there as a whole or not at all.
POOLER = "encoder/pooler/"
MASKED_LM = "masked_lm/"
NEXT_SENTENCE = "next_sentence/"
BIDIRECTIONAL_LM = "bidirectional_lm/"
HEADS = "heads/"
_OPTIONAL_GROUPS = (POOLER, MASKED_LM, NEXT_SENTENCE, BIDIRECTIONAL_LM, HEADS)


@dataclasses.dataclass(frozen=True)
class Bundle:
    """What a folder of a model holds, whatever its format.

    `weights` are float32 arrays, or of whole numbers int32, by the paths of our variables, such as
    "encoder/block_0/attention/qkv/kernel" [hidden_size, 3 * hidden_size].
    `vocabulary` is None where the format has none (TF Hub encoders).
    `tasks` describe the heads, one for each "heads/<name>/kernel".
    `place` is where it was read from, for errors.

    Raises:
      InputError: the vocabulary has more tokens than the embeddings, or is of a kind that the
        family does not take; the tasks are not those that there are heads for; or a weight is not
        finite.
    """

    config: EncoderConfig
    weights: dict[str, np.ndarray]
    vocabulary: Vocabulary | None = None
    tokenizer_settings: TokenizerSettings | None = None  # None: by the vocabulary
    tasks: tuple[Mapping[str, Any], ...] = ()
    place: str = "the model"

    def __post_init__(self):
        self._check_vocabulary()
        self._check_tasks()
        self._check_finite()

    def _check_vocabulary(self) -> None:
        if self.vocabulary:
            self.config.check_vocabulary(self.vocabulary.kind, self.place)
        tokens = len(self.vocabulary or ())
        if tokens > self.config.vocab_size:
            raise InputError(
                f"{self.place}: the vocabulary has {tokens} tokens, but the model's vocab_size is "
                f"{self.config.vocab_size}. They do not belong together; put the vocabulary that "
                "the model was trained with in its place."
            )

    def _check_tasks(self) -> None:
        described = {task["name"]: task for task in self.tasks}
        heads = head_units(self.weights)
        if described.keys() != heads.keys():
            raise InputError(
                f"{self.place}: the tasks that are described ({', '.join(described) or 'none'}) "
                f"are not those that have heads ({', '.join(heads) or 'none'})."
            )
        for name, task in described.items():
            units = tasks.load(task).units
            if heads[name] != units:
                raise InputError(
                    f"{self.place}: the head of {name} has {counted(heads[name], 'unit')}, "
                    f"but its description, {task['shape']} of "
                    f"{counted(len(task['labels']), 'label')}, {units}; it is of another "
                    "model."
                )

    def _check_finite(self) -> None:
        for name, value in self.weights.items():
            if not np.isfinite(value).all():
                raise InputError(
                    f"{self.place}: {name} has values that are no finite numbers; the file is "
                    "damaged, or the training diverged. Take another checkpoint."
                )

    def has(self, group: str) -> bool:
        """Whether the weights of an optional group are there."""
        return any(name.startswith(group) for name in self.weights)

    def sha256(self) -> str:
        """A checksum of the weights."""
        digest = hashlib.sha256()
        for name in sorted(self.weights):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(self.weights[name]).data)
        return digest.hexdigest()

    def encoder_sha256(self) -> str:
        """A checksum of the encoder: its configuration and its weights."""
        config = json.dumps(self.config.to_dict(), sort_keys=True)
        digest = hashlib.sha256(config.encode())
        for name in sorted(self.weights):
            if name.startswith("encoder/"):
                digest.update(name.encode())
                digest.update(self.weights[name].tobytes())
        return digest.hexdigest()

    def require_vocabulary(self) -> Vocabulary:
        """The vocabulary.

        Raises:
          InputError: there is none.
        """
        if self.vocabulary is None:
            raise InputError(
                f"{self.place}: has no vocabulary; give it one with bert-tf convert "
                f"--input={self.place} --output=FOLDER --vocab=vocab.txt."
            )
        return self.vocabulary

    def resolved_settings(self) -> TokenizerSettings:
        """The settings of the tokenizer.

        Raises:
          InputError: there is no vocabulary.
        """
        return self.require_vocabulary().resolve(self.tokenizer_settings or {})

    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises:
          InputError: there is no vocabulary, or no tokenizer can be made of it.
        """
        return registry.make(self.require_vocabulary(), self.resolved_settings(), self.place)

    def encoder(self, **kwargs: Any) -> Encoder:
        """The encoder as a Keras model with these weights.

        Args:
          **kwargs: for the constructor, such as dtype="mixed_bfloat16", or a name: two encoders
            in one functional model must not have the same.
        """
        encoder = encoders.make(self.config, **({"name": "encoder"} | self._padding() | kwargs))
        missing = self._give(encoder, "encoder")
        if missing:
            logging.warning("%s: lacks %s, which are random.", self.place, ", ".join(missing))
        return encoder

    def task_model(self, chosen: Sequence[Task] | None = None, **kwargs: Any) -> TaskModel:
        """The encoder with the heads of tasks as a Keras model with these weights.

        Args:
          chosen: the tasks; None: all.
          **kwargs: for the constructor, such as dtype="mixed_bfloat16".

        Raises:
          InputError: there is no task, or a weight is missing.
        """
        if chosen is None:
            names = [task["name"] for task in self.tasks] or [None]
            longest = self.config.max_length
            chosen = [tasks.load(self.task(name), longest) for name in names]
        model = TaskModel.for_tasks(self.config, chosen, **(self._padding() | kwargs))
        missing = [*self._give(model.encoder, "encoder"), *self._give(model.heads, "heads")]
        # Heads that read no pooled output have no use for a pooler, and may come without one.
        pooled = any(task.head.reads_pooled(task.per_token) for task in chosen)
        spare = () if pooled else POOLER
        missing = [name for name in missing if not name.startswith(spare)]
        if missing:
            raise InputError(f"{self.place}: lacks the weight {missing[0]}.")
        return model

    def with_weights_of(self, model: Encoder | TaskModel) -> "Bundle":
        """The same with the weights of a Keras model, which it was made as and trained since.

        Updates of LoRA are merged into their kernels; int8 kernels are as they are computed with.

        Raises:
          InputError: the model has another configuration, or other tasks.
        """
        encoder = model.encoder if isinstance(model, TaskModel) else model
        if encoder.config != self.config:
            raise InputError(f"{self.place}: the Keras model has another configuration.")
        named = f"{encoder.name}/"
        found = {f"encoder/{k.removeprefix(named)}": v for k, v in encoder.arrays().items()}
        heads = model.heads.arrays() if isinstance(model, TaskModel) else {}
        return dataclasses.replace(self, weights=self.weights | found | heads)

    def _padding(self) -> dict[str, int]:
        """The argument of models that says which id is padding, where a vocabulary knows."""
        return {} if self.vocabulary is None else {"pad_id": self.vocabulary.id_of("pad")}

    def _give(self, part: keras.layers.Layer, group: str) -> list[str]:
        """Gives a part of a model the weights of a group; returns our names of those it lacks."""
        # Where its variables are: Keras puts the name of the layer that it is made in before them.
        here, there = f"{part.path}/", f"{group}/"
        weights = {
            here + name.removeprefix(there): value
            for name, value in self.weights.items()
            if name.startswith(there)
        }
        missing = assign(part, weights, self.place)
        return [there + name.removeprefix(here) for name in missing]

    def only(self, name: str) -> "Bundle":
        """The model with the head of one task.

        Raises:
          InputError: there is no such task.
        """
        kept = f"{HEADS}{name}/"
        return dataclasses.replace(
            self,
            tasks=(self.task(name),),
            weights={
                key: value
                for key, value in self.weights.items()
                if not key.startswith(HEADS) or key.startswith(kept)
            },
        )

    def task(self, name: str | None = None) -> Mapping[str, Any]:
        """The description of a task; without a name, of the only one.

        Raises:
          InputError: there is no such task, or several to choose from.
        """
        names = [task["name"] for task in self.tasks]
        if not names:
            raise InputError(
                f"{self.place}: has no task; fine-tune it for one first (make finetune)."
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

    Args:
      config: the sizes.
      heads: each task's head; of plain ones, name and number of units do.
    """
    parts: tuple[Declared, ...] = (
        encoders.unallocated(config),
        *encoders.pretraining_heads(config),
        Heads(config, [HeadShape(*head) for head in heads], name="heads"),
    )
    return {path: shape for part in parts for path, shape in part.shapes().items()}


def head_units(weights: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The units of each task's head, by the name of the task."""
    return {
        name.split("/")[1]: value.size
        for name, value in weights.items()
        if re.fullmatch(f"{HEADS}[^/]+/bias", name)
    }


def absent_groups(names: Iterable[str]) -> tuple[str, ...]:
    """The groups of weights, all of them optional, of which a model has nothing.

    Args:
      names: of its weights, by our names.
    """
    present = {group for name in names for group in _OPTIONAL_GROUPS if name.startswith(group)}
    return tuple(group for group in _OPTIONAL_GROUPS if group not in present)


def assign(model: keras.Model, weights: dict[str, np.ndarray], place: str) -> list[str]:
    """Gives the variables of a model the weights of their names.

    Args:
      model: one of this package's.
      weights: as `Bundle.weights`; those that the model lacks are let be.
      place: where they come from, for errors.

    Returns:
      The variables for which there were none.

    Raises:
      InputError: a weight has another shape than its variable.
    """
    missing = []
    for variable in model.variables:
        value = weights.get(variable.path)
        if value is None:
            missing.append(variable.path)
        elif value.shape != tuple(variable.shape):
            raise InputError(
                f"{place}: {variable.path} has the shape {list(value.shape)}, the model wants "
                f"{list(variable.shape)}."
            )
        else:
            variable.assign(value)
    return missing
