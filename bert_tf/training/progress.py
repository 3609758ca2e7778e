"""Progress of a run: history file, progress bar, TensorBoard."""

import json
import math
import statistics
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging
from tqdm import tqdm

from bert_tf.training.settings import MAX_STEPS
from pipelines.common import files, json_files, optional

HISTORY = "history.jsonl"  # in the folder of a run
_NEEDED = {"step", "learning_rate", "sequences_per_second", "seconds"}  # in each line
# As written by tf.summary.scalar, which needs the TensorBoard package.
_SCALAR = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})


class Point(NamedTuple):
    """Means over the steps since the previous point: a line of history.jsonl."""

    step: int
    metrics: dict[str, float]  # NaN for those that the objective lacks
    learning_rate: float
    sequences_per_second: float
    seconds: float  # since the start, in all processes of the run
    phase: int | None = None  # of a run with several phases
    peak_fraction: float | None = None  # fraction of the peak operations per second
    input_wait_fraction: float | None = None  # fraction of the time spent waiting for batches

    def text(self) -> str:
        """The point as text for the progress bar."""
        known = {name: value for name, value in self.metrics.items() if not math.isnan(value)}
        parts = [metric_text(name, value) for name, value in known.items()]
        parts.append(f"{self.sequences_per_second:,.0f} seq/s")
        if self.peak_fraction is not None:
            parts.append(f"{self.peak_fraction:.0%} of peak FLOP/s")
        if self.input_wait_fraction is not None:
            parts.append(f"{self.input_wait_fraction:.0%} waiting for input")
        return ", ".join(parts)

    def curves(self) -> dict[str, float]:
        """All values that have a curve, by name."""
        speed = {"sequences_per_second": self.sequences_per_second}
        if self.peak_fraction is not None:
            speed["peak_fraction"] = self.peak_fraction
        if self.input_wait_fraction is not None:
            speed["input_wait_fraction"] = self.input_wait_fraction
        rate = {"learning_rate": self.learning_rate}
        return self.metrics | rate | speed | {"seconds": self.seconds}

    def to_json(self) -> dict[str, Any]:
        """The point as a line of history.jsonl, with null for NaN."""
        phase = {} if self.phase is None else {"phase": self.phase}
        values = {"step": self.step} | phase | self.curves()
        return {name: None if math.isnan(value) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, line: dict[str, float | None]) -> "Point":
        """The point of a line.

        Raises:
          KeyError: a value is missing.
        """
        values = {name: math.nan if value is None else value for name, value in line.items()}
        phase = values.pop("phase", None)
        return cls(
            step=int(values.pop("step")),
            learning_rate=values.pop("learning_rate"),
            sequences_per_second=values.pop("sequences_per_second"),
            seconds=values.pop("seconds"),
            phase=None if phase is None else int(phase),
            peak_fraction=values.pop("peak_fraction", None),
            input_wait_fraction=values.pop("input_wait_fraction", None),
            metrics=values,
        )


def metric_text(name: str, value: float) -> str:
    """A metric with its name; accuracies as percentages."""
    if name.endswith("_accuracy"):
        return f"{name.removesuffix('_accuracy').replace('_', ' ')} {value:.1%}"
    return f"{name.replace('_', ' ')} {value:.3f}"


class History:
    """The points of a run, in `history.jsonl`; a resumed run appends to them.

    Args:
      path: the file.
      start: the step at which the run resumes; later points are dropped.
      write: whether this process writes.
    """

    def __init__(self, path: str, start: int, write: bool = True):
        self._path = path
        self._write = write
        self.points = [point for point in read_history(path) if point.step <= start]
        if write:
            text = "".join(f"{json.dumps(point.to_json())}\n" for point in self.points)
            files.write_text(path, text)

    @property
    def seconds(self) -> float:
        """Seconds up to the last point."""
        return self.points[-1].seconds if self.points else 0.0

    def training_seconds(self, batch_size: int) -> float:
        """Seconds of all steps with the given batch size, without evaluations."""
        before = (0, *(point.step for point in self.points))
        return sum(
            (point.step - last) * batch_size / point.sequences_per_second
            for last, point in zip(before, self.points, strict=False)
        )

    @property
    def rate(self) -> float:
        """The median of the sequences per second; NaN without points."""
        rates = [point.sequences_per_second for point in self.points]
        return statistics.median(rates) if rates else math.nan

    @property
    def input_wait_fraction(self) -> float:
        """The fraction of training time spent waiting for batches; NaN if unknown.

        Points are weighted by the time per sequence.
        """
        known = [
            (point.input_wait_fraction, 1 / point.sequences_per_second)
            for point in self.points
            if point.input_wait_fraction is not None
        ]
        seconds = sum(each for _, each in known)
        return sum(share * each for share, each in known) / seconds if known else math.nan

    def add(self, point: Point) -> None:
        """Appends a point."""
        self.points.append(point)
        if not self._write:
            return
        with files.gfile.GFile(self._path, "a") as file:
            file.write(f"{json.dumps(point.to_json())}\n")


def read_history(path: str) -> list[Point]:
    """The points of a file; none if there is no file."""
    lines = json_files.read_lines(path, dict[str, float | None])
    return [Point.from_json(line) for line in lines if line.keys() >= _NEEDED]


def log_tensorboard(folder: str) -> None:
    """Logs how to view the curves of a run while it trains."""
    remedy = "" if optional.is_there("tensorboard") else " (pip install 'bert-tf[tensorboard]')"
    logging.info("curves, while it trains: tensorboard --logdir=%s%s", folder, remedy)


class Display:
    """A progress bar and TensorBoard summaries.

    Args:
      name: label of the bar.
      total_steps: steps of the run; MAX_STEPS: not known yet.
      start: the steps done before.
      log_folder: folder for TensorBoard; None: no summaries.
    """

    def __init__(self, name: str, total_steps: int, start: int, log_folder: str | None):
        self._bar = tqdm(initial=start, unit="step", desc=name)
        self.end_at(total_steps)
        self._writer = tf.summary.create_file_writer(log_folder) if log_folder else None

    def end_at(self, total_steps: int) -> None:
        """Sets the number of steps; MAX_STEPS while it is unknown."""
        self._bar.total = None if total_steps == MAX_STEPS else total_steps

    def show(self, point: Point) -> None:
        """Shows a point."""
        self._bar.set_postfix_str(point.text(), refresh=False)
        self._bar.update(point.step - self._bar.n)
        self.scalars(point.step, point.curves())

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Writes all values but NaN to TensorBoard."""
        if self._writer:
            with self._writer.as_default(step=step):
                for name, value in values.items():
                    if not math.isnan(value):
                        tf.summary.write(name, tf.cast(value, tf.float32), metadata=_SCALAR)

    def close(self) -> None:
        """Closes the bar and flushes the summaries."""
        self._bar.close()
        if self._writer:
            self._writer.close()
