"""What a fine-tuning run is asked to do."""

import dataclasses
import enum
import math

from bert_tf.training.distribution import Compilation, StrategyName
from pipelines.common.errors import InputError


class Selection(enum.StrEnum):
    """Which weights of a run are kept."""

    BEST = "best"  # those with the best score on dev
    LAST = "last"


@dataclasses.dataclass(frozen=True)
class TaskRequest:
    """A task, and where its files are.

    `data` is a folder with files named as usual, or one file, of which a part
    becomes dev; `files` name files by split ("train", "dev", "test") instead.
    """

    kind: str
    name: str
    data: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # names of columns by role


@dataclasses.dataclass(frozen=True)
class FineTuningSettings:
    """Everything that decides the weights, beside the data. Defaults are the paper's (A.3)."""

    tasks: tuple[TaskRequest, ...]
    init: str  # anything that the command convert reads
    epochs: float = 3.0
    batch_size: int = 32
    learning_rates: tuple[float, ...] = (5e-5,)  # several: a grid; the best on dev wins
    seeds: tuple[int, ...] = (1,)  # each is a run
    warmup_share: float = 0.1  # of all steps
    weight_decay: float = 0.01
    layer_decay: float = 1.0  # factor of the learning rate from a layer to the one below
    clip_norm: float = 1.0
    bias_correction: bool = True  # False as in the reference; True is steadier
    dropout: float | None = None  # in place of the configuration's two; None: as it says
    balanced: bool = False  # weigh labels by the inverse of their frequency
    max_length: int | None = None  # tokens of a sequence; None: the task's own
    document_context: bool = False  # for tagging
    fixed_length: bool = False  # pad every batch to max_length: one shape, as TPUs want it
    dev_share: float = 0.1  # of the training data, where there is no dev file
    evaluations: int = 1  # on dev, in each epoch
    patience: int = 0  # evaluations without a better score after which a run ends; 0: never
    selection: Selection = Selection.BEST
    keep_runs: bool = False  # keep the weights of all runs, not of the best one only
    accumulation: int = 1  # parts of a batch whose gradients are summed
    precision: str = "auto"  # float32, mixed_bfloat16, or auto
    strategy: StrategyName = StrategyName.AUTO
    compilation: Compilation = Compilation.AUTO

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, good in (
            ("epochs", 0 < self.epochs < math.inf),
            ("batch_size", self.batch_size >= 1),
            ("learning_rates", self.learning_rates and all(map(_is_rate, self.learning_rates))),
            ("seeds", self.seeds and all(0 <= seed < 1 << 31 for seed in self.seeds)),
            ("warmup_share", 0 <= self.warmup_share < 1),
            ("weight_decay", 0 <= self.weight_decay < math.inf),
            ("layer_decay", 0 < self.layer_decay <= 1),
            ("clip_norm", 0 <= self.clip_norm < math.inf),
            ("dropout", self.dropout is None or 0 <= self.dropout < 1),
            ("max_length", self.max_length is None or self.max_length >= 8),
            ("dev_share", 0 <= self.dev_share < 1),
            ("evaluations", self.evaluations >= 1),
            ("patience", self.patience >= 0),
            ("accumulation", self.accumulation >= 1),
        ):
            if not good:
                raise InputError(f"{name} is {getattr(self, name)}, out of range; see --help.")
        if len({request.name for request in self.tasks}) < len(self.tasks):
            raise InputError("two tasks have the same name; give names as NAME=KIND.")
        if self.batch_size % self.accumulation:
            raise InputError(
                f"a batch of {self.batch_size} cannot be cut into {self.accumulation} equal parts."
            )


def _is_rate(value: float) -> bool:
    return 0 < value < math.inf
