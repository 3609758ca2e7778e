"""What a pre-training run is asked to do."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from bert_tf.training.settings import TrainingSettings
from pipelines.common.errors import InputError

_MOST_STEPS = 1 << 31  # they are numbered by int32


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of training on one set of examples."""

    tfrecords: str  # folder of the example writer
    steps: int
    batch_size: int  # of all devices and accumulation parts together


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(TrainingSettings):
    """Everything that decides the weights, beside the examples."""

    phases: tuple[Phase, ...]
    model: str = "base"  # a size of `config.SIZES`, or a bert_config.json
    learning_rate: float = 1e-4  # at the end of the warm-up
    warmup_steps: int = 10_000
    beta_2: float = 0.999
    init_checkpoint: str | None = None  # first weights: a checkpoint folder, or any model
    seed: int = 12345

    def ranges(self) -> Iterator[tuple[str, Any, bool]]:
        """Yields flags, values, and whether these make sense."""
        yield "learning_rate", self.learning_rate, 0 < self.learning_rate < math.inf
        yield "warmup_steps", self.warmup_steps, 0 <= self.warmup_steps < _MOST_STEPS
        yield "beta_2", self.beta_2, 0 <= self.beta_2 < 1
        yield "seed", self.seed, 0 <= self.seed < 1 << 31
        yield from super().ranges()

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        if self.total_steps >= _MOST_STEPS:
            raise InputError(f"--steps={self.total_steps}: it must be below {_MOST_STEPS:,}.")

    @property
    def total_steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; of no influence on the weights."""

    save_every: int = 1000  # steps
    log_every: int = 20  # steps
    evaluate_every: int = 0  # steps; 0: at the end only
    tensorboard: bool = True

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, least in (("save_every", 1), ("log_every", 1), ("evaluate_every", 0)):
            if getattr(self, name) < least:
                raise InputError(f"--{name}={getattr(self, name)}: it must be {least} or more.")
