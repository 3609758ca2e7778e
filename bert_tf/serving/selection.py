"""Selects the engine and the number of threads for an export, by measuring them on this machine.

Neither is fastest everywhere: the cost of handing work to another thread, and what a processor
multiplies, differ between machines by more than engines do.
"""

import dataclasses
import hashlib
import itertools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.export import reading, saved_model
from bert_tf.serving.engines import registry
from bert_tf.serving.engines.base import Batch, Compute
from bert_tf.serving.engines.converted import ConvertedModels
from bert_tf.serving.engines.plan import AUTO, EngineName, ExecutionPlan, Precision
from bert_tf.serving.scheduler import Executable, Scheduler
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_FORMAT = 6  # of the kept plans, and of the measurement
_PACKAGES = ("tensorflow", "onnxruntime", "openvino", "ai-edge-litert")
_SLOW = (EngineName.LITERT,)  # slower than another engine on every machine measured so far
_TWO_THREAD_COUNTS = 1.1  # they hold the weights twice, so they must be faster by this factor
_LENGTHS = (8, 96, 24, 48, 128, 16, 64, 32)  # tokens; some engines prepare each new shape
_CLIENTS, _LONGEST = 16, 96  # clients that ask at once, for sequences of up to so many tokens
_SECONDS = 1.0  # of each measurement
_TIMEOUT = 300.0  # seconds of a measuring process


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Speed of an engine with a number of threads.

    Attributes:
      engine: that computed.
      precision: in which it multiplied.
      threads: of one computation.
      single: seconds for a sequence when one client asks.
      many: seconds for a sequence when many clients ask at once.
    """

    engine: EngineName
    precision: Precision
    threads: int
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
    """The plan for an export; where several are possible, the fastest as measured once.

    Args:
      path: of the export.
      engine: its name, or `AUTO`.
      threads: of one computation; None: the fastest of 1 and all cores.
      precision: to multiply in; None: that which the export was checked with.
      cache: folder for plans and converted models.
      tensorflow_threads: of this process, if TensorFlow runs in it already.

    Raises:
      InputError: the engine is unknown, the export was not checked in this precision, or no engine
        can compute it.
    """
    plans = candidates(path, engine, threads, precision, tensorflow_threads)
    if len(plans) == 1:
        return plans[0]
    kept = f"{cache}/plans/{_key(path, plans)}.json"
    if files.gfile.exists(kept):
        return ExecutionPlan.from_dict(json_files.read(kept, dict[str, Any])["plan"])
    print(
        f"{path}: measuring the engines on this machine, once; --engine=tensorflow starts without.",
        flush=True,
    )
    found = measure(path, plans, cache)
    if not found:
        raise InputError(f"{path}: {engine} cannot compute it here; the log has the reason.")
    plan = best(found)
    files.gfile.makedirs(f"{cache}/plans")
    measurements = [dataclasses.asdict(each) for each in found]
    json_files.write(kept, {"plan": dataclasses.asdict(plan), "measurements": measurements})
    return plan


def candidates(
    path: str,
    engine: str,
    threads: int | None,
    precision: Precision | None,
    tensorflow_threads: int | None = None,
) -> list[ExecutionPlan]:
    """The plans to choose from; arguments and errors are those of `choose`."""
    kept = saved_model.kept_precisions(path)

    def thread_counts(name: EngineName) -> list[int]:
        if name is EngineName.TENSORFLOW and tensorflow_threads:
            return [tensorflow_threads]
        return [threads] if threads else sorted({1, cores()})

    return [
        ExecutionPlan.of(name, count, _precision(name, kept, precision, path))
        for name in _engines(engine, kept, precision)
        for count in thread_counts(name)
    ]


def _engines(engine: str, kept: Mapping[str, str], precision: Precision | None) -> list[EngineName]:
    if engine != AUTO:
        try:
            return [EngineName(engine)]
        except ValueError as error:
            known = ", ".join((AUTO, *EngineName))
            raise InputError(f"engine {engine!r}: is unknown; use one of {known}.") from error
    installed = registry.installed()
    usual = [name for name in installed if name not in _SLOW]
    if precision in (None, Precision.FLOAT32):
        return usual
    checked = [name for name in installed if kept.get(name) == precision]
    return [name for name in checked if name in usual] or checked or usual


def _precision(
    engine: EngineName, kept: Mapping[str, str], precision: Precision | None, path: str
) -> Precision:
    checked = Precision(kept.get(engine, Precision.FLOAT32))
    if precision in (None, checked) or precision is Precision.FLOAT32:
        return precision or checked
    raise InputError(
        f"{path}: was not checked in {precision} with {engine}; export it with "
        f"--precision={precision}, which measures whether its scores are kept."
    )


def best(found: Sequence[Measurement]) -> ExecutionPlan:
    """The plan with the smallest worst ratio to the fastest, over single and many requests."""
    single = min(each.single for each in found)
    many = min(each.many for each in found)

    def cost(pair: tuple[Measurement, Measurement]) -> tuple[float, float]:
        alone, together = pair
        ratios = alone.single / single, together.many / many
        factor = 1.0 if alone.threads == together.threads else _TWO_THREAD_COUNTS
        return factor * max(ratios), sum(ratios)

    alone, together = min((p for p in itertools.product(found, found) if _fit(*p)), key=cost)
    return ExecutionPlan(together.engine, together.precision, together.threads, alone.threads)


def _fit(alone: Measurement, together: Measurement) -> bool:
    """Whether two measurements can be one plan: TensorFlow has one number of threads."""
    if alone.engine is not together.engine:
        return False
    return alone.engine is not EngineName.TENSORFLOW or alone.threads == together.threads


def measure(path: str, plans: Sequence[ExecutionPlan], cache: str) -> list[Measurement]:
    """Measures plans; an engine that fails is left out with a warning.

    Each engine has a process of its own: TensorFlow has one number of threads in a process, and
    memory that an engine keeps would disturb the next one.
    """
    found: list[Measurement] = []

    def process(plan: ExecutionPlan) -> tuple[str, int]:
        return plan.engine, plan.tensorflow_threads

    for _, group in itertools.groupby(plans, process):
        asked = [dataclasses.asdict(plan) for plan in group]
        command = [sys.executable, "-m", __name__, json.dumps([path, cache, asked])]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            reason = (error.stderr or str(error)).strip().splitlines()[-1]
            logging.warning("%s is left out: %s", asked[0]["engine"], reason)
            continue
        for values in json.loads(done.stdout.splitlines()[-1]):
            each = Measurement(
                EngineName(values.pop("engine")), Precision(values.pop("precision")), **values
            )
            found.append(each)
            logging.info(
                "%s, %d threads: single %.1f ms, many %.0f/s",
                *(each.engine, each.threads, 1000 * each.single, 1 / each.many),
            )
    return found


def _measured(path: str, plan: ExecutionPlan, cache: str) -> Measurement:
    """Measures a plan in this process, on the first computation of the export."""
    engine = registry.make(plan.engine, ConvertedModels(path, cache), plan.precision, plan.threads)
    model = reading.assembly(path, engine.dtype).models[0]
    computation = model.signatures[0].computation
    compute = engine.load(f"0_{computation.name}", computation)
    longest = model.source.bundle.config.max_length
    executable = Executable(computation.outputs, compute, compute)
    return Measurement(
        plan.engine,
        plan.precision,
        plan.threads,
        _seconds_single(compute, longest),
        _seconds_many(executable, plan, longest),
    )


def _batch(length: int) -> Batch:
    ids = np.arange(length, dtype=np.int32)[np.newaxis] % 5
    return Batch(ids, np.ones_like(ids), np.zeros_like(ids))


def _seconds_single(compute: Compute, longest: int) -> float:
    """Seconds for a sequence, when lengths change from request to request."""
    batches = [_batch(length) for length in _LENGTHS if length <= longest] or [_batch(longest)]
    for batch in batches:
        compute(batch)  # the first call may prepare something
    times: list[list[float]] = [[] for _ in batches]
    end = time.perf_counter() + _SECONDS
    while not times[-1] or time.perf_counter() < end:
        for batch, taken in zip(batches, times, strict=True):
            begin = time.perf_counter()
            compute(batch)
            taken.append(time.perf_counter() - begin)
    # Other programs slow some calls down; nothing speeds one up.
    return float(np.mean([np.quantile(taken, 0.25) for taken in times]))


def _seconds_many(executable: Executable, plan: ExecutionPlan, longest: int) -> float:
    """Seconds for a sequence, when many clients ask for one after the other."""
    scheduler = Scheduler(max(1, cores() // plan.threads), batches=plan.batches)
    lengths = np.random.default_rng(0).integers(
        min(8, longest), min(_LONGEST, longest) + 1, (_CLIENTS, 64)
    )
    begin = time.perf_counter()

    def ask(wanted: list[int]) -> int:
        for count, length in enumerate(itertools.cycle(wanted)):
            if count and time.perf_counter() - begin > _SECONDS:
                return count
            scheduler.submit(executable, _batch(length)).result()
        raise AssertionError

    with ThreadPoolExecutor(_CLIENTS) as pool:
        answered = sum(pool.map(ask, lengths.tolist()))
    taken = time.perf_counter() - begin
    scheduler.close()
    return taken / answered


def _key(path: str, plans: Sequence[ExecutionPlan]) -> str:
    """Checksum of the models' sizes, the machine, the packages, and the plans to choose from."""
    manifest: Any = saved_model.read_manifest(path)
    values: dict[str, Any] = {
        "format": _FORMAT,
        "models": [[model["config"], model["tasks"]] for model in manifest["models"]],
        "precision": manifest["precision"],
        "plans": [dataclasses.asdict(plan) for plan in plans],
        "machine": [_processor(), cores()],
        "packages": [_version(name) for name in _PACKAGES],
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _processor() -> str:
    """The processor's name and instruction sets."""
    try:
        with files.gfile.GFile("/proc/cpuinfo") as file:
            lines = file.read().splitlines()
    except tf.errors.OpError:
        return platform.processor() or platform.machine()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _main(path: str, cache: str, asked: Sequence[dict[str, Any]]) -> None:
    plans = [ExecutionPlan.from_dict(values) for values in asked]
    tf.config.threading.set_intra_op_parallelism_threads(plans[0].tensorflow_threads)
    found = [dataclasses.asdict(_measured(path, plan, cache)) for plan in plans]
    print(json.dumps(found))


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))
