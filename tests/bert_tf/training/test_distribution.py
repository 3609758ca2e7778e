"""Strategies: the same curve on one device, two devices and two workers."""

import json

import pytest

from bert_tf.training.distribution import StrategyName, make_strategy
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.helpers import cluster_of


def _start(*arguments, **environment):
    return commands.Running("tests.bert_tf.training.replicas", *arguments, env=environment)


def _result(process):
    done = process.wait()
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def one_device(tfrecords):
    """Losses on one device."""
    return _result(_start(1, "step", tfrecords))["losses"]


@pytest.mark.parametrize("compilation", ["step", "fused"])
def test_two_mirrored_devices_give_the_curve_of_one(tfrecords, one_device, compilation):
    two = _result(_start(2, compilation, tfrecords))
    assert two["replicas"] == 2
    assert two["losses"] == pytest.approx(one_device, rel=2e-4)
    assert one_device[-1] < one_device[0]


def test_two_workers_give_the_curve_of_one(tfrecords, one_device):
    processes = [
        _start(1, "step", tfrecords, "multi_worker", TF_CONFIG=worker) for worker in cluster_of(2)
    ]
    for result in map(_result, processes):
        assert result["replicas"] == 2
        assert result["losses"] == pytest.approx(one_device, rel=2e-4)


def test_what_is_not_there_is_named(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="multi_worker needs TF_CONFIG"):
        make_strategy(StrategyName.MULTI_WORKER)
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(InputError, match="TF_CONFIG: is not JSON"):
        make_strategy(StrategyName.AUTO)
