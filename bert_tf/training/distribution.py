"""Devices: distribution strategies, agreement between workers, and what XLA compiles."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import numpy as np
import tensorflow as tf

from bert_tf.training.settings import Compilation, StrategyName
from pipelines.common import json_files, machine
from pipelines.common.errors import InputError
from pipelines.common.texts import counted


class _Task(TypedDict):
    """The worker of a cluster that this process is."""

    type: str
    index: int


class _TfConfig(TypedDict):
    """The parts of TF_CONFIG that are read here."""

    cluster: NotRequired[dict[str, list[str]]]
    task: NotRequired[_Task]


def make_strategy(name: StrategyName) -> tf.distribute.Strategy:
    """Makes a strategy by name, and prepares this process for training.

    Freed memory is kept, and one more op than there are cores runs at a time.

    On a CPU, an op that XLA compiled waits in TensorFlow's threads while it is computed in XLA's:
    with one more, the others go on (5 % of a step of six layers on two cores; two more: less).

    Raises:
      InputError: the machines or devices that it needs are missing.
    """
    machine.keep_freed_memory()
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(machine.cores() + 1))
    if name is StrategyName.AUTO:
        name = _available_strategy()
    if name is StrategyName.TPU:
        return _tpu_strategy()
    if name is StrategyName.MULTI_WORKER:
        if not in_cluster():
            raise InputError(
                "multi_worker needs TF_CONFIG with a cluster of two workers or more; see "
                "https://www.tensorflow.org/guide/distributed_training."
            )
        _check_task(_tf_config())
        return tf.distribute.MultiWorkerMirroredStrategy()
    gpus = tf.config.list_logical_devices("GPU")
    devices = [device.name for device in gpus or tf.config.list_logical_devices("CPU")]
    if name is StrategyName.ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy(devices[0])
    return tf.distribute.MirroredStrategy(devices)


def _available_strategy() -> StrategyName:
    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return StrategyName.TPU
    if in_cluster():
        return StrategyName.MULTI_WORKER
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return StrategyName.MIRRORED
    return StrategyName.ONE_DEVICE


def _tf_config() -> _TfConfig:
    text = os.environ.get("TF_CONFIG") or "{}"
    return json_files.check(json_files.parse(text, "TF_CONFIG"), _TfConfig, "TF_CONFIG")


def _check_task(config: _TfConfig) -> None:
    """Raises InputError unless "task" names a worker of the cluster."""
    task, cluster = config.get("task"), config.get("cluster", {})
    if task is None or task["index"] not in range(len(cluster.get(task["type"], ()))):
        known = ", ".join(f"{name} 0 to {len(places) - 1}" for name, places in cluster.items())
        raise InputError(
            f'TF_CONFIG: "task" must name this machine of "cluster" by "type" and "index": {known}.'
        )


def _worker_count() -> int:
    cluster = _tf_config().get("cluster", {})
    return len(cluster.get("worker", ())) + len(cluster.get("chief", ()))


def _tpu_strategy() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(
            os.environ.get("TPU_NAME", "local")
        )
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(f"no TPU can be reached ({error}); set TPU_NAME.") from error
    return tf.distribute.TPUStrategy(resolver)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes checkpoints and reports."""
    return strategy.extended.should_checkpoint


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether other processes take part."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def worker_count(strategy: tf.distribute.Strategy) -> int:
    """The number of machines that train together."""
    return _worker_count() if has_several_workers(strategy) else 1


def in_cluster() -> bool:
    """Whether TF_CONFIG names other workers."""
    return _worker_count() > 1


def check_batch(batch_size: int, accumulation: int, strategy: tf.distribute.Strategy) -> None:
    """Raises InputError unless a batch can be split evenly into all replicas and parts."""
    parts = strategy.num_replicas_in_sync * accumulation
    if batch_size % parts:
        raise InputError(
            f"a batch of {batch_size} cannot be split into {parts} equal parts "
            f"({counted(strategy.num_replicas_in_sync, 'device')}, "
            f"--accumulation={accumulation}); choose a multiple."
        )


def run_and_sum(
    strategy: tf.distribute.Strategy, function: Callable[..., Any], *arguments: Any
) -> Any:
    """Runs a function on every replica and sums its results.

    Args:
      strategy: the replicas.
      function: returns a scalar, or scalars by name.
      *arguments: distributed values, or one value for all replicas.
    """
    values = strategy.run(function, args=arguments)
    return tf.nest.map_structure(lambda value: strategy.reduce("SUM", value, axis=None), values)


def make_agreement(strategy: tf.distribute.Strategy) -> Callable[[bool], bool]:
    """A function that returns whether its argument is true on any worker; `bool` for one worker."""
    if not has_several_workers(strategy):
        return bool

    @tf.function
    def total(flag: tf.Tensor) -> tf.Tensor:
        return run_and_sum(strategy, lambda: flag)

    return lambda flag: float(total(tf.constant(float(flag)))) > 0


def meet(strategy: tf.distribute.Strategy) -> None:
    """Waits for all workers, so that none has ended while another one needs it."""
    make_agreement(strategy)(True)
    _second_barrier(strategy)


def _second_barrier(strategy: tf.distribute.Strategy) -> None:
    """Keeps each worker alive until all have received the sum before, which is sent by each.

    It fails in those that still wait for one that has ended after it; that makes no difference.
    """
    with contextlib.suppress(tf.errors.OpError):
        make_agreement(strategy)(True)


def check_same(strategy: tf.distribute.Strategy, values: Any, what: str) -> None:
    """Raises InputError on all workers unless they all have the same values.

    Args:
      strategy: the workers.
      values: JSON values of this worker.
      what: a description of the values, and the remedy.
    """
    if not has_several_workers(strategy):
        return

    @tf.function
    def total(digest: tf.Tensor) -> tf.Tensor:
        return run_and_sum(strategy, lambda: digest)

    text = json.dumps(values, sort_keys=True)
    digits = [int(digit, 16) for digit in hashlib.sha256(text.encode()).hexdigest()]
    # Checksums that differ are not their own mean in all of 64 digits.
    sums = total(tf.constant(digits, tf.float32)).numpy()
    if (sums != np.multiply(digits, strategy.num_replicas_in_sync)).any():
        _second_barrier(strategy)
        raise InputError(f"the workers differ in {what}")


def mean_of_workers(strategy: tf.distribute.Strategy, value: float) -> float:
    """The mean of the values of all workers."""
    if not has_several_workers(strategy):
        return value
    total = tf.function(lambda mine: run_and_sum(strategy, lambda: mine))
    return float(total(tf.constant(value, tf.float32))) / strategy.num_replicas_in_sync


def resolve_compilation(choice: Compilation, strategy: tf.distribute.Strategy) -> Compilation:
    """Resolves AUTO to what suits the devices of a strategy."""
    if choice is not Compilation.AUTO:
        return choice
    on_cpu = all("CPU" in device for device in strategy.extended.worker_devices)
    return Compilation.FUSED if on_cpu else Compilation.STEP
