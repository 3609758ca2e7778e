"""What a pre-training run is asked to do."""

import dataclasses
from typing import Any

from bert_tf.training.settings import TrainingSettings
from pipelines.common.errors import InputError
from pipelines.common.settings import Settings, setting

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
    model: str | None = setting(
        None,
        "A size, such as tiny, base or roberta-base, or a .json; that of the model in "
        "--init_checkpoint, else base.",
    )
    learning_rate: float = setting(1e-4, "Peak learning rate.", above=0)
    warmup_steps: int = setting(10_000, "Steps of linear warm-up.", least=0, below=_MOST_STEPS)
    minutes: float | None = setting(
        None,
        "Of training: --steps and --warmup_steps are scaled to take so long at the speed that is "
        "measured first; evaluations and the export come on top.",
        above=0,
    )
    beta_2: float = setting(0.999, "Decay rate of squared gradients.", least=0, below=1)
    init_checkpoint: str | None = setting(None, "First weights: a checkpoint folder, or any model.")
    seed: int = setting(12345, "Fixes weights, order and dropout.", least=0, below=1 << 31)

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        if self.total_steps >= _MOST_STEPS:
            raise InputError(f"--steps={self.total_steps}: it must be below {_MOST_STEPS:,}.")

    def identity(self) -> dict[str, Any]:
        """As usual; the minutes only where there are some."""
        values = super().identity()
        if self.minutes is None:
            del values["minutes"]
        return values

    @property
    def total_steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)


@dataclasses.dataclass(frozen=True)
class RunOptions(Settings):
    """How a run is carried out; of no influence on the weights."""

    save_every: int = setting(1000, "Steps between checkpoints.", least=1)
    log_every: int = setting(20, "Steps between points of the curves.", least=1)
    evaluate_every: int = setting(0, "Steps; 0: at the end only.", least=0)
    tensorboard: bool = setting(True, "Write TensorBoard summaries.")
