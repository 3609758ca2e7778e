"""What TensorFlow logs while models are written and loaded."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from absl import logging


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without its notes on every name it changes, and on functions that it deprecates."""
    logger = tf.get_logger()
    before = logging.get_verbosity(), logger.level
    logging.set_verbosity(logging.ERROR)
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logging.set_verbosity(before[0])
        logger.setLevel(before[1])
