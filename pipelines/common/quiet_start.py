"""Imports TensorFlow without what it prints at its start.

Its C++ parts say that there is no GPU, and which instructions they would like,
before any setting of log levels can reach them. If the import fails, all that
they said is shown.
"""

import os
import sys
import tempfile

from pipelines.common import stopping


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
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            import tensorflow as tf
            import tensorflow_text  # noqa: F401  (says it all once more)

            tf.config.list_physical_devices()  # looks for GPUs, and says so
        except BaseException:
            said.seek(0)
            os.write(stderr, said.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
