"""What TensorFlow logs while models are written and loaded."""

import contextlib
from collections.abc import Iterator

from absl import logging


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without its notes on every name it changes, and on functions that it deprecates."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)
