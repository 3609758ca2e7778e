"""Which engine computes an export, and how. Imports nothing that takes time."""

import dataclasses
import enum

MAX_TOKENS = 1024  # of different requests computed together, by default
AUTO = "auto"  # in place of an engine's name: chosen by the rule of `selection`


class EngineName(enum.StrEnum):
    """Names of the engines."""

    TENSORFLOW = "tensorflow"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"
    LITERT = "litert"


class Precision(enum.StrEnum):
    """Type in which an engine multiplies."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"  # dynamic quantization: scales follow the activations of each batch


@dataclasses.dataclass(frozen=True)
class ExecutionPlan:
    """How an export is computed.

    Attributes:
      engine: name of the engine.
      threads: of each computation; as many computations run at once as there are cores for.
      precision: in which it multiplies.
    """

    engine: EngineName = EngineName.TENSORFLOW
    threads: int = 1
    precision: Precision = Precision.FLOAT32

    @property
    def batches(self) -> bool:
        """Whether sequences of several requests are computed as one batch.

        Dynamic int8 scales by the largest activation of a batch, so that an answer would depend on
        the other requests.
        """
        return self.precision is not Precision.INT8

    @property
    def tensorflow_threads(self) -> int:
        """Threads that TensorFlow needs in the process; tokenizing needs one."""
        return self.threads if self.engine is EngineName.TENSORFLOW else 1

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{self.engine} ({self.precision}) with {threads}"
