"""Settings of all training runs."""

import dataclasses
import enum
from typing import Any, ClassVar

from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting

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
    """Settings of all runs; pre-training and fine-tuning add their own."""

    group = Group.TRAINING

    optimizer: OptimizerName = setting(
        OptimizerName.ADAMW,
        "adamw is the paper's: Adam with decoupled weight decay. lamb is for batches of thousands. "
        "muon learns more of each step of pre-training, at several times the rate of adamw.",
    )
    weight_decay: float = setting(
        0.01,
        "Decoupled weight decay, of all weights but biases and layer norms; 0: none.",
        minimum=0,
    )
    clip_norm: float = setting(
        1.0,
        "Maximum global norm of the gradients, to which larger ones are scaled; 0: no limit.",
        minimum=0,
    )
    dropout: float | None = setting(
        None,
        "Dropout rate of hidden layers and of attention; 0: none. Not given: that of the model's "
        "configuration.",
        minimum=0,
        below=1,
    )
    accumulation: int = setting(
        1,
        "Parts that each batch is split into, if it does not fit into the memory of the devices. "
        "The gradients of the parts are summed: the result is the same, except for embeddings, "
        "where texts are compared with those of their part only.",
        group=Group.MACHINE,
        minimum=1,
    )
    rematerialize: bool = setting(
        False,
        "Keep only the input of each layer for the backward pass and compute the rest again: a "
        "fraction of the memory, for about a third more time. The result is the same.",
        group=Group.MACHINE,
    )
    precision: str = setting(
        "auto",
        "Precision of computations; weights are float32. auto: mixed_bfloat16 on TPUs, on GPUs "
        "that support it, and on a CPU that is measured to be faster with it; else float32.",
        group=Group.MACHINE,
        choices=PRECISIONS,
    )
    strategy: StrategyName = setting(
        StrategyName.AUTO,
        "The devices: one_device (the first GPU, or the CPU), mirrored (all GPUs of this machine), "
        "multi_worker (the machines named by TF_CONFIG), tpu (the one named by TPU_NAME, or a "
        "local one). auto: the TPU, else the machines, else the GPUs that are available.",
        group=Group.MACHINE,
    )
    compilation: Compilation = setting(
        Compilation.AUTO,
        "What XLA compiles: step (forward and backward pass as one program; in pre-training on one "
        "device, the update too), fused (the element-wise passes one by one) or nothing (off). "
        "auto: step on GPUs and TPUs, fused on CPUs.",
        group=Group.MACHINE,
        flag="xla",
    )
    steps_per_execution: int = setting(
        1,
        "Steps in one call of the compiled function, at most: a call ends where a log line, a "
        "checkpoint or an evaluation is due. The result is the same.",
        group=Group.MACHINE,
        minimum=1,
    )

    worker_timeout: float | None = setting(
        None,
        "Seconds without a step after which one of several workers ends with status 75 instead of "
        "waiting for ever; compilation, evaluations and the end of the run may always take 1800. "
        "Not given: ten times the longest step so far, and at least 600.",
        group=Group.MACHINE,
        above=0,
    )
    data_source: str | None = setting(
        None,
        "Description of the data for report and model card. Not given: they have none.",
        group=Group.SAVING,
    )
    data_license: str | None = setting(
        None,
        "Licence of the data for report and model card. Not given: they have none.",
        group=Group.SAVING,
    )

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

    def pace(self) -> list[object]:
        """Values that all workers of a run must share besides its identity, as JSON values."""
        return [self.compilation, self.steps_per_execution, self.rematerialize]

    def identity(self) -> dict[str, Any]:
        """The settings that decide the weights, as JSON values."""
        return {k: value for k, value in self.describe().items() if k not in self._FREE}
