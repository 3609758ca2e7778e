"""The plan of the experiments: the scale of everything, decided before the first job."""

import dataclasses
from typing import Any, NamedTuple

import msgspec

from bert_tf.experiments.settings import ExperimentSettings
from bert_tf.finetuning.settings import TaskRequest
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.families import FAMILIES
from bert_tf.tasks import make
from pipelines.common import json_files

PLAN = "plan.json"
# A model that has seen fewer tokens for each of its weights knows little more than which words are
# neighbours (docs/guides/recipes.md).
_TOKENS_PER_WEIGHT = 4
_FILTERS = 5  # kinds of convolutions over characters
_PREDICTED_WORDS = 8192  # of an ELMo; other words count as unknown
_TUNING_BATCH = 32
_TUNING_STEPS = 1000  # to aim for with small training sets, within these epochs
_MIN_EPOCHS, _MAX_EPOCHS = 3, 30


class ModelSize(NamedTuple):
    """The size of an encoder: heads are 64 wide, the feed-forward layer has 4 widths."""

    layers: int
    width: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.width}"

    def config(self, vocab_size: int) -> BertConfig:
        """A BERT of this size."""
        return BertConfig(
            vocab_size=vocab_size,
            num_hidden_layers=self.layers,
            hidden_size=self.width,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
        )

    def gpt_config(self, vocab_size: int) -> BertConfig:
        """A GPT of this size, with the vocabulary of the BERT."""
        values = {**FAMILIES["openai-gpt"].values, "vocab_size": vocab_size}
        return dataclasses.replace(self.config(vocab_size), **values)

    def elmo_config(self, vocab_size: int) -> ElmoConfig:
        """An ELMo with outputs of this width: two projected LSTMs in each direction."""
        return ElmoConfig(
            vocab_size=vocab_size,
            filters=ElmoConfig.filters[:_FILTERS],
            num_highway_layers=1,
            cell_size=self.width,  # about as many weights as the blocks of the BERT
            projection_size=self.width // 2,
            softmax_size=_PREDICTED_WORDS,
        )

    @property
    def learning_rate(self) -> float:
        """The peak learning rate of pre-training; smaller models take larger ones."""
        return 2e-3 if self.width <= 128 else 1e-3 if self.width <= 512 else 5e-4


@dataclasses.dataclass(frozen=True)
class ExperimentTask:
    """A task that models are fine-tuned for, with the size of its data.

    Attributes:
      request: the task as fine-tuning takes it; its name is unique in a plan.
      train_examples: number of training examples.
      dev_examples: number of dev examples.
      tokens: mean tokens of an example.
    """

    request: TaskRequest
    train_examples: int = 0
    dev_examples: int = 0
    tokens: int = 0

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.request.name

    @property
    def per_token(self) -> bool:
        """Whether the task labels tokens rather than whole texts."""
        return make(self.request.kind).per_token


@dataclasses.dataclass(frozen=True)
class ExperimentPlan:
    """The data and the scale of all jobs.

    Attributes:
      folder: of the experiments; the plan's file does not have it, so that it can be moved.
      settings: the user's settings.
      studies: the studies that fit into the budget.
      corpus: files or globs of the text to pre-train on.
      corpus_format: its format.
      word_corpus: text for the word vocabulary of an ELMo: the corpus and the texts of the tasks.
      tasks: to fine-tune for.
      precision: that all models are trained in, so that they can be compared.
      size: size of the main model, used in all studies but that of sizes.
      weights: number of weights of the main model.
      steps: of pre-training, the same for all models.
      batch_size: sequences of a pre-training step.
      model_seeds: pre-training seeds of the first study; other studies use the first of them.
      seeds: of fine-tuning.
      max_examples: training examples of a task, at most; None: all.
      left_out: studies that were asked for and do not fit into the budget.
    """

    folder: str
    settings: ExperimentSettings
    studies: tuple[str, ...]
    corpus: str
    corpus_format: str
    word_corpus: str
    tasks: tuple[ExperimentTask, ...]
    precision: str
    size: ModelSize
    weights: int = 0
    steps: int = 0
    batch_size: int = 32
    model_seeds: tuple[int, ...] = (1,)
    seeds: tuple[int, ...] = (1,)
    max_examples: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[ModelSize, ...]:
        """Four sizes around the main one, ascending: of other widths and of other depths."""
        layers, width = self.size
        shallow = max(1, layers // 2)
        narrow = ModelSize(shallow, width // 2) if width > 64 else ModelSize(layers, 2 * width)
        found = {narrow, ModelSize(shallow, width), self.size, ModelSize(2 * layers, width)}
        return tuple(sorted(found, key=lambda size: (size.layers * size.width**2, size.width)))

    @property
    def length(self) -> int:
        """Tokens of a pre-training sequence."""
        return self.settings.max_seq_length

    @property
    def tokens(self) -> int:
        """Tokens that a model sees in pre-training."""
        return self.steps * self.batch_size * self.length

    @property
    def sees_enough(self) -> bool:
        """Whether the main model sees enough tokens to learn more than neighbouring words."""
        return self.tokens >= _TOKENS_PER_WEIGHT * self.weights

    def examples_of(self, task: ExperimentTask, limit: int | None = None) -> int:
        """The number of training examples of a task that are used, of at most `limit`."""
        limits = (task.train_examples, self.max_examples, limit)
        return min(number for number in limits if number is not None)

    def recipe(
        self, task: ExperimentTask, examples: int, width: int, frozen: bool = False
    ) -> dict[str, Any]:
        """Settings of fine-tuning a model for a task: with fewer examples for more epochs."""
        epochs = _TUNING_STEPS * _TUNING_BATCH / max(1, examples)
        rate = 1e-3 if frozen or width <= 128 else 3e-4 if width < 512 else 5e-5
        return {
            "epochs": round(min(max(epochs, _MIN_EPOCHS), _MAX_EPOCHS)),
            "batch_size": _TUNING_BATCH,
            "learning_rates": (rate,),
            # Positions beyond the length of pre-training are untrained.
            "max_length": min(self.length, max(32, 8 * round(task.tokens * 2 / 8))),
        }


def write(plan: ExperimentPlan) -> None:
    """Writes a plan to its folder."""
    values = dataclasses.asdict(plan)
    json_files.write(f"{values.pop('folder')}/{PLAN}", values)


def read(folder: str) -> ExperimentPlan:
    """Reads the plan of a folder.

    Raises:
      InputError: it is missing or damaged.
    """
    path = f"{folder}/{PLAN}"
    values = json_files.read(path, dict[str, Any]) | {"folder": folder}
    json_files.check(values, ExperimentPlan, path)
    return msgspec.convert(values, ExperimentPlan)
