"""What a block of rows adds to a file that grows at its end."""

import tempfile
from collections.abc import Iterable
from typing import Any

import msgspec
import tensorflow as tf


def json_lines(values: Iterable[Any]) -> bytes:
    """Values as lines of JSON."""
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


def records(messages: Iterable[bytes]) -> bytes:
    """Messages as a part of a TFRecord file."""
    with tempfile.NamedTemporaryFile() as file:
        with tf.io.TFRecordWriter(file.name) as writer:
            for message in messages:
                writer.write(message)
        return file.read()
