"""Selects the engine and the number of threads for an export, by measuring them on this machine.

No engine is the fastest everywhere: the cost of handing work to another thread, and the speed of
multiplication, differ more between machines than between engines.
"""

import dataclasses
import hashlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import tasks
from bert_tf.export import reading, saved_model
from bert_tf.models import configs
from bert_tf.serving import engines
from bert_tf.serving.engines import Batch, ConvertedModels
from bert_tf.serving.plan import AUTO, EngineName, ExecutionPlan, Precision
from bert_tf.serving.scheduler import Executable, Scheduler
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_FORMAT = 9  # of the cached plans, and of the measurement
_SLOW = (EngineName.LITERT,)  # slower than another engine on every machine measured so far
_TWO_THREAD_COUNTS = 1.1  # they hold the weights twice, so they must be faster by this factor
_LENGTHS = (8, 96, 24, 48, 128, 16, 64, 32)  # tokens
_CLIENTS = 16  # concurrent clients
_RUNS, _SECONDS = 2, 0.6  # number and length of the runs of each measurement
_TIMEOUT = 300.0  # seconds of a measuring process


class Measurement(NamedTuple):
    """Seconds per sequence of a plan, with a single client and with many concurrent ones."""

    plan: ExecutionPlan
    single: float
    many: float


def choose(
    path: str,
    engine: str,
    threads: int | None,
    precision: Precision | None,
    cache: str,
    tensorflow_threads: int | None = None,
) -> ExecutionPlan:
    """The plan for an export; for the engine `AUTO` the fastest one, which is measured once.

    Args:
      path: of the export.
      engine: its name, or `AUTO`.
      threads: of one computation; None: all cores; for `AUTO`, the faster of 1 and all cores.
      precision: in which to multiply; None: that in which the export was checked.
      cache: folder for plans and converted models.
      tensorflow_threads: of this process, if TensorFlow runs in it already.

    Raises:
      InputError: the engine is unknown or cannot compute the export, the export was not checked in
        this precision, or no engine can compute it.
    """
    models: Any = saved_model.read_manifest(path)["models"]
    if not all(configs.of_dict(model["config"], path).portable for model in models):
        if engine not in (AUTO, EngineName.TENSORFLOW):
            raise InputError(f"{path}: only TensorFlow can compute it; leave --engine out.")
        engine = EngineName.TENSORFLOW
    if engine == AUTO and all(map(_writes_only, models)):
        engine = EngineName.TENSORFLOW
    plans = candidates(path, engine, threads, precision, tensorflow_threads)
    return plans[0] if len(plans) == 1 else fastest(path, plans, cache)


def candidates(
    path: str,
    engine: str,
    threads: int | None,
    precision: Precision | None,
    tensorflow_threads: int | None = None,
) -> list[ExecutionPlan]:
    """The plans to choose from; arguments and errors are those of `choose`."""
    auto, here = engine == AUTO, tensorflow_threads
    plans = []
    for name, kind in precisions(path, engine, precision).items():
        counts = {threads or here or cores()}
        if auto and not threads and not (here and name is EngineName.TENSORFLOW):
            counts = {1, cores()}
        plans += [ExecutionPlan(name, number, kind) for number in sorted(counts)]
    return plans


def precisions(path: str, engine: str, wanted: Precision | None) -> dict[EngineName, Precision]:
    """The precision of an export by engine: of the named one, or for `AUTO`, of all to measure.

    Args:
      path: of the export.
      engine: its name, or `AUTO`.
      wanted: precision in which to multiply; None: that in which the export was checked.

    Raises:
      InputError: the engine is unknown, or the export was not checked in this precision.
    """
    if engine not in (AUTO, *EngineName):
        known = ", ".join((AUTO, *EngineName))
        raise InputError(f"engine {engine!r}: is unknown; use one of {known}.")
    kept = saved_model.kept_precisions(path)
    found = {}
    for name in engines.installed() if engine == AUTO else [EngineName(engine)]:
        checked = Precision(kept.get(name, Precision.FLOAT32))
        if wanted in (None, checked, Precision.FLOAT32):
            found[name] = wanted or checked
    if not found:
        raise InputError(
            f"{path}: was not checked in {wanted} with {engine}; export it with "
            f"--precision={wanted}, which measures whether its scores are kept."
        )
    usual = {name: kind for name, kind in found.items() if name not in _SLOW}
    return usual if engine == AUTO and usual else found


def _writes_only(model: Any) -> bool:
    """Whether a model has nothing but tasks that write texts, which TensorFlow computes."""
    return bool(model["tasks"]) and all(tasks.load(task).generation for task in model["tasks"])


def fastest(path: str, plans: Sequence[ExecutionPlan], cache: str) -> ExecutionPlan:
    """The fastest of several plans for an export, measured once; see `choose` for the arguments.

    Raises:
      InputError: all of them failed.
    """
    kept = f"{cache}/plans/{_key(path, plans)}.json"
    if files.gfile.exists(kept):
        return msgspec.convert(json_files.read(kept, dict[str, Any]), ExecutionPlan)
    print(f"{path}: measuring the engines, once; --engine=tensorflow skips this.", flush=True)
    found = measure(path, plans, cache)
    if not found:
        names = ", ".join(sorted({plan.engine for plan in plans}))
        raise InputError(f"{path}: {names} cannot compute it here; the log has the reason.")
    plan = best(found)
    json_files.write(kept, dataclasses.asdict(plan), True)
    return plan


def best(found: Sequence[Measurement]) -> ExecutionPlan:
    """The plan with the smallest worst ratio to the fastest, over single and many requests."""
    single = min(each.single for each in found)
    many = min(each.many for each in found)

    def cost(pair: tuple[Measurement, Measurement]) -> tuple[float, float]:
        alone, together = pair
        ratios = alone.single / single, together.many / many
        factor = 1.0 if alone.plan == together.plan else _TWO_THREAD_COUNTS
        return factor * max(ratios), sum(ratios)

    def fits(alone: ExecutionPlan, together: ExecutionPlan) -> bool:
        """Whether both can be one plan: TensorFlow has one number of threads."""
        same_engine = alone.engine is together.engine
        return alone == together or (same_engine and alone.engine is not EngineName.TENSORFLOW)

    pairs = ((a, b) for a, b in itertools.product(found, found) if fits(a.plan, b.plan))
    alone, together = (each.plan for each in min(pairs, key=cost))
    if alone == together:
        return together
    return dataclasses.replace(together, single_threads=alone.threads)


def measure(path: str, plans: Sequence[ExecutionPlan], cache: str) -> list[Measurement]:
    """Measures plans; an engine that fails is left out with a warning.

    Each engine has its own process: TensorFlow has one number of threads in a process, and memory
    that an engine keeps would disturb the next one.
    """
    found: list[Measurement] = []
    for _, group in itertools.groupby(plans, lambda plan: (plan.engine, plan.tensorflow_threads)):
        asked = list(group)
        task = json.dumps([path, cache, [dataclasses.asdict(plan) for plan in asked]])
        command = [sys.executable, "-m", __name__, task]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT, check=True
            )
        except subprocess.TimeoutExpired:
            reason = f"it takes longer than {_TIMEOUT:g} s"
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip() or str(error)).splitlines()[-1]
        else:
            measured = json.loads(done.stdout.splitlines()[-1])
            found += [Measurement(p, *seconds) for p, seconds in zip(asked, measured, strict=True)]
            continue
        logging.warning("%s is left out: %s", asked[0].engine, reason)
    for plan, single, many in found:
        logging.info("%s: single %.1f ms, many %.0f/s", plan, 1000 * single, 1 / many)
    return found


def _measure_here(
    path: str, cache: str, plans: Sequence[ExecutionPlan]
) -> list[tuple[float, float]]:
    """Seconds of plans of one engine in this process, with the first computation of the export."""
    models = ConvertedModels(path, cache)
    loaders = [engines.ENGINES[plan.engine](models, plan.precision, plan.threads) for plan in plans]
    number, model, computation = next(
        (number, model, signature.computation)
        for number, model in enumerate(reading.assembly(path, loaders[0].dtype).models)
        for signature in model.signatures
        if signature.computation.portable
    )
    longest = model.source.bundle.config.max_length
    batches = [_batch(min(length, longest)) for length in _LENGTHS]
    found = []
    for plan, loader in zip(plans, loaders, strict=True):
        name = f"{number}_{computation.name}"
        compute = loader.load(name, computation)
        if plan.engine is not EngineName.TENSORFLOW:
            loader.difference(name, compute, computation, model.source.bundle.config)
        executable = Executable(computation.outputs, compute, compute)
        found.append(_measure_plan(plan, executable, batches))
    return found


def _measure_plan(
    plan: ExecutionPlan, executable: Executable, batches: Sequence[Batch]
) -> tuple[float, float]:
    """Seconds per sequence with a single client, and with many."""
    for batch in batches:
        executable.compute(batch)  # the first call may prepare something
    scheduler = Scheduler(max(1, cores() // plan.threads), batches=plan.batches)

    def seconds(clients: int) -> float:
        """Seconds per sequence, with clients that each wait for their answers."""
        begin = time.perf_counter()

        def ask(client: int) -> int:
            for count in itertools.count(client):
                scheduler.submit(executable, batches[count % len(batches)]).result()
                if time.perf_counter() - begin > _SECONDS:
                    return 1 + count - client
            raise AssertionError

        with ThreadPoolExecutor(clients) as pool:
            answered = sum(pool.map(ask, range(clients)))
        return (time.perf_counter() - begin) / answered

    # Other programs slow some runs down; nothing speeds one up.
    found = tuple(min(seconds(clients) for _ in range(_RUNS)) for clients in (1, _CLIENTS))
    scheduler.close()
    return found[0], found[1]


def _batch(length: int) -> Batch:
    ids = np.arange(length, dtype=np.int32)[np.newaxis] % 5
    return Batch(ids, np.ones_like(ids), np.zeros_like(ids))


def _key(path: str, plans: Sequence[ExecutionPlan]) -> str:
    """Checksum of the models' sizes, the machine, the packages, and the plans to choose from."""
    manifest: Any = saved_model.read_manifest(path)
    values = {
        "format": _FORMAT,
        "models": [[model["config"], model["tasks"]] for model in manifest["models"]],
        "plans": [dataclasses.asdict(plan) for plan in plans],
        "machine": [*engines.environment(), cores()],
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


if __name__ == "__main__":
    _path, _cache, _asked = json.loads(sys.argv[1])
    _plans = msgspec.convert(_asked, list[ExecutionPlan])
    tf.config.threading.set_intra_op_parallelism_threads(_plans[0].tensorflow_threads)
    print(json.dumps(_measure_here(_path, _cache, _plans)))
