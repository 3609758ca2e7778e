"""What a run shows and keeps of its course: progress bar, history, TensorBoard."""

import json
import math
import statistics
from typing import Any, NamedTuple

import tensorflow as tf
from tqdm import tqdm

from pipelines.common import files, json_files
from pipelines.common.errors import InputError


class PretrainingPoint(NamedTuple):
    """The means of the steps since the point before."""

    step: int
    phase: int
    loss: float
    masked_lm_accuracy: float
    next_sentence_accuracy: float  # NaN without next-sentence prediction
    learning_rate: float
    sequences_per_second: float
    peak_share: float  # of the machine's floating-point operations a second
    seconds: float  # since the start, in all processes of the run

    def text(self) -> str:
        """For the progress bar."""
        parts = [f"loss {self.loss:.3f}", f"MLM {self.masked_lm_accuracy:.1%}"]
        if not math.isnan(self.next_sentence_accuracy):
            parts.append(f"NSP {self.next_sentence_accuracy:.1%}")
        parts.append(f"{self.sequences_per_second:,.0f} seq/s")
        parts.append(f"{self.peak_share:.0%} of peak")
        return ", ".join(parts)


class FineTuningPoint(NamedTuple):
    """The means of the steps since the point before."""

    step: int
    loss: float
    learning_rate: float
    sequences_per_second: float
    seconds: float  # since the start, in all processes of the run

    def text(self) -> str:
        """For the progress bar."""
        return f"loss {self.loss:.3f}, {self.sequences_per_second:,.0f} seq/s"


Point = PretrainingPoint | FineTuningPoint


class History:
    """The points of a run, in `history.jsonl`; a resumed run goes on with them.

    Args:
      path: the file.
      kind: the type of the points.
      start: the step that the run goes on from; later points are dropped.
      write: whether this process writes.
    """

    def __init__(self, path: str, kind: type[Point], start: int, write: bool = True):
        self._path = path
        self._write = write
        self.points: list[Point] = []
        if files.gfile.exists(path):
            with files.gfile.GFile(path, "r") as file:
                lines = file.read().splitlines()
            points = (_parse(line, kind) for line in lines)
            self.points = [point for point in points if point and point.step <= start]
        if write:
            text = "".join(f"{json.dumps(_values(point))}\n" for point in self.points)
            files.write_text(path, text)

    @property
    def seconds(self) -> float:
        """Seconds up to the last point."""
        return self.points[-1].seconds if self.points else 0.0

    @property
    def rate(self) -> float:
        """The median of the sequences a second; NaN without points."""
        rates = [point.sequences_per_second for point in self.points]
        return statistics.median(rates) if rates else math.nan

    def add(self, point: Point) -> None:
        """Appends a point."""
        self.points.append(point)
        if not self._write:
            return
        with files.gfile.GFile(self._path, "a") as file:
            file.write(f"{json.dumps(_values(point))}\n")


def _values(point: Point) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in point._asdict().items()
    }


def _parse(line: str, kind: type[Point]) -> Point | None:
    try:
        values = json_files.check(json_files.parse(line, ""), dict[str, float | None], "")
        return kind(**{key: math.nan if value is None else value for key, value in values.items()})
    except (InputError, TypeError):
        return None  # the line that a killed run was writing


class Display:
    """A progress bar and TensorBoard summaries.

    Args:
      name: of what is done.
      total_steps: of the run.
      start: the steps done before.
      log_folder: for TensorBoard; None: no summaries.
    """

    def __init__(self, name: str, total_steps: int, start: int, log_folder: str | None):
        self._bar = tqdm(total=total_steps, initial=start, unit="step", desc=name)
        self._writer = tf.summary.create_file_writer(log_folder) if log_folder else None

    def show(self, point: Point) -> None:
        """Shows a point."""
        self._bar.set_postfix_str(point.text(), refresh=False)
        self._bar.update(point.step - self._bar.n)
        values = point._asdict()
        self.scalars(point.step, {k: v for k, v in values.items() if k not in ("step", "phase")})

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Writes values that are numbers to TensorBoard."""
        if self._writer:
            with self._writer.as_default(step=step):
                for name, value in values.items():
                    if not math.isnan(value):
                        tf.summary.scalar(name, value)

    def close(self) -> None:
        """Ends the bar and writes what is buffered."""
        self._bar.close()
        if self._writer:
            self._writer.close()
