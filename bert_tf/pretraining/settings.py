"""What a pre-training run is asked to do."""

import dataclasses
import math

from bert_tf.training.distribution import Compilation, StrategyName
from pipelines.common.errors import InputError

_MOST_STEPS = 1 << 31  # they are numbered by int32


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of training on one set of examples."""

    tfrecords: str  # folder of the example writer
    steps: int
    batch_size: int  # of all devices and accumulation parts together


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """Everything that decides the weights, beside the examples."""

    phases: tuple[Phase, ...]
    model: str = "base"  # a size of `config.SIZES`, or a bert_config.json
    learning_rate: float = 1e-4  # at the end of the warm-up
    warmup_steps: int = 10_000
    weight_decay: float = 0.01
    beta_2: float = 0.999
    clip_norm: float = 1.0
    dropout: float | None = None  # in place of the configuration's two; None: as it says
    accumulation: int = 1  # parts of a batch whose gradients are summed
    precision: str = "auto"  # float32, mixed_bfloat16, or auto
    strategy: StrategyName = StrategyName.AUTO
    compilation: Compilation = Compilation.AUTO
    init_checkpoint: str | None = None  # first weights: a checkpoint folder, or any model
    seed: int = 12345

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, good in (
            ("learning_rate", 0 < self.learning_rate < math.inf),
            ("warmup_steps", 0 <= self.warmup_steps < _MOST_STEPS),
            ("weight_decay", 0 <= self.weight_decay < math.inf),
            ("beta_2", 0 <= self.beta_2 < 1),
            ("clip_norm", 0 <= self.clip_norm < math.inf),
            ("dropout", self.dropout is None or 0 <= self.dropout < 1),
            ("accumulation", self.accumulation >= 1),
            ("seed", 0 <= self.seed < 1 << 31),
        ):
            if not good:
                raise InputError(f"--{name}={getattr(self, name)} is out of range; see --help.")
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
