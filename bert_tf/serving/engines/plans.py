"""With what, and with how many threads, an export computes."""

import dataclasses
from typing import Any

from bert_tf.serving.engines.names import EngineName, Precision

MOST_TOKENS = 1024  # of sequences that are computed together, unless told otherwise


@dataclasses.dataclass(frozen=True)
class Lane:
    """One way to compute.

    Attributes:
      engine: what computes.
      threads: of one computation. Those of TensorFlow are its process's: it has one number of them.
      precision: what it multiplies in. That of TensorFlow is that of the export.
      lengths: for single sequences of up to these lengths, ascending, TensorFlow compiles (XLA).
      parts: of each layer, that TensorFlow computes at once for single sequences.
    """

    engine: EngineName = EngineName.TENSORFLOW
    threads: int = 1
    precision: Precision = Precision.FLOAT32
    lengths: tuple[int, ...] = ()
    parts: int = 1

    @property
    def may_be_grouped(self) -> bool:
        """Whether a sequence has the same results beside others as alone.

        In int8, numbers are scaled by the largest of all that are computed together.
        """
        return self.precision is not Precision.INT8

    def __str__(self) -> str:
        compiled = f", XLA up to {self.lengths[-1]} tokens" if self.lengths else ""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        parts = f", layers in {self.parts} parts" if self.parts > 1 else ""
        return f"{self.engine} ({self.precision}) with {threads}{parts}{compiled}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a program computes.

    Attributes:
      alone: a sequence while nothing else is computed.
      together: all else, as many computations at once as the cores are enough for.
      grouped: whether sequences of like lengths are computed in one batch where several wait.
    """

    alone: Lane
    together: Lane
    grouped: bool = True

    @classmethod
    def of(cls, lane: Lane) -> "Plan":
        """A plan that does everything in one way."""
        return cls(lane, lane, lane.may_be_grouped)

    @property
    def lanes(self) -> list[Lane]:
        """The different ways that it has."""
        return list(dict.fromkeys((self.together, self.alone)))

    def threads_of_tensorflow(self) -> int:
        """The threads that TensorFlow needs in the process, whose tokenizers need one."""
        known = (lane.threads for lane in self.lanes if lane.engine is EngineName.TENSORFLOW)
        return next(known, 1)

    def __str__(self) -> str:
        single = "" if self.grouped else ", each sequence by itself"
        if self.alone == self.together:
            return f"{self.together}{single}"
        return f"{self.alone} for a sequence alone, {self.together} for several at once{single}"

    def to_dict(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Plan":
        """The plan that `to_dict` told of."""
        return cls(lane_of(values["alone"]), lane_of(values["together"]), values["grouped"])


def lane_of(values: dict[str, Any]) -> Lane:
    """The lane that `dataclasses.asdict` told of."""
    return Lane(
        EngineName(values["engine"]),
        values["threads"],
        Precision(values["precision"]),
        tuple(values["lengths"]),
        values["parts"],
    )
