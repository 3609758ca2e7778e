"""Strategies: the same curve on one device, on two, and on two and four workers."""

import functools
import json

import pytest

from bert_tf.training.distribution import StrategyName, make_strategy
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.helpers import cluster_of

pytestmark = pytest.mark.more


def _start(*arguments, **environment):
    return commands.Running("tests.bert_tf.training.replicas", *arguments, env=environment)


def _result(process):
    done = process.wait()
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


# Of sums that are taken in another order. With bfloat16, products of other shapes are rounded
# otherwise, too.
RELATIVE = {"float32": 1e-5, "mixed_bfloat16": 2e-3}
# Of workers, which share out the rows of a batch otherwise than devices do: with AMX, the losses of
# the second and third step differ by 6e-5 and 2e-4, and that of the fourth by 6e-3.
OF_WORKERS = {"float32": 1e-5, "mixed_bfloat16": 1e-2}


@pytest.fixture(scope="module")
def one_device(tfrecords):
    """Gives the losses on one device at the same global batch for an optimizer and a precision."""

    @functools.cache
    def losses(optimizer, precision):
        flags = (f"--optimizer={optimizer}", f"--precision={precision}")
        return _result(_start(tfrecords, *flags))["losses"]

    return losses


def _check(result, replicas, one_device, optimizer, precision, relative=RELATIVE):
    """Checks that replicas have the curve of one device, and that it is one of learning."""
    expected = one_device(optimizer, precision)
    assert result["replicas"] == replicas
    assert result["losses"] == pytest.approx(expected, rel=relative[precision])
    assert min(expected) < 0.9 * expected[0]


@pytest.mark.parametrize(
    ("optimizer", "precision", "how"),
    [
        pytest.param("adamw", "float32", ["--compilation=step"], marks=pytest.mark.slow),
        pytest.param("adamw", "float32", ["--compilation=off"], marks=pytest.mark.slow),
        ("adamw", "float32", ["--compilation=step", "--accumulation=2", "--steps_per_call=4"]),
        pytest.param("lamb", "float32", ["--compilation=fused"], marks=pytest.mark.slow),
        pytest.param("muon", "float32", ["--compilation=step"], marks=pytest.mark.slow),
        pytest.param("adamw", "mixed_bfloat16", ["--compilation=step"], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_two_mirrored_devices_give_the_curve_of_one(
    tfrecords, one_device, optimizer, precision, how
):
    flags = ("--devices=2", f"--optimizer={optimizer}", f"--precision={precision}", *how)
    _check(_result(_start(tfrecords, *flags)), 2, one_device, optimizer, precision)


def _workers(count, tfrecords, *flags):
    """What each worker of a cluster finds."""
    workers = [
        _start(tfrecords, "--strategy=multi_worker", *flags, TF_CONFIG=worker)
        for worker in cluster_of(count)
    ]
    return list(map(_result, workers))


@pytest.mark.parametrize(
    ("count", "precision", "how"),
    [
        pytest.param(2, "float32", ["--compilation=fused"], marks=pytest.mark.slow),
        (2, "float32", ["--compilation=step", "--accumulation=2", "--steps_per_call=4"]),
        pytest.param(2, "mixed_bfloat16", ["--compilation=step"], marks=pytest.mark.slow),
        pytest.param(4, "float32", ["--compilation=step"], marks=pytest.mark.slow),
        pytest.param(
            *(4, "float32", ["--compilation=fused", "--accumulation=2", "--steps_per_call=4"]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_workers_give_the_curve_of_one_device(tfrecords, one_device, count, precision, how):
    first, *others = _workers(count, tfrecords, f"--precision={precision}", *how)
    _check(first, count, one_device, "adamw", precision, OF_WORKERS)
    assert all(other == first for other in others)  # the weights are the same bits on all


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "task",
    [
        None,
        {"type": "worker", "index": 2},
        {"type": "worker", "index": -1},
        {"type": "helper", "index": 0},
    ],
    ids=str,
)
def test_a_machine_that_is_not_in_its_cluster_is_told_so(monkeypatch, task):
    config = {"cluster": {"worker": ["a:1", "b:1"]}} | ({"task": task} if task else {})
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(InputError, match='TF_CONFIG: "task" must name .*: worker 0 to 1'):
        make_strategy(StrategyName.AUTO)


def test_an_index_that_is_no_number_is_told(monkeypatch):
    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "first"}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(InputError, match="TF_CONFIG: .*index"):
        make_strategy(StrategyName.AUTO)
