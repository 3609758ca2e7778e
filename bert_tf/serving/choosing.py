"""Chooses what computes an export, by measuring it on this machine.

No engine and no number of threads is the fastest everywhere: how dear it is to hand work to another
thread, and what a processor multiplies, differ by more than engines do.
"""

import dataclasses
import hashlib
import itertools
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import tensorflow as tf
from absl import logging
from tqdm import tqdm

from bert_tf.export import halves, saved_model
from bert_tf.serving import trials
from bert_tf.serving.engines import registry
from bert_tf.serving.engines.names import AUTO, EngineName, Precision
from bert_tf.serving.engines.plans import Lane, Plan
from bert_tf.serving.trials import Trial
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.threads import cores

# Not among those that are tried unless it is asked for: it was slower than another on every kind of
# machine it was measured on.
_SLOW = (EngineName.LITERT,)
_TWICE = 1.1  # two ways hold the weights twice: they have to be faster by that
_CLOSE = 1.25  # times the fastest: what is no slower is measured once more
_FORMAT = 5  # of the plans that are kept, and of what is measured
_PARTS = (2, 4, 8)  # of a layer, as far as there are cores for them
_PACKAGES = ("tensorflow", "onnxruntime", "openvino", "ai-edge-litert")


@dataclasses.dataclass(frozen=True)
class Wish:
    """What is fixed, and not chosen.

    Attributes:
      engine: its name, or `AUTO`.
      threads: of one computation.
      precision: what is multiplied in; None: what the export was checked with.
      lengths: that XLA compiles for.
      parts: of layers, in which TensorFlow computes lone sequences.
      threads_of_tensorflow: where TensorFlow runs in this process already.
    """

    engine: str = AUTO
    threads: int | None = None
    precision: Precision | None = None
    lengths: tuple[int, ...] | None = None
    parts: int | None = None
    threads_of_tensorflow: int | None = None

    def lanes(self, path: str) -> list[Lane]:
        """What may be chosen from.

        Args:
          path: of the export.

        Raises:
          InputError: there is no such engine, or it was not checked in this precision.
        """
        kept = saved_model.kept_precisions(path)
        return [
            Lane(
                name,
                threads,
                self._precision(name, kept, path),
                self.lengths or () if name is EngineName.TENSORFLOW else (),
                parts,
            )
            for name in self._engines(path, kept)
            for threads in self._threads(name)
            for parts in self._parts(name, threads)
        ]

    def _engines(self, path: str, kept: Mapping[str, str]) -> list[EngineName]:
        if self.engine != AUTO:
            try:
                return [EngineName(self.engine)]
            except ValueError as error:
                raise InputError(
                    f"engine {self.engine!r}: there are {', '.join((AUTO, *EngineName))}."
                ) from error
        if not halves.are_in(path):  # an earlier version's export: TensorFlow computes all of it
            return [EngineName.TENSORFLOW]
        installed = registry.installed()
        known = [name for name in installed if name not in _SLOW]
        if self.precision in (None, Precision.FLOAT32):
            return known
        checked = [name for name in installed if kept.get(name) == self.precision]
        return [name for name in checked if name in known] or checked or known

    def _threads(self, engine: EngineName) -> list[int]:
        if engine is EngineName.TENSORFLOW and self.threads_of_tensorflow:
            return [self.threads_of_tensorflow]
        return [self.threads] if self.threads else sorted({1, cores()})

    def _parts(self, engine: EngineName, threads: int) -> list[int]:
        """Those of layers: one; and more where each has a thread of its own."""
        if self.parts:
            return [self.parts]
        free = engine is EngineName.TENSORFLOW and threads == 1 and not self.threads
        return [1, *(n for n in _PARTS if n <= cores() and free and not self.lengths)]

    def _precision(self, engine: EngineName, kept: Mapping[str, str], path: str) -> Precision:
        checked = Precision(kept.get(engine, Precision.FLOAT32))
        if self.precision in (None, checked) or self.precision is Precision.FLOAT32:
            return self.precision or checked
        raise InputError(
            f"{path}: was not checked in {self.precision} with {engine}; export it with "
            f"PRECISION={self.precision} (--precision), which measures whether its scores are kept."
        )

    def plan(self, path: str) -> Plan | None:
        """The plan, where nothing is left to choose.

        Raises:
          InputError: see `lanes`.
        """
        (only, *others) = self.lanes(path)
        if not halves.are_in(path):
            return Plan.of(dataclasses.replace(only, threads=self.threads or cores(), lengths=()))
        open_lengths = only.engine is EngineName.TENSORFLOW and self.lengths is None
        return None if others or open_lengths else Plan.of(only)


def choose(path: str, wish: Wish, folder: str) -> Plan:
    """The fastest plan for an export on this machine, measured once.

    Args:
      path: of the export.
      wish: what is fixed.
      folder: where it is kept, and converted models are.

    Raises:
      InputError: there is no such engine, or none of those that are wished for can compute it.
    """
    fixed = wish.plan(path)
    if fixed is not None:
        return fixed
    kept = f"{folder}/plans/{_mark(path, wish)}.json"
    if files.gfile.exists(kept):
        return Plan.from_dict(json_files.read(kept, dict[str, Any])["plan"])
    found = _measure(path, wish, folder)
    if not found:
        raise InputError(f"{path}: cannot be computed by {wish.engine} here; the log says why.")
    plan = best(found)
    logging.info("the fastest here: %s", plan)
    files.gfile.makedirs(f"{folder}/plans")
    values = {"plan": plan.to_dict(), "trials": [dataclasses.asdict(trial) for trial in found]}
    json_files.write(kept, values)
    return plan


def _measure(path: str, wish: Wish, folder: str) -> list[Trial]:
    """The trials of those that can compute."""
    print(
        f"{path}: measuring what is the fastest on this machine, once, for minutes; "
        "--engine=tensorflow starts without.",
        flush=True,
    )
    found = _run(path, wish.lanes(path), folder, lengths=wish.lengths is None)
    again = {each.lane: each for each in _run(path, _close(found), folder, lengths=False)}
    found = [each.or_faster(again.get(each.lane, each)) for each in found]
    for trial in found:
        times = ", ".join(f"{name} {1000 * s:.1f} ms" for name, s in trial.single.items())
        rates = ", ".join(
            f"{name} {1 / s:.0f}/s together, {1 / trial.singly[name]:.0f}/s singly"
            for name, s in trial.together.items()
        )
        logging.info("%s: %s; %s", trial.lane, times, rates)
    return found


def _run(path: str, lanes: Sequence[Lane], folder: str, lengths: bool) -> list[Trial]:
    """The trials of those that can compute; see `trials.run`."""
    found: list[Trial] = []
    for group in tqdm(_groups(lanes), desc="measure", unit="engine"):
        try:
            found += trials.run(path, group, folder, lengths)
        except trials.FailedTrialError as error:
            logging.warning("%s is left out: %s", group[0].engine, error)
    return found


def _close(found: Sequence[Trial]) -> list[Lane]:
    """Those that may be the fastest at something; none where there is no choice."""
    least = _least(found)
    close = [each.lane for each in found if min(_ratios(each, each, least)) <= _CLOSE]
    return close if len(close) > 1 else []


def _least(found: Sequence[Trial]) -> dict[str, float]:
    """The figures of the fastest, each of its own."""
    figures = [each.single | each.many for each in found]
    return {name: min(each[name] for each in figures) for name in (figures or [{}])[0]}


def _ratios(alone: Trial, together: Trial, least: Mapping[str, float]) -> list[float]:
    """How many times the least time two ways take, at each figure."""
    figures = alone.single | together.many
    return [seconds / least[name] for name, seconds in figures.items()]


def _groups(lanes: Sequence[Lane]) -> list[list[Lane]]:
    """Lanes that can be measured in one process: TensorFlow has one number of threads in it."""

    def process(lane: Lane) -> tuple[str, int]:
        return lane.engine, lane.threads if lane.engine is EngineName.TENSORFLOW else 0

    return [list(group) for _, group in itertools.groupby(lanes, process)]


def best(found: Sequence[Trial]) -> Plan:
    """The plan that is nowhere much slower than what is the fastest there.

    Args:
      found: what was measured.
    """
    least = _least(found)

    def cost(pair: tuple[Trial, Trial]) -> tuple[float, float]:
        alone, together = pair
        ratios = _ratios(alone, together, least)
        return max(ratios) * (1 if alone.lane == together.lane else _TWICE), sum(ratios)

    alone, together = min(_pairs(found), key=cost)
    return Plan(alone.lane, together.lane, grouped=together.grouped)


def _pairs(found: Sequence[Trial]) -> Iterable[tuple[Trial, Trial]]:
    """Trials whose lanes can be in one process."""
    for alone, together in itertools.product(found, found):
        both = {alone.lane.engine, together.lane.engine} == {EngineName.TENSORFLOW}
        if not both or alone.lane.threads == together.lane.threads:
            yield alone, together


def _mark(path: str, wish: Wish) -> str:
    """Of what the choice depends on: the sizes of the models, the machine, and the packages."""
    manifest: Any = saved_model.read_manifest(path)
    values: dict[str, Any] = {
        "format": _FORMAT,
        "models": [[model["config"], model["tasks"]] for model in manifest["models"]],
        "precision": [manifest["precision"], saved_model.kept_precisions(path)],
        "wish": dataclasses.asdict(wish),
        "machine": [_processor(), cores()],
        "packages": [_version(name) for name in _PACKAGES],
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _processor() -> str:
    """The processor's name and what it can."""
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
