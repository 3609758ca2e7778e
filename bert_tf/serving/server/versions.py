"""The versions of a model that are served: the newest, picked up as they appear."""

import dataclasses
import enum
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from absl import logging

from bert_tf.export import saved_model
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common.errors import InputError


class State(enum.StrEnum):
    """Where a version is, by the names of TensorFlow Serving."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclasses.dataclass
class Version:
    """A version of the model.

    Attributes:
      number: of it.
      state: where it is.
      error: why it cannot be served; "" where it can.
      predictor: answers, while it is available.
      asking: requests that are being answered.
    """

    number: int
    state: State = State.LOADING
    error: str = ""
    predictor: Predictor | None = None
    asking: int = 0


class Versions:
    """Loads the newest versions in a folder, and lets go of others when they have answered.

    Args:
      folder: of the versions, or of one.
      count: how many are served.
      load: makes a version ready to answer.
    """

    def __init__(self, folder: str, count: int, load: Callable[[str], Predictor]):
        self._folder, self._count, self._load = folder.rstrip("/"), count, load
        self._known: dict[int, Version] = {}
        self._changed = threading.Condition()

    @property
    def known(self) -> list[Version]:
        """All that were seen, the newest first."""
        with self._changed:
            return sorted(self._known.values(), key=lambda version: -version.number)

    @property
    def ready(self) -> bool:
        """Whether there is one that answers."""
        return any(version.state is State.AVAILABLE for version in self.known)

    def refresh(self) -> None:
        """Loads versions that are new, and lets go of those that are too old or gone.

        A version that cannot be loaded is named once, and older ones go on.
        """
        there = self._there()
        wanted = sorted(there)[-self._count :]
        for number in wanted:
            with self._changed:
                if number in self._known and self._known[number].state is not State.END:
                    continue
                self._known[number] = Version(number)
            self._open(self._known[number], there[number])
        served = [v.number for v in self.known if v.state is State.AVAILABLE]
        # Only what has a successor goes: a new version that is damaged leaves the old one there.
        kept = sorted(served)[-self._count :]
        for number in set(served) - set(kept):
            self._retire(self._known[number])

    def _there(self) -> dict[int, str]:
        """The folders of versions by their numbers; one that is named itself has number 1."""
        numbers = saved_model.versions(self._folder)
        if not numbers and saved_model.is_export(self._folder):
            name = self._folder.rpartition("/")[2]
            return {int(name) if name.isdecimal() else 1: self._folder}
        return {number: f"{self._folder}/{number}" for number in numbers}

    def _open(self, version: Version, path: str) -> None:
        logging.info("loading version %d.", version.number)
        try:
            predictor = self._load(path)
        except InputError as error:
            logging.error("version %d is not served: %s", version.number, error)
            with self._changed:
                version.state, version.error = State.END, str(error)
            return
        with self._changed:
            version.predictor, version.state = predictor, State.AVAILABLE
        logging.info("version %d is served.", version.number)

    def _retire(self, version: Version) -> None:
        with self._changed:
            version.state = State.UNLOADING
            self._changed.wait_for(lambda: not version.asking)
            predictor, version.predictor = version.predictor, None
            version.state = State.END
        if predictor is not None:
            predictor.close()
        logging.info("version %d is not served any more.", version.number)

    @contextmanager
    def use(self, number: int | None) -> "Iterator[Version]":
        """A version that answers, which stays as long as it is used.

        Args:
          number: of it; None: the newest.

        Raises:
          RefusalError: there is none.
        """
        version = self._take(number)
        try:
            yield version
        finally:
            with self._changed:
                version.asking -= 1
                self._changed.notify_all()

    def _take(self, number: int | None) -> Version:
        with self._changed:
            served = {v.number: v for v in self._known.values() if v.state is State.AVAILABLE}
            if not served:
                raise RefusalError(Fault.UNAVAILABLE, "The model is being loaded; ask again.")
            chosen = max(served) if number is None else number
            if chosen not in served:
                known = ", ".join(map(str, sorted(served)))
                raise RefusalError(Fault.NOT_FOUND, f"Version {number} is not served; {known} is.")
            served[chosen].asking += 1
            return served[chosen]

    def close(self) -> None:
        """Lets go of all versions when they have answered."""
        for version in self.known:
            if version.state is State.AVAILABLE:
                self._retire(version)
