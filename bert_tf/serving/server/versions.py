"""The served versions of a model: the newest ones, loaded as they appear."""

import contextlib
import dataclasses
import enum
import threading
from collections.abc import Callable, Iterator

from absl import logging

from bert_tf.export import saved_model
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common import checksums, files
from pipelines.common.errors import InputError

_MAX_PAUSE = 11  # refreshes between two attempts: about a minute, by default


class VersionState(enum.StrEnum):
    """State of a version, by the names of TensorFlow Serving."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclasses.dataclass
class Version:
    """A version of the model."""

    number: int
    state: VersionState = VersionState.LOADING
    error: str = ""  # why it cannot be served
    predictor: Predictor | None = None  # while it is available
    asking: int = 0  # number of requests that are being answered
    failures: int = 0  # failed attempts to load it, in a row
    pause: int = 0  # refreshes until the next attempt
    checksums: str | None = None  # the text of its checksums when it was loaded


def find(folder: str) -> dict[int, str]:
    """The folders of versions by number; an export itself has its own number, or 1."""
    numbers = saved_model.versions(folder)
    if not numbers and saved_model.is_export(folder):
        number = saved_model.version_number(folder.rpartition("/")[2])
        return {1 if number is None else number: folder}
    return {number: f"{folder}/{number}" for number in numbers}


def newest_complete(folder: str) -> str:
    """The newest complete version in a folder of versions, or of one.

    Raises:
      InputError: there is none; the message is about the newest one.
    """
    errors = []
    for _, path in sorted(find(folder).items(), reverse=True):
        try:
            saved_model.check_complete(path)
            return path
        except InputError as error:
            errors.append(error)
    if not errors:
        raise InputError(f"{folder}: has no exported version; make one with make export.")
    raise errors[0]


class Versions:
    """Loads the newest complete versions, and unloads others after their last answer.

    A version is complete when its checksums exist and match. Until then it may still be being
    copied: it is tried again, and older versions are served.

    Args:
      folder: of the versions, or of one.
      count: number of versions to serve.
      load: makes a version ready to answer.
    """

    def __init__(self, folder: str, count: int, load: Callable[[str], Predictor]):
        self._folder, self._count, self._load = folder.rstrip("/"), count, load
        self._known: dict[int, Version] = {}
        self._changed = threading.Condition()

    @property
    def known(self) -> list[Version]:
        """All versions seen so far, the newest first."""
        with self._changed:
            return sorted(self._known.values(), key=lambda version: -version.number)

    @property
    def ready(self) -> bool:
        """Whether a version is available."""
        return any(version.state is VersionState.AVAILABLE for version in self.known)

    def refresh(self) -> None:
        """Loads new versions, and unloads those that are too old or removed.

        The error of a version that cannot be loaded is logged once. It is tried again: at each
        refresh while files are missing, else less and less often, up to a maximum pause. An older
        one is served meanwhile.
        """
        served: set[int] = set()
        for number, path in sorted(find(self._folder).items(), reverse=True):
            with self._changed:
                version = self._known.setdefault(number, Version(number))
            if not _is_current(version, path):
                self._open(version, path)
            if self._known[number].state is VersionState.AVAILABLE:
                served.add(number)
            if len(served) == self._count:
                break
        # Without a successor, a version stays: the whole folder may be missing for a while.
        if served:
            for version in self.known:
                if version.state is VersionState.AVAILABLE and version.number not in served:
                    self._retire(version)

    def _open(self, version: Version, path: str) -> None:
        sums = _checksums(path)
        try:
            saved_model.check_present(path)
            if version.pause:
                version.pause -= 1
                return
            # For the case that it fails; a version that is loaded starts anew.
            version.pause = min(2**version.failures - 1, _MAX_PAUSE)
            version.failures += 1
            logging.info("loading version %d.", version.number)
            predictor = self._load(path)
        except Exception as error:  # also of a file system, which may come back
            self._note(version, error)
            return
        state = VersionState.AVAILABLE
        with self._changed:
            self._known[version.number] = Version(
                version.number, state, predictor=predictor, checksums=sums
            )
        logging.info("version %d is served.", version.number)
        if version.state is VersionState.AVAILABLE:
            self._retire(version)

    def _note(self, version: Version, error: Exception) -> None:
        """Records why a version is not served, and logs it once."""
        expected = isinstance(error, InputError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        if reason != version.error:
            message = "version %d is not served: %s"
            logging.error(message, version.number, reason, exc_info=not expected)
        with self._changed:
            if version.state is not VersionState.AVAILABLE:  # else it is served as it was
                version.state = VersionState.END
            version.error = reason

    def _retire(self, version: Version) -> None:
        with self._changed:
            version.state = VersionState.UNLOADING
            self._changed.wait_for(lambda: not version.asking)
            predictor, version.predictor = version.predictor, None
            version.state = VersionState.END
        if predictor is not None:
            predictor.close()
        logging.info("version %d is no longer served.", version.number)

    @contextlib.contextmanager
    def use(self, number: int | None) -> "Iterator[Version]":
        """An available version, or the newest one, which stays loaded within the context.

        Raises:
          RefusalError: it is not available.
        """
        with self._changed:
            served = {
                v.number: v for v in self._known.values() if v.state is VersionState.AVAILABLE
            }
            if not served:
                raise RefusalError(Fault.UNAVAILABLE, "The model is being loaded; ask again.")
            version = served.get(max(served) if number is None else number)
            if version is None:
                known = ", ".join(map(str, sorted(served)))
                raise RefusalError(Fault.NOT_FOUND, f"Version {number} is not served; {known} is.")
            version.asking += 1
        try:
            yield version
        finally:
            with self._changed:
                version.asking -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Unloads all versions after their last answer."""
        for version in self.known:
            if version.state is VersionState.AVAILABLE:
                self._retire(version)


def _is_current(version: Version, path: str) -> bool:
    """Whether a version is served, and has not been replaced since it was loaded."""
    served = version.state is VersionState.AVAILABLE
    return served and _checksums(path) in (None, version.checksums)


def _checksums(path: str) -> str | None:
    """The text of a version's checksums; None if they are missing."""
    try:
        return files.read_whole(f"{path}/{checksums.CHECKSUMS}").hex()
    except InputError:
        return None
