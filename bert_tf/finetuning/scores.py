"""The scores of a run on dev data, which say what weights are kept and when training ends."""

import sys
from typing import TypedDict

from tqdm import tqdm

from bert_tf.finetuning.settings import FineTuningSettings, Selection
from pipelines.common import files, json_files


class Evaluation(TypedDict):
    """A score on dev, the mean of the main metrics, and all metrics by name."""

    step: int
    score: float
    metrics: dict[str, float]


class Scores:
    """The evaluations of a run, in a file; a resumed run goes on with them.

    Args:
      path: the file.
      start: the step that the run goes on from; later evaluations are dropped.
      settings: of the run.
      write: whether this process writes.
    """

    def __init__(self, path: str, start: int, settings: FineTuningSettings, write: bool):
        self._path, self._settings, self._write = path, settings, write
        self.found: list[Evaluation] = []
        if files.gfile.exists(path):
            known = json_files.read(path, list[Evaluation], finite=False)
            self.found = [item for item in known if item["step"] <= start]

    @property
    def last_step(self) -> int:
        """The step of the last evaluation."""
        return self.found[-1]["step"] if self.found else 0

    @property
    def enough(self) -> bool:
        """Whether patience is at its end."""
        patience = self._settings.patience
        return bool(patience and self.found) and (
            len(self.found) - 1 - self._best_index() >= patience
        )

    def is_best(self, score: float) -> bool:
        """Whether a score is better than those of all evaluations so far."""
        return not self.found or score > max(item["score"] for item in self.found)

    def add(self, step: int, score: float, metrics: dict[str, float]) -> None:
        """Adds an evaluation."""
        self.found.append({"step": step, "score": score, "metrics": metrics})
        if self._write:
            json_files.write(self._path, self.found)
            scores = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            tqdm.write(f"step {step}, dev: {scores}", file=sys.stderr)  # above the progress bar

    def _best_index(self) -> int:
        scores = [item["score"] for item in self.found]
        return scores.index(max(scores))

    def chosen(self) -> tuple[float | None, dict[str, float]]:
        """Score and metrics of the weights that are kept; None and nothing without evaluations."""
        if not self.found:
            return None, {}
        last = self._settings.selection is Selection.LAST
        item = self.found[-1 if last else self._best_index()]
        return item["score"], item["metrics"]
