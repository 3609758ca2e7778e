"""Measures one engine on this machine, in a process of its own: as one asks, and as many do.

TensorFlow has one number of threads in a process, and what an engine leaves in memory would
disturb what is measured after it.
"""

import dataclasses
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export import reading
from bert_tf.serving.engines import registry
from bert_tf.serving.engines.base import Compute, Sequences
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.names import EngineName
from bert_tf.serving.engines.plans import Lane, lane_of
from bert_tf.serving.scheduler import Scheduler, Step
from bert_tf.tasks.signatures import Computation
from pipelines.common.threads import cores

ALONE = (8, 32, 128)  # tokens of the single sequences that are measured
# Lengths that change from call to call, as traffic has them: some engines prepare something for
# each form that they have not seen.
_CHANGING, _LONGEST = 16, 96
_CLIENTS, _EACH = 16, 8  # of a crowd, each of which asks for one sequence after the other
_BATCH = 32  # sequences of a large request, of which one for each core and one more run at once
_ROUNDS = 2  # in which many sequences are measured both ways
# What XLA may compile for. More would be faster in between, and take longer to start.
_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128)
_SECONDS, _FEWEST = 0.5, 3  # of one measurement
_BURST = 8  # sequences of one length, before those of another
_QUANTILE = 0.25  # of the times: others slow some calls, nothing speeds any
_BETTER = 0.95  # of the time: what is compiled is to be faster by that
_LIMIT = 600.0  # seconds of a process


@dataclasses.dataclass(frozen=True)
class Trial:
    """What was measured.

    Attributes:
      lane: how.
      alone: seconds for a single sequence, by its tokens, of which one is as long as the last.
      changing: seconds for a single sequence, of which one is longer or shorter than the last.
      together: seconds for a sequence of many, by who asks, where those that wait are computed
        together: a `crowd` of clients with a sequence each, or a few with `batches`.
      singly: the same, each by itself.
    """

    lane: Lane
    alone: dict[int, float]
    changing: float
    together: dict[str, float]
    singly: dict[str, float]

    @property
    def single(self) -> dict[str, float]:
        """Seconds for sequences that come alone, by what they are."""
        return {f"{n} tokens": s for n, s in self.alone.items()} | {"changing": self.changing}

    @property
    def many(self) -> dict[str, float]:
        """Seconds for a sequence of many, by who asks, the better way."""
        return self.together if self.grouped else self.singly

    @property
    def grouped(self) -> bool:
        """Whether many are better computed together: it is the less slow where it is slower."""
        ratios = [seconds / self.singly[name] for name, seconds in self.together.items()]
        return self.lane.may_be_grouped and max(ratios) * min(ratios) <= 1

    def or_faster(self, other: "Trial") -> "Trial":
        """The better figures of two trials of one lane: what slows some calls, speeds none."""
        return Trial(
            self.lane,
            _least(self.alone, other.alone),
            min(self.changing, other.changing),
            _least(self.together, other.together),
            _least(self.singly, other.singly),
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Trial":
        """The trial that `dataclasses.asdict` told of, in JSON."""
        alone = {int(length): seconds for length, seconds in values["alone"].items()}
        return cls(**values | {"lane": lane_of(values["lane"]), "alone": alone})


def _least(first: Mapping[Any, float], second: Mapping[Any, float]) -> dict[Any, float]:
    return {name: min(seconds, second[name]) for name, seconds in first.items()}


class FailedTrialError(Exception):
    """An engine could not compute what it was to be measured by."""


def run(path: str, lanes: Sequence[Lane], folder: str, lengths: bool = True) -> list[Trial]:
    """Measures ways to compute in a process of its own.

    Args:
      path: of an export.
      lanes: of one engine; where that is TensorFlow, of one number of threads.
      folder: for converted models.
      lengths: whether those are looked for at which XLA wins against the plain computation.

    Raises:
      FailedTrialError: the process failed, or took too long.
    """
    told = [dataclasses.asdict(lane) for lane in lanes]
    asked = json.dumps({"path": path, "folder": folder, "lanes": told, "lengths": lengths})
    command = [sys.executable, "-m", __name__, asked]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=True)
    except subprocess.TimeoutExpired as error:
        raise FailedTrialError(f"it took more than {_LIMIT:g} seconds") from error
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or str(error)).strip().splitlines()
        raise FailedTrialError(reason[-1]) from error
    return [Trial.from_dict(values) for values in json.loads(done.stdout.splitlines()[-1])]


def measure(
    path: str, lanes: Sequence[Lane], models: Converted, lengths: bool = True
) -> list[Trial]:
    """Measures ways to compute in this process, by the first model of an export.

    Args:
      path: of the export.
      lanes: see `run`.
      models: where converted models are kept.
      lengths: see `run`.
    """
    tensorflow = lanes[0].engine is EngineName.TENSORFLOW
    model = reading.assembly(path, None if tensorflow else "float32").models[0]
    name, computation = next(iter(model.computations(model.source.bundle.tokenizer()).items()))
    longest = model.source.bundle.config.max_length
    found = [_trial(lane, f"0_{name}", computation, longest, models) for lane in lanes]
    if not (tensorflow and lengths):
        return found
    return [
        # Where XLA compiles, no layer is in parts: its programs have threads of their own.
        _with_lengths(trial, f"0_{name}", computation, longest, models)
        if trial.lane.parts == 1
        else trial
        for trial in found
    ]


def _trial(
    lane: Lane, name: str, computation: Computation, longest: int, models: Converted
) -> Trial:
    at_once = max(1, cores() // lane.threads)
    compute = registry.make(models, lane, at_once).load(name, computation)
    calls = {n: functools.partial(compute, _sequences(n)) for n in _up_to(ALONE, longest)}
    seconds = _seconds_in_turn(list(calls.values()), burst=_BURST)
    alone = dict(zip(calls, seconds, strict=True))
    changing = _seconds_by_length(compute, longest)
    step = Step(computation.outputs, compute, compute)
    together, singly = _seconds_of_many(step, at_once, min(_LONGEST, longest))
    return Trial(lane, alone, float(np.mean(list(changing.values()))), together, singly)


def _with_lengths(
    trial: Trial, name: str, computation: Computation, longest: int, models: Converted
) -> Trial:
    """A trial of TensorFlow, with XLA where that is faster."""
    plain = registry.make(models, trial.lane, 1).load(name, computation)
    won = _lengths_that_win(plain, name, computation, _up_to(_LENGTHS, longest), models)
    if not won:
        return trial

    def faster(seconds: dict[int, float]) -> dict[int, float]:
        padded = {n: next((known for known in won if n <= known), None) for n in seconds}
        return {n: won[m] if m and n >= min(won) else seconds[n] for n, m in padded.items()}

    changing = faster(_seconds_by_length(plain, longest))
    return dataclasses.replace(
        trial,
        lane=dataclasses.replace(trial.lane, lengths=tuple(won)),
        alone=faster(trial.alone),
        changing=float(np.mean(list(changing.values()))),
    )


def _lengths_that_win(
    plain: Compute, name: str, computation: Computation, lengths: Sequence[int], models: Converted
) -> dict[int, float]:
    """Seconds by length, of those that XLA is to compile for: from the first that wins to the last.

    A sequence that is shorter is padded: so what is compiled has to win against the plain
    computation of what is half-way to the next shorter one.
    """
    try:
        compiled = registry.make(models, Lane(lengths=tuple(lengths)), 1).load(name, computation)
    except tf.errors.OpError:  # XLA cannot compile everything
        return {}
    seconds, won = {}, []
    for length, shorter in zip(lengths, (1, *lengths), strict=False):
        full, mean = _sequences(length), _sequences((shorter + length) // 2)
        calls = functools.partial(compiled, full), functools.partial(plain, mean)
        seconds[length], before = _seconds_in_turn(calls)
        if seconds[length] < _BETTER * before:
            won.append(length)
    return {n: s for n, s in seconds.items() if won and won[0] <= n <= won[-1]}


def _up_to(lengths: Sequence[int], longest: int) -> list[int]:
    """Those that a model takes, one at the least."""
    return [length for length in lengths if length <= longest] or [longest]


def _sequences(*lengths: int) -> Sequences:
    positions = np.arange(max(lengths), dtype=np.int32)
    mask = (positions < np.array(lengths)[:, None]).astype(np.int32)
    return Sequences(positions % 5 * mask, mask, np.zeros_like(mask))


def _seconds_in_turn(
    calls: Sequence[Callable[[], Any]], seconds: float | None = None, burst: int = 1
) -> list[float]:
    """The time of each call; all of them see the same moments of a machine that others use, too.

    Args:
      calls: what to measure.
      seconds: for all of them; None: as many times `_SECONDS`.
      burst: how often each is called in its turn; the first of several does not count.
    """
    found: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # may prepare something
    end = time.perf_counter() + (seconds or _SECONDS * len(calls))
    while len(found[-1]) < _FEWEST or time.perf_counter() < end:
        for call, times in zip(calls, found, strict=True):
            if burst > 1:
                call()
            for _ in range(max(1, burst - 1)):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
    return [float(np.quantile(times, _QUANTILE)) for times in found]


def _seconds_by_length(compute: Compute, longest: int) -> dict[int, float]:
    """The time of single sequences by their lengths, of which none comes twice in turn."""
    lengths = np.linspace(min(8, longest), min(_LONGEST, longest), _CHANGING).astype(int)
    mixed = np.random.default_rng(0).permutation(np.unique(lengths)).tolist()
    calls = [functools.partial(compute, _sequences(length)) for length in mixed]
    return dict(zip(mixed, _seconds_in_turn(calls, _SECONDS), strict=True))


def _seconds_of_many(
    step: Step, at_once: int, longest: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The time of a sequence, by who asks: where they are computed together, and singly."""
    rng = np.random.default_rng(0)
    forms = {"crowd": (_CLIENTS, _EACH, 1), "batches": (cores() + 1, 1, _BATCH)}
    asked = {n: rng.integers(min(8, longest), longest + 1, form) for n, form in forms.items()}

    def seconds(grouped: bool) -> dict[str, float]:
        return {
            name: _seconds_of(step, requests, Scheduler(at_once, grouped=grouped))
            for name, requests in asked.items()
        }

    rounds = [(seconds(True), seconds(False)) for _ in range(_ROUNDS)]
    together, singly = zip(*rounds, strict=True)
    return functools.reduce(_least, together), functools.reduce(_least, singly)


def _seconds_of(step: Step, requests: np.ndarray, scheduler: Scheduler) -> float:
    """The time of a sequence.

    Args:
      step: what is computed.
      requests: the lengths of sequences, [clients that ask at once, their requests one after the
        other, sequences of a request].
      scheduler: computes, and is closed.
    """

    def ask(wanted: list[list[int]]) -> None:
        for lengths in wanted:
            scheduler.submit(step, _sequences(*lengths)).result()

    begin = time.perf_counter()
    with ThreadPoolExecutor(len(requests)) as pool:
        list(pool.map(ask, requests.tolist()))
    taken = time.perf_counter() - begin
    scheduler.close()
    return taken / requests.size


def _main(asked: dict[str, Any]) -> None:
    lanes = [lane_of(values) for values in asked["lanes"]]
    threads = max(lane.threads for lane in lanes)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    models = Converted(asked["path"], asked["folder"])
    found = measure(asked["path"], lanes, models, asked["lengths"])
    print(json.dumps([dataclasses.asdict(trial) for trial in found]))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
