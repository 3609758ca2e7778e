"""Reads batches by the workers of a tf.data service, in the same order as without it.

A service shares a dataset among its workers first come, first served, so the order varies. Here, a
stream of batches is cut into parts, one per worker: part p of n has the batches p, p + n, p + 2n
and so on. Each part is a dataset of one element until the graph turns it into batches, so the
service gives the whole part to one worker. The parts are then interleaved.
"""

import dataclasses
import socket
from collections.abc import Callable

import tensorflow as tf

from pipelines.common.errors import InputError

_PROTOCOL = "grpc://"
_SECONDS = 10.0  # to connect


@dataclasses.dataclass(frozen=True)
class DataService:
    """A tf.data service: the address of its dispatcher, and how many workers read at a time."""

    address: str
    workers: int = 1

    def check(self) -> None:
        """Raises InputError unless something answers at the address; TensorFlow would wait."""
        host, _, port = self.address.removeprefix(_PROTOCOL).rpartition(":")
        if not (self.address.startswith(_PROTOCOL) and host and port.isdecimal()):
            raise InputError(f"--data_service={self.address}: it must be grpc://host:port.")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
        except (OSError, OverflowError) as error:
            raise InputError(
                f"--data_service={self.address}: nothing answers there ({error}); start the "
                "dispatcher first."
            ) from error

    def distribute(self, part: Callable[[tf.Tensor, int], tf.data.Dataset]) -> tf.data.Dataset:
        """Interleaves the parts of a stream, each read by a worker.

        `part` returns a part in TensorFlow operations, given its number (int64 scalar) and the
        number of parts.
        """
        service = tf.data.experimental.service
        parts = [
            tf.data.Dataset.from_tensors(tf.constant(number, tf.int64))
            .flat_map(lambda index: part(index, self.workers))
            .apply(
                service.distribute(
                    processing_mode=service.ShardingPolicy.DYNAMIC, service=self.address
                )
            )
            for number in range(self.workers)
        ]
        turns = tf.data.Dataset.range(self.workers).repeat()
        return tf.data.Dataset.choose_from_datasets(parts, turns, stop_on_empty_dataset=True)
