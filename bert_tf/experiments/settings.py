"""Settings of the experiments."""

import dataclasses
import re

from bert_tf.training.settings import PRECISIONS
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting

# Names of the studies, here because importing the studies themselves would start TensorFlow.
STUDIES = ("pretraining", "size", "steps", "masking", "features", "intermediate", "curves")
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_MIN_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class ExperimentSettings(Settings):
    """The data, and everything else that decides the plan."""

    corpus: str | None = setting(
        None, "Text to pre-train on: files or globs. Not given: --show only."
    )
    tasks: str = setting(
        "",
        "Tasks to fine-tune for, separated by commas or spaces: KIND=PATH or NAME:KIND=PATH, with "
        "columns after a question mark (reviews:classification=reviews.csv?text=review&label="
        "stars). Not given: tasks made from the corpus.",
    )
    vocab: str | None = setting(None, "A vocabulary to use. Not given: one is learned.")
    budget: str = setting(
        "8h",
        "Time for everything, such as 10m, 8h or 1d12h. Sizes, steps, examples and seeds follow "
        "from it. All jobs of the plan are done, even if they take longer than estimated.",
        group=Group.TRAINING,
    )
    seeds: tuple[int, ...] | None = setting(
        None,
        "Seeds of fine-tuning. Not given: 1,2,3, or 1 with a budget below an hour.",
        group=Group.TRAINING,
        minimum=0,
        below=1 << 31,
    )
    vocab_size: int = setting(
        8192, "Tokens of the vocabulary to learn.", group=Group.EXAMPLES, minimum=100
    )
    max_seq_length: int = 64  # tokens of a pre-training sequence
    precision: str = setting(
        "auto",
        "Precision that all models are trained in. auto: what suits the first device, decided "
        "once, with the plan.",
        group=Group.MACHINE,
        choices=PRECISIONS,
    )

    @property
    def seconds(self) -> float:
        """The budget in seconds.

        Raises:
          InputError: it is not a time, or too short.
        """
        parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", self.budget)
        if "".join(map("".join, parts)) != self.budget or not parts:
            raise InputError(f"--budget={self.budget}: give a time such as 10m, 8h or 1d12h.")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if seconds < _MIN_SECONDS:
            raise InputError(f"--budget={self.budget}: it must be a minute or more.")
        return seconds

    def check(self) -> None:
        """Raises InputError where a value is invalid."""
        super().check()
        self.seconds  # noqa: B018  # raises where the budget is invalid


def chosen_studies(names: list[str]) -> tuple[str, ...]:
    """The named studies in their usual order, or all studies if none is named.

    Raises:
      InputError: a name is unknown.
    """
    for name in names:
        if name not in STUDIES:
            raise InputError(f"--only={name}: unknown study; use {', '.join(STUDIES)}.")
    return tuple(name for name in STUDIES if name in names or not names)
