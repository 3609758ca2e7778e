"""Imports TensorFlow without what it prints at its start.

Its C++ parts say that there is no GPU, and which instructions they would like,
before any setting of log levels can reach them. If the import fails, or a GPU
that is there is not used, all that they said is shown.
"""

import contextlib
import functools
import glob
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

from pipelines.common import stopping

_GPUS = "/dev/nvidia[0-9]*"
_NO_DRIVER = b"failed call to cuInit"


def import_tensorflow() -> None:
    """Imports TensorFlow for a command: a signal meanwhile ends it with its usual message."""
    stderr = os.dup(2)
    stopping.end_at_once(stderr)
    try:
        import_silently()
    finally:
        stopping.end_at_once()
        os.close(stderr)


def import_silently() -> None:
    """Imports TensorFlow and its text operations, and looks for devices."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    used: list[object] = []
    with _held_back(lambda said: said if _has_gpu() and not used else b""):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (says it all once more)

        used += tf.config.list_physical_devices("GPU")


@functools.cache
def look_for_devices() -> None:
    """Makes TensorFlow look for GPUs; where there are none, it does not report that as an error.

    For programs that use this package: what else they or TensorFlow print stays.
    """
    if _has_gpu():
        return
    import tensorflow as tf

    with _held_back(_without_cuda_error):
        tf.config.list_physical_devices()


def _has_gpu() -> bool:
    """Whether this process may use a GPU of this machine, if TensorFlow can."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and bool(glob.glob(_GPUS))


def _without_cuda_error(said: bytes) -> bytes:
    lines = said.splitlines(keepends=True)
    return b"".join(line for line in lines if _NO_DRIVER not in line)


@contextlib.contextmanager
def _held_back(shown: Callable[[bytes], bytes]) -> Iterator[None]:
    """Keeps what is written to stderr within it, and writes in the end what is to be shown of it.

    An error shows all.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        chosen = shown
        try:
            yield
        except BaseException:
            chosen = bytes
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            os.write(2, chosen(file.read()))
