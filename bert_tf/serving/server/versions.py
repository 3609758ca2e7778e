"""The versions of a model that are served: the newest, picked up as they appear."""

import contextlib
import dataclasses
import enum
import threading
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf
from absl import logging

from bert_tf.export import saved_model
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common import checksums, files
from pipelines.common.errors import InputError

_LONGEST_REST = 64  # refreshes
_Files = Mapping[str, tuple[int, int]]  # bytes and time of change, by path


class VersionState(enum.StrEnum):
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
      files: those of its folder, as they were when it was looked at last, while it is not served.
      checksums: the text of its checksums, as they were when it was loaded.
    """

    number: int
    state: VersionState = VersionState.LOADING
    error: str = ""
    predictor: Predictor | None = None
    asking: int = 0
    failures: int = 0
    rest: int = 0
    files: _Files | None = None
    checksums: str | None = None


def there(folder: str) -> dict[int, str]:
    """The folders of versions by their numbers; one that is named itself has its own, or 1."""
    numbers = saved_model.versions(folder)
    if not numbers and saved_model.is_export(folder):
        number = saved_model.version_number(folder.rpartition("/")[2])
        return {1 if number is None else number: folder}
    return {number: f"{folder}/{number}" for number in numbers}


def newest_complete(folder: str) -> str:
    """The folder of the newest version that is complete.

    Args:
      folder: of the versions, or of one.

    Raises:
      InputError: there is none; of several, why the newest is not.
    """
    found = sorted(there(folder).items(), reverse=True)
    if not found:
        raise InputError(f"{folder}: has no exported version; make one with make export.")
    errors = []
    for _, path in found:
        try:
            saved_model.check_complete(path)
            return path
        except InputError as error:
            errors.append(error)
    raise errors[0]


class Versions:
    """Loads the newest versions that are complete, and lets go of others when they have answered.

    A version is complete when its checksums are there and match. Until then it may be on its way:
    it is looked at again when its files have come to rest, and older versions are served.

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
        return any(version.state is VersionState.AVAILABLE for version in self.known)

    def refresh(self) -> None:
        """Loads versions that are new, and lets go of those that are too old or gone.

        A version that cannot be loaded is named once, and tried again, less and less often; an
        older one is served meanwhile.
        """
        served: set[int] = set()
        for number, path in sorted(there(self._folder).items(), reverse=True):
            version = self._look_at(number, path)
            if version.state is VersionState.AVAILABLE:
                served.add(number)
            if len(served) == self._count:
                break
        # Only what has a successor goes: where all are away, what is served stays.
        if served:
            for version in self.known:
                if version.state is VersionState.AVAILABLE and version.number not in served:
                    self._retire(version)

    def _look_at(self, number: int, path: str) -> Version:
        """A version, loaded if it can be."""
        with self._changed:
            version = self._known.setdefault(number, Version(number))
        if _is_due(version, path):
            self._open(version, path)
        return self._known[number]

    def _open(self, version: Version, path: str) -> None:
        sums = _checksums(path)
        try:
            saved_model.check_there(path)
            logging.info("loading version %d.", version.number)
            predictor = self._load(path)
        except Exception as error:  # of a file system, say, which comes back
            self._note(version, error)
            return
        replaced = version if version.state is VersionState.AVAILABLE else None
        with self._changed:
            version = Version(version.number) if replaced else version
            version.predictor, version.state = predictor, VersionState.AVAILABLE
            version.error, version.failures, version.rest = "", 0, 0
            version.files, version.checksums = None, sums
            self._known[version.number] = version
        logging.info("version %d is served.", version.number)
        if replaced:
            self._retire(replaced)

    def _note(self, version: Version, error: Exception) -> None:
        """Notes why a version is not served; tells it, where that is new."""
        expected = isinstance(error, InputError)
        told = str(error) if expected else f"{type(error).__name__}: {error}"
        if told != version.error:
            message = "version %d is not served: %s"
            logging.error(message, version.number, told, exc_info=not expected)
        with self._changed:
            if version.state is not VersionState.AVAILABLE:  # else it is served as it was
                version.state = VersionState.END
            version.error = told
            version.rest = min(2**version.failures - 1, _LONGEST_REST)
            version.failures += 1

    def _retire(self, version: Version) -> None:
        with self._changed:
            version.state = VersionState.UNLOADING
            self._changed.wait_for(lambda: not version.asking)
            predictor, version.predictor = version.predictor, None
            version.state = VersionState.END
        if predictor is not None:
            predictor.close()
        logging.info("version %d is not served any more.", version.number)

    @contextlib.contextmanager
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
            served = {
                v.number: v for v in self._known.values() if v.state is VersionState.AVAILABLE
            }
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
            if version.state is VersionState.AVAILABLE:
                self._retire(version)


def _is_due(version: Version, path: str) -> bool:
    """Whether it is time to load a version: it is new, has changed, or may have been mended."""
    if version.state is VersionState.AVAILABLE and _checksums(path) in (None, version.checksums):
        return False
    found = _files_in(path)
    changed, version.files = found != version.files, found
    if changed and version.failures:
        version.rest = 0
        return False  # more may come; what has come to rest is tried at the next look
    version.rest -= 1
    return version.rest < 0


def _checksums(path: str) -> str | None:
    """The text of a version's checksums; None where there are none."""
    try:
        return files.read_whole(f"{path}/{checksums.CHECKSUMS}").hex()
    except InputError:
        return None


def _files_in(path: str) -> _Files:
    found = {}
    for folder, _, names in files.gfile.walk(path):
        for place in (f"{folder}/{name}" for name in names):
            with contextlib.suppress(tf.errors.NotFoundError):  # it is being renamed, or removed
                told = files.gfile.stat(place)
                found[place] = told.length, getattr(told, "mtime_nsec", 0)
    return found
