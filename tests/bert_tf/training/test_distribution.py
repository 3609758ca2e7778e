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
    """Losses on one device, by optimizer."""
    running = {name: _start(tfrecords, f"--optimizer={name}") for name in ("adamw", "lamb")}
    return {name: _result(process)["losses"] for name, process in running.items()}


@pytest.mark.parametrize(
    ("compilation", "optimizer"), [("step", "adamw"), ("fused", "adamw"), ("fused", "lamb")]
)
def test_two_mirrored_devices_give_the_curve_of_one(tfrecords, one_device, compilation, optimizer):
    flags = ("--devices=2", f"--compilation={compilation}", f"--optimizer={optimizer}")
    two = _result(_start(tfrecords, *flags))
    assert two["replicas"] == 2
    assert two["losses"] == pytest.approx(one_device[optimizer], rel=2e-4)
    assert two["losses"][-1] < two["losses"][0]


def test_two_workers_give_the_curve_of_one(tfrecords, one_device):
    flags = ("--strategy=multi_worker", "--steps_per_call=4")
    processes = [_start(tfrecords, *flags, TF_CONFIG=worker) for worker in cluster_of(2)]
    for result in map(_result, processes):
        assert result["replicas"] == 2
        assert result["losses"] == pytest.approx(one_device["adamw"], rel=2e-4)


@pytest.mark.parametrize("compilation", ["step", "fused"])
def test_several_steps_in_a_call_are_those_of_one_by_one(tfrecords, compilation):
    flags = ("--devices=2", f"--compilation={compilation}")
    one, four = (_start(tfrecords, *flags, f"--steps_per_call={count}") for count in (1, 4))
    assert _result(four) == _result(one)


def test_what_is_not_there_is_named(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="multi_worker needs TF_CONFIG"):
        make_strategy(StrategyName.MULTI_WORKER)
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(InputError, match="TF_CONFIG: is not JSON"):
        make_strategy(StrategyName.AUTO)
