"""What the experiments are asked to do."""

import dataclasses
import re

from bert_tf.training.settings import PRECISIONS
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting

# The studies, without what they are: that would start TensorFlow. A test holds them equal.
STUDIES = ("pretraining", "size", "steps", "masking", "features", "intermediate", "curves")
# From the one that is the last to be left out where time is short to the first one.
BY_WEIGHT = ("pretraining", "curves", "steps", "size", "features", "intermediate", "masking")
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SHORTEST = 60  # seconds


@dataclasses.dataclass(frozen=True)
class ExperimentSettings(Settings):
    """What decides the plan, beside the data."""

    group = Group.TRAINING

    budget: str = setting(
        "8h",
        "Time that all of it may take, such as 10m, 8h or 1d12h: sizes, steps, examples and seeds "
        "follow from it. What is begun is finished all the same.",
    )
    seeds: tuple[int, ...] | None = setting(
        None,
        "Seeds of fine-tuning. Not given: 1,2,3, and 1 where the budget is below an hour.",
        minimum=0,
        below=1 << 31,
    )
    vocab_size: int = setting(
        8192, "Tokens of the vocabulary to learn.", group=Group.EXAMPLES, minimum=100
    )
    max_seq_length: int = setting(
        64, "Tokens of a sequence of pre-training.", group=Group.MODEL, minimum=16, maximum=512
    )
    precision: str = setting(
        "auto",
        "What all models are trained in. auto: what suits the first device, decided once, with "
        "the plan.",
        group=Group.MACHINE,
        choices=PRECISIONS,
    )

    @property
    def seconds(self) -> float:
        """The budget.

        Raises:
          InputError: it is no time.
        """
        parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", self.budget)
        if "".join(map("".join, parts)) != self.budget or not parts:
            raise InputError(f"--budget={self.budget}: give a time such as 10m, 8h or 1d12h.")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if seconds < _SHORTEST:
            raise InputError(f"--budget={self.budget}: it must be a minute or more.")
        return seconds

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        self.seconds  # noqa: B018  # it checks


def chosen_studies(names: list[str]) -> tuple[str, ...]:
    """The studies that are named, in their usual order; all where none is.

    Raises:
      InputError: there is no such study.
    """
    for name in names:
        if name not in STUDIES:
            raise InputError(f"--only={name}: there is no such study; use {', '.join(STUDIES)}.")
    return tuple(name for name in STUDIES if name in names or not names)
