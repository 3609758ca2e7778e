"""Settings of all training runs."""

import dataclasses
import enum
from typing import Annotated, Any, ClassVar

from pipelines.common.flag_types import Count, Group, Name, Range, choice
from pipelines.common.settings import Settings

PRECISIONS = ("auto", "float32", "mixed_bfloat16")
MAX_STEPS = (1 << 31) - 1  # of a run, as steps are int32


class OptimizerName(enum.StrEnum):
    """Names of optimizers."""

    ADAMW = "adamw"  # the paper's
    LAMB = "lamb"  # for batches of thousands (You et al. 2019)
    MUON = "muon"  # learns more of each step (Jordan et al. 2024)


class StrategyName(enum.StrEnum):
    """How training is distributed over devices."""

    AUTO = "auto"  # by the available devices
    ONE_DEVICE = "one_device"  # the first GPU, or the CPU
    MIRRORED = "mirrored"  # all GPUs of this machine, or all its logical CPU devices
    MULTI_WORKER = "multi_worker"  # several machines, named by TF_CONFIG
    TPU = "tpu"  # the TPU named by TPU_NAME, or the local one


class Compilation(enum.StrEnum):
    """What XLA compiles."""

    AUTO = "auto"  # STEP on GPUs and TPUs, FUSED on CPUs
    STEP = "step"  # forward and backward pass as one program, with the update where possible
    FUSED = "fused"  # the element-wise passes one by one; matrix products by oneDNN
    OFF = "off"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """Settings of all runs; pre-training and fine-tuning add their own.

    Flags:
      optimizer: adamw is the paper's: Adam with decoupled weight decay. lamb is for batches of
        thousands. muon learns more of each step of pre-training, at several times the rate of
        adamw.
      weight_decay: Decoupled weight decay, of all weights but biases and layer norms; 0: none.
      clip_norm: Maximum global norm of the gradients, to which larger ones are scaled; 0: no limit.
      dropout: Dropout rate of hidden layers and of attention; 0: none. Not given: that of the
        model's configuration.
      accumulation: Parts that each batch is split into, if it does not fit into the memory of the
        devices. The gradients of the parts are summed: the result is the same, except for
        embeddings, where texts are compared with those of their part only.
      rematerialize: Keep only the input of each layer for the backward pass and compute the rest
        again: a fraction of the memory, for about a third more time. The result is the same.
      precision: Precision of computations; weights are float32. auto: mixed_bfloat16 on TPUs, on
        GPUs that support it, and on a CPU that is measured to be faster with it; else float32.
      strategy: The devices: one_device (the first GPU, or the CPU), mirrored (all GPUs of this
        machine), multi_worker (the machines named by TF_CONFIG), tpu (the one named by TPU_NAME, or
        a local one). auto: the TPU, else the machines, else the GPUs that are available.
      compilation: What XLA compiles: step (forward and backward pass as one program; in
        pre-training on one device, the update too), fused (the element-wise passes one by one) or
        nothing (off). auto: step on GPUs and TPUs, fused on CPUs.
      steps_per_execution: Steps in one call of the compiled function, at most: a call ends where a
        log line, a checkpoint or an evaluation is due. The result is the same.
      worker_timeout: Seconds without a step after which one of several workers ends with status 75
        instead of waiting for ever; compilation, evaluations and the end of the run may always take
        1800. Not given: ten times the longest step so far, and at least 600.
      data_source: Description of the data for report and model card. Not given: they have none.
      data_license: Licence of the data for report and model card. Not given: they have none.
    """

    group = Group.TRAINING

    optimizer: OptimizerName = OptimizerName.ADAMW
    weight_decay: Annotated[float, Range(minimum=0)] = 0.01
    clip_norm: Annotated[float, Range(minimum=0)] = 1.0
    dropout: Annotated[float | None, Range(minimum=0, below=1)] = None
    accumulation: Annotated[Count, Group.MACHINE] = 1
    rematerialize: Annotated[bool, Group.MACHINE] = False
    precision: Annotated[str, choice(PRECISIONS), Group.MACHINE] = "auto"
    strategy: Annotated[StrategyName, Group.MACHINE] = StrategyName.AUTO
    compilation: Annotated[Compilation, Group.MACHINE, Name("xla")] = Compilation.AUTO
    steps_per_execution: Annotated[Count, Group.MACHINE] = 1

    worker_timeout: Annotated[float | None, Range(above=0), Group.MACHINE] = None
    data_source: Annotated[str | None, Group.SAVING] = None
    data_license: Annotated[str | None, Group.SAVING] = None

    # Fields that do not decide the weights: a run may be resumed with other values.
    _FREE: ClassVar[tuple[str, ...]] = (
        *("strategy", "compilation", "steps_per_execution", "rematerialize"),
        "worker_timeout",
        *("data_source", "data_license"),
    )

    def describe_data(self, examples: dict[str, int]) -> dict[str, Any]:
        """Source, licence and number of examples by split, as far as known, for the report."""
        known = {"source": self.data_source, "license": self.data_license, "examples": examples}
        return {name: value for name, value in known.items() if value}

    def too_late(self, report: dict[str, Any]) -> list[str]:
        """The flags that were given, and that a finished run with this report does not follow."""
        described = self.describe_data({})
        return [f"data_{k}" for k, value in described.items() if value != report["data"].get(k)]

    def pace(self) -> list[object]:
        """Values that all workers of a run must share besides its identity, as JSON values."""
        return [self.compilation, self.steps_per_execution, self.rematerialize]

    def identity(self) -> dict[str, Any]:
        """The settings that decide the weights, as JSON values."""
        return {k: value for k, value in self.describe().items() if k not in self._FREE}
