"""Imports TensorFlow without the messages that it prints at its start.

Its C++ code reports missing GPUs and possible instruction sets before any log level takes effect.
These messages are shown only if the import fails or ends the process, or if an existing GPU is not
used.
"""

import contextlib
import functools
import glob
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator

from pipelines.common import stopping

_GPUS = "/dev/nvidia[0-9]*"
_NO_DRIVER = b"failed call to cuInit"
_NEWS = re.compile(rb"(?:I[0-9]{4} |WARNING: All log messages before|To enable the following)")
_TRITON = "xla_gpu_enable_triton_gemm"


def import_tensorflow() -> None:
    """Imports TensorFlow for a command; a signal ends the process with its usual message."""
    stderr = os.dup(2)
    stopping.end_at_once(stderr)
    try:
        import_silently()
    finally:
        stopping.end_at_once()
        os.close(stderr)


def import_silently() -> None:
    """Imports TensorFlow and TensorFlow Text, and initializes the devices."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    _leave_products_to_cublas()
    used: list[object] = []
    with (
        _stderr_filtered(lambda text: text if _has_gpu() and not used else b"") as descriptors,
        _shown_after_abort(*descriptors),
    ):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (prints them again)

        used += tf.config.list_physical_devices("GPU")


def _leave_products_to_cublas() -> None:
    """Keeps XLA from trying kernels of its own for each matrix product, unless the user wants it.

    On an H100, a step of BERT-Base then compiles in a third of the time, and is no slower
    (docs/guides/speed.md).
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _has_gpu() and _TRITON not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_TRITON}=false".strip()


@functools.cache
def look_for_devices() -> None:
    """Initializes the devices; if there are no GPUs, TensorFlow does not report an error.

    For programs that import TensorFlow before this package: all other output is unchanged.
    """
    if _has_gpu():
        return
    import tensorflow as tf

    with _stderr_filtered(_without_cuda_error):
        tf.config.list_physical_devices()


def _has_gpu() -> bool:
    """Whether the machine has a GPU that this process may use."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and bool(glob.glob(_GPUS))


def _without_cuda_error(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if _NO_DRIVER not in line)


@contextlib.contextmanager
def _shown_after_abort(delayed: int, stderr: int) -> Iterator[None]:
    """Shows delayed output if the process ends in the block: C++ code says why it aborts."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:  # reads nothing if the process ended, which closes the pipe, before it wrote
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(writer)
        if not os.read(reader, 1):
            text = _without_cuda_error(os.pread(delayed, os.fstat(delayed).st_size, 0))
            lines = text.splitlines(keepends=True)
            os.write(stderr, b"".join(line for line in lines if not _NEWS.match(line)))
        os._exit(0)
    os.close(reader)
    try:
        yield
    finally:
        os.write(writer, b".")
        os.close(writer)
        os.waitpid(child, 0)


@contextlib.contextmanager
def _stderr_filtered(shown: Callable[[bytes], bytes]) -> Iterator[tuple[int, int]]:
    """Delays output to stderr until the end of the block, and filters it unless the block fails.

    Yields descriptors of the delayed output and of stderr.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        chosen = shown
        try:
            yield file.fileno(), stderr
        except BaseException:
            chosen = bytes
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            os.write(2, chosen(file.read()))
