"""A tf.data service gives the same batches, in the same order."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.pretraining import data_service, example_reader
from pipelines.pretraining.data_service import DataService

pytestmark = pytest.mark.more

BATCHES = 11


@pytest.fixture(scope="module")
def address():
    """A dispatcher and two workers in this process."""
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    workers = [
        service.WorkerServer(
            service.WorkerConfig(
                dispatcher.target.removeprefix("grpc://"), heartbeat_interval_ms=50
            )
        )
        for _ in range(2)
    ]
    yield dispatcher.target
    for server in (*workers, dispatcher):
        server.stop()


def _read(examples, start=0, end=BATCHES, **options):
    batches = example_reader.training_batches(
        examples, 16, seed=3, start_batch=start, batches=end - start, **options
    )
    return list(batches.take((end - start) * options.get("replicas", 1)).as_numpy_iterator())


def _assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_service_gives_the_same_batches(tfrecords, address, workers, monkeypatch):
    monkeypatch.setattr(example_reader, "GROUP", 2)
    examples = example_reader.open_examples(tfrecords)
    service = DataService(address, workers)
    expected = _read(examples)
    _assert_same(_read(examples, service=service), expected)
    _assert_same(_read(examples, start=4, service=service), expected[4:])
    part = {"shard": (1, 2), "replicas": 2}
    _assert_same(_read(examples, service=service, **part), _read(examples, **part))


def test_batches_of_several_epochs_are_the_same(tfrecords, address):
    examples = example_reader.open_examples(tfrecords, held_out=True)
    end = 3 * examples.total // 16
    service = DataService(address, 2)
    _assert_same(_read(examples, end=end, service=service), _read(examples, end=end))


def test_examples_that_are_too_few_are_named(tfrecords, address, monkeypatch):
    monkeypatch.setattr(example_reader, "_MAX_FILES_READ", 2)
    examples = example_reader.open_examples(tfrecords, held_out=True)
    with pytest.raises(InputError, match="too often for --data_service"):
        _read(examples, end=100, service=DataService(address, 2))


@pytest.mark.parametrize(
    "wrong", ["localhost:80", "grpc://localhost", "grpc://:5000", "grpc://h:x"]
)
def test_what_is_no_address_is_named(wrong):
    with pytest.raises(InputError, match="it must be grpc://host:port"):
        DataService(wrong).check()


def test_a_dispatcher_may_have_an_address_of_ipv6(monkeypatch):
    asked = []
    monkeypatch.setattr(
        data_service.socket,
        "create_connection",
        lambda place, _: asked.append(place) or mock.Mock(),
    )
    DataService("grpc://[::1]:5000").check()
    assert asked == [("::1", 5000)]


def test_a_dispatcher_that_is_not_there_is_named(address):
    DataService(address).check()
    with pytest.raises(InputError, match="nothing answers there"):
        DataService("grpc://127.0.0.1:1").check()
