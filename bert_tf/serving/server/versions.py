"""The served versions of a model: the newest ones, loaded as they appear."""

import contextlib
import dataclasses
import enum
import gc
import threading
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf
from absl import logging

from bert_tf.export import saved_model
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.settings import check_name
from pipelines.common import files
from pipelines.common.errors import InputError

_MAX_PAUSE = 64  # refreshes
_Files = Mapping[str, tuple[int, int]]  # size and time of change, by path


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
    files: _Files | None = None  # those of its folder at the last refresh, while it is not served
    manifest: str | None = None  # the text of its manifest when it was loaded


def newest_complete(folder: str) -> str:
    """The newest complete version in a folder of versions, or of one.

    Raises:
      InputError: there is none; the message is about the newest one.
    """
    saved_model.newest(folder)  # raises if there is none
    errors = []
    for _, path in sorted(saved_model.find(folder).items(), reverse=True):
        try:
            saved_model.check_complete(path)
            return path
        except InputError as error:
            errors.append(error)
    raise errors[0]


def models_in(folder: str, name: str | None) -> dict[str, str]:
    """The folders of versions in a folder, by the names of models: itself, or those that it has.

    Args:
      folder: of the versions of one export; or of such folders, which have the names of models.
      name: of the model, if it is one; None: "bert".

    Raises:
      InputError: there is no export, or there are several and a name, or a folder's name cannot be
        in URLs.
    """
    parts = files.names_in(folder) if files.gfile.isdir(folder) else []
    several = {part: f"{folder}/{part}" for part in parts if not part.isdecimal()}
    several = {part: path for part, path in several.items() if saved_model.find(path)}
    if saved_model.find(folder) or not several:
        saved_model.newest(folder)  # raises if there is none
        return {name or "bert": folder}
    if name:
        raise InputError(
            f"--name={name}: names one model, and {folder} has {', '.join(several)}; they have the "
            "names of their folders."
        )
    for part, path in several.items():
        check_name(part, path.removesuffix(part))
    return several


class Versions:
    """Loads the newest complete versions, and unloads others after their last answer.

    A version is complete when its manifest exists and its files match. Until then it may still be
    being copied: it is checked again when its files have stopped changing, and older versions are
    served.

    Args:
      folder: of the versions, or of one.
      count: number of versions to serve.
      load: makes a version ready to answer.
    """

    def __init__(self, folder: str, count: int, load: Callable[[str], Predictor]):
        self._folder, self._count, self._load = folder.rstrip("/"), count, load
        self._known: dict[int, Version] = {}
        self._changed = threading.Condition()
        self._tried = False  # whether all versions were

    @property
    def known(self) -> list[Version]:
        """Versions in the folder, and those that are still served, the newest first."""
        with self._changed:
            return sorted(self._known.values(), key=lambda version: -version.number)

    @property
    def ready(self) -> bool:
        """Whether a version is available."""
        return any(version.state is VersionState.AVAILABLE for version in self.known)

    @property
    def settled(self) -> bool:
        """Whether a version is available, or none of them could be loaded."""
        return self.ready or self._tried

    def refresh(self) -> None:
        """Loads new versions, and unloads those that are too old or removed.

        The error of a version that cannot be loaded is logged once, and it is tried again, less
        and less often; an older one is served meanwhile.
        """
        served, found = set[int](), saved_model.find(self._folder)
        with self._changed:
            for number in self._known.keys() - found.keys():
                if self._known[number].state is VersionState.END:
                    del self._known[number]
        for number, path in sorted(found.items(), reverse=True):
            with self._changed:
                version = self._known.setdefault(number, Version(number))
            try:
                if _is_due(version, path):
                    self._open(version, path)
            except Exception as error:  # also of a file system, which may come back
                self._note(version, error)
            if self._known[number].state is VersionState.AVAILABLE:
                served.add(number)
            if len(served) == self._count:
                break
        self._tried |= bool(found)
        # Without a successor, a version stays: the whole folder may be missing for a while.
        if served:
            for version in self.known:
                if version.state is VersionState.AVAILABLE and version.number not in served:
                    self._retire(version)

    def _open(self, version: Version, path: str) -> None:
        manifest = _manifest(path)
        saved_model.check_present(path)
        logging.info("loading %s.", path)
        predictor = self._load(path)
        state = VersionState.AVAILABLE
        with self._changed:
            self._known[version.number] = Version(
                version.number, state, predictor=predictor, manifest=manifest
            )
        logging.info("%s is served.", path)
        if version.state is VersionState.AVAILABLE:
            self._retire(version)

    def _note(self, version: Version, error: Exception) -> None:
        """Records why a version is not served, and logs it once."""
        expected = isinstance(error, InputError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        if reason != version.error:
            is_served = version.state is VersionState.AVAILABLE
            state = "is served as it was" if is_served else "is not served"
            message = f"%s: version %d {state}: %s"
            logging.error(message, self._folder, version.number, reason, exc_info=not expected)
        with self._changed:
            if version.state is not VersionState.AVAILABLE:
                version.state = VersionState.END
            version.error = reason
            version.pause = min(2**version.failures - 1, _MAX_PAUSE)
            version.failures += 1

    def _retire(self, version: Version) -> None:
        with self._changed:
            version.state = VersionState.UNLOADING
            self._changed.wait_for(lambda: not version.asking)
            predictor, version.predictor = version.predictor, None
            version.state = VersionState.END
        if predictor is not None:
            predictor.close()
            del predictor
            gc.collect()  # its weights, before the next version is loaded
        logging.info("%s: version %d is no longer served.", self._folder, version.number)

    @contextlib.contextmanager
    def use(self, number: int | None) -> Iterator[tuple[int, Predictor]]:
        """Number and predictor of a version, or of the newest one, which stays within the context.

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
            predictor = version.predictor
            assert predictor is not None  # it is available
            version.asking += 1
        try:
            yield version.number, predictor
        finally:
            with self._changed:
                version.asking -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Unloads all versions after their last answer."""
        for version in self.known:
            if version.state is VersionState.AVAILABLE:
                self._retire(version)


def _is_due(version: Version, path: str) -> bool:
    """Whether to load a version now: it is new, has changed, or may have been repaired."""
    if version.state is VersionState.AVAILABLE:
        manifest = _manifest(path)
        if manifest == version.manifest:  # again, if it had changed
            version.error, version.failures, version.pause = "", 0, 0
        if manifest in (None, version.manifest):
            return False
    found = _files_in(path)
    changed, version.files = found != version.files, found
    if changed and version.failures:
        version.pause = 0
        return False  # more changes may follow; without them it is tried at the next refresh
    version.pause -= 1
    return version.pause < 0


def _manifest(path: str) -> str | None:
    """The text of a version's manifest, with the checksums of its files; None if it is missing."""
    try:
        return files.read_whole(f"{path}/{saved_model.MANIFEST}").hex()
    except InputError:
        return None


def _files_in(path: str) -> _Files:
    found = {}
    for folder, _, names in files.gfile.walk(path):
        for place in (f"{folder}/{name}" for name in names):
            with contextlib.suppress(tf.errors.NotFoundError):  # it is being renamed or removed
                status = files.gfile.stat(place)
                found[place] = status.length, getattr(status, "mtime_nsec", 0)
    return found
