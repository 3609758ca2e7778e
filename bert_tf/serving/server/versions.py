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

_LONGEST_REST = 64  # refreshes


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
      failures: how often in a row it could not be loaded.
      rest: refreshes until it is tried again.
    """

    number: int
    state: State = State.LOADING
    error: str = ""
    predictor: Predictor | None = None
    asking: int = 0
    failures: int = 0
    rest: int = 0


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

        A version that cannot be loaded is named once, and tried again, less and less often; older
        ones go on.
        """
        there = self._there()
        wanted = sorted(there)[-self._count :]
        for number in wanted:
            version = self._to_load(number)
            if version is not None:
                self._open(version, there[number])
        served = {v.number for v in self.known if v.state is State.AVAILABLE}
        # Only what has a successor goes: a new version that is damaged leaves the old one there.
        if served & set(wanted):
            kept = sorted(served & set(there))[-self._count :]
            for number in served - set(kept):
                self._retire(self._known[number])

    def _to_load(self, number: int) -> Version | None:
        """A version, where it is time to load it."""
        with self._changed:
            version = self._known.setdefault(number, Version(number))
            if version.state not in (State.LOADING, State.END):
                return None
            version.rest -= 1
            return version if version.rest < 0 else None

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
        except Exception as error:  # of a file system, say, which comes back
            self._note(version, error)
            return
        with self._changed:
            version.predictor, version.state = predictor, State.AVAILABLE
            version.error, version.failures, version.rest = "", 0, 0
        logging.info("version %d is served.", version.number)

    def _note(self, version: Version, error: Exception) -> None:
        """Notes why a version is not served; tells it, where that is new."""
        expected = isinstance(error, InputError)
        told = str(error) if expected else f"{type(error).__name__}: {error}"
        if told != version.error:
            message = "version %d is not served: %s"
            logging.error(message, version.number, told, exc_info=not expected)
        with self._changed:
            version.state, version.error = State.END, told
            version.rest = min(2**version.failures - 1, _LONGEST_REST)
            version.failures += 1

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
