"""Strategies: the same curve on one device, two devices and two workers."""

import json
import os
import subprocess
import sys

import pytest

from bert_tf.distribution import StrategyName, make_strategy
from pipelines.errors import InputError
from tests.bert_tf.helpers import cluster_of


def _start(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bert_tf.replicas", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment,
    )  # fmt: skip


def _result(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.strip().splitlines()[-1])


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
    with pytest.raises(InputError, match="TF_CONFIG is not JSON"):
        make_strategy(StrategyName.AUTO)
