"""What every training run is asked to do, of whatever kind it is."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, ClassVar

from bert_tf.training.distribution import Compilation, StrategyName
from bert_tf.training.optimizers import OptimizerName
from pipelines.common.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of all runs; those of a kind add theirs."""

    optimizer: OptimizerName = OptimizerName.ADAMW
    weight_decay: float = 0.01
    clip_norm: float = 1.0  # the largest global norm of the gradients; 0: any
    dropout: float | None = None  # in place of the configuration's two; None: as it says
    accumulation: int = 1  # parts of a batch whose gradients are summed
    precision: str = "auto"  # float32, mixed_bfloat16, or auto
    strategy: StrategyName = StrategyName.AUTO
    compilation: Compilation = Compilation.AUTO
    steps_per_execution: int = 1  # at the most, in one call; for TPUs and small models

    # Fields that do not decide the weights: a run may be gone on with by others of these.
    _FREE: ClassVar[tuple[str, ...]] = ("strategy", "compilation", "steps_per_execution")

    def ranges(self) -> Iterator[tuple[str, Any, bool]]:
        """Yields, for each value that may make no sense: its flag, the value, and whether it does.

        A kind of run adds those of its own settings.
        """
        yield "weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf
        yield "clip_norm", self.clip_norm, 0 <= self.clip_norm < math.inf
        yield "dropout", self.dropout, self.dropout is None or 0 <= self.dropout < 1
        yield "accumulation", self.accumulation, self.accumulation >= 1
        yield "steps_per_execution", self.steps_per_execution, self.steps_per_execution >= 1

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, value, good in self.ranges():
            if not good:
                raise InputError(f"--{name}={value} is out of range; see --help.")

    def identity(self) -> dict[str, Any]:
        """The settings that decide the weights, as JSON values."""
        values = dataclasses.asdict(self)
        for name in self._FREE:
            del values[name]
        if self.optimizer is OptimizerName.ADAMW:
            del values["optimizer"]  # runs of before there were others do not name it
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
