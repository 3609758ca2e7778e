"""Jobs: pieces of work whose outcome follows from their settings alone.

Studies ask for jobs; those that several ask for are done once. A job has a folder by its settings,
so that it is found again, and its commands go on where they were stopped.
"""

import abc
import dataclasses
import enum
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, TypedDict

from bert_tf.experiments.size import Size
from pipelines.common import files, json_files

OUTCOME = "outcome.json"
SCORE = "score"  # among the metrics of a seed, that by which models are compared
_DIGITS = 10
_LONGEST_NAME = 60


class Outcome(TypedDict):
    """What came of a job.

    Attributes:
      seconds: that it took.
      scores: metrics by seed; of jobs without seeds under "".
      score_name: which metric the one that is called SCORE is.
      diverged: what went wrong, by seed; a run that diverged is a result.
    """

    seconds: float
    scores: dict[str, dict[str, float]]
    score_name: NotRequired[str]
    diverged: NotRequired[dict[str, str]]


class State(enum.StrEnum):
    """Where a job stands."""

    WAITING = "waits"
    RUNNING = "runs"
    DONE = "done"
    FAILED = "failed"  # an error: it is tried again when the command is
    SKIPPED = "skipped"  # what it needs failed, or diverged


@dataclasses.dataclass(frozen=True)
class Job(abc.ABC):
    """A piece of work; subclasses are frozen dataclasses whose fields decide all of it."""

    kind: ClassVar[str]

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """What it is, in a few words."""

    @abc.abstractmethod
    def cost(self, speed: Any) -> float:
        """The seconds that it may take; see `scale.Speed`."""

    @abc.abstractmethod
    def work(self, place: "Place") -> Outcome:
        """Does the work, or goes on with it.

        Raises:
          InputError: it cannot be done.
        """

    @functools.cached_property
    def needs(self) -> tuple["Job", ...]:
        """The jobs whose outcome it is made of."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return tuple(value for value in values if isinstance(value, Job))

    @functools.cached_property
    def key(self) -> str:
        """A checksum of all that decides it."""
        values: dict[str, Any] = {"kind": self.kind}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            values[field.name] = value.key if isinstance(value, Job) else _plain(value)
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Of its folder."""
        words = re.sub(r"[^a-z0-9]+", "-", f"{self.kind} {self.label}".lower())
        return f"{words[:_LONGEST_NAME].strip('-')}-{self.key[:_DIGITS]}"


class ModelJob(Job):
    """A job that leaves a model, which others go on with."""

    if TYPE_CHECKING:  # a field, or a property

        @property
        def size(self) -> Size:
            """Of its encoder."""

    @abc.abstractmethod
    def checkpoint(self, place: "Place", share: float | None = None) -> str:
        """The path of the model.

        Args:
          place: where jobs are done.
          share: of the steps of training, after which it is taken; None: all.
        """


@dataclasses.dataclass(frozen=True)
class Place:
    """Where jobs are done.

    Attributes:
      root: the folder of all.
      precision: what all models are trained in; auto: each run decides when it begins.
    """

    root: str
    precision: str = "auto"

    def folder(self, job: Job) -> str:
        """The folder of a job."""
        return f"{self.root}/runs/{job.name}"

    @property
    def cache(self) -> str:
        """The folder of features and outputs of frozen encoders, which jobs share."""
        return f"{self.root}/cache"

    def outcome(self, job: Job) -> Outcome | None:
        """What came of a job; None if it is not done."""
        path = f"{self.folder(job)}/{OUTCOME}"
        if not files.gfile.exists(path):
            return None
        return json_files.read(path, Outcome, finite=False)

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Writes what came of a job."""
        json_files.write(f"{self.folder(job)}/{OUTCOME}", outcome)


def with_needs(jobs: Iterable[Job]) -> list[Job]:
    """Jobs with all that they need, each once, in an order in which they can be done."""
    found: dict[str, Job] = {}

    def add(job: Job) -> None:
        for need in job.needs:
            add(need)
        found.setdefault(job.key, job)

    for job in jobs:
        add(job)
    return list(found.values())


def _plain(value: Any) -> Any:
    """A value of a field as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, enum.Enum) else value
