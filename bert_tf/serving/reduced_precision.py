"""Whether an export keeps its scores on dev data where it is computed in less than float32."""

import dataclasses
import functools
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.export import saved_model
from bert_tf.export.saved_model import Reduced
from bert_tf.export.sources import ModelSource
from bert_tf.serving import file_prediction
from bert_tf.serving.engines import registry
from bert_tf.serving.engines.plan import EngineName, ExecutionPlan, Precision
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks import Task
from pipelines.common import optional
from pipelines.common.errors import InputError
from pipelines.common.machine import cores


@dataclasses.dataclass(frozen=True)
class ScoreCheck:
    """Scores an export on dev data, in a precision and in float32.

    Attributes:
      sources: the models that are exported.
      precision: less than float32.
      dev: labelled files by task.
      most_loss: of the main metric of a task, of which 1 is the best.

    Raises:
      InputError: a file is missing, is not asked for, or cannot be read; or no engine is installed
        that has this precision. All of this is found before anything is exported.
    """

    sources: Sequence[ModelSource]
    precision: Precision
    dev: Mapping[str, str]
    most_loss: float

    def __post_init__(self) -> None:
        names = [source.task.name for source in self.sources if source.task]
        if not names:
            raise InputError(
                f"--precision={self.precision}: is for tasks, whose scores say whether it does no "
                "harm; a pre-trained model has none."
            )
        missing = [name for name in names if name not in self.dev]
        if missing:
            raise InputError(
                f"--precision={self.precision}: {', '.join(missing)} must be scored with it; name "
                f"labelled files, such as --dev={missing[0]}=dev.tsv."
            )
        unknown = sorted(set(self.dev) - set(names))
        if unknown:
            raise InputError(f"--dev: {', '.join(unknown)} is not exported; {', '.join(names)} is.")
        _engines(self.precision)
        _ = self._examples

    @functools.cached_property
    def _examples(self) -> dict[str, Sequence[Any]]:
        """The labelled examples by task."""
        return {
            task.name: file_prediction.read(
                task, file_prediction.PredictionRequest(self.dev[task.name], labelled=True)
            )
            for task in self._tasks()
        }

    def __call__(self, path: str) -> list[Reduced]:
        """The scores with each engine that keeps them.

        Args:
          path: of the export.

        Raises:
          InputError: no engine keeps them.
        """
        full = self._full_scores(path)
        found: list[Reduced] = []
        lost: list[str] = []
        for engine in _engines(self.precision):
            of_engine = self._reduced(path, engine, full)
            bad = [each for each in of_engine if each["full"] - each["score"] > self.most_loss]
            lost += [_told(each) for each in bad]
            found += [] if bad else of_engine
        for line in lost:
            logging.warning("%s; it is not used.", line)
        # What TensorFlow computes in is what the export is stored in: it has no choice.
        needed = self.precision is Precision.BFLOAT16
        if not found or (needed and found[0]["engine"] != EngineName.TENSORFLOW):
            raise InputError(
                f"--precision={self.precision}: scores are not kept ({'; '.join(lost)}); export in "
                "float32, or allow a larger --most_loss."
            )
        return found

    def _full_scores(self, path: str) -> dict[str, float]:
        if self.precision is not Precision.BFLOAT16:
            return self._scores(path, ExecutionPlan.of(threads=registry.tensorflow_threads()))
        with tempfile.TemporaryDirectory() as folder:
            saved_model.write(self.sources, f"{folder}/full")
            return self._scores(
                f"{folder}/full", ExecutionPlan.of(threads=registry.tensorflow_threads())
            )

    def _reduced(self, path: str, engine: EngineName, full: Mapping[str, float]) -> list[Reduced]:
        scores = self._scores(path, ExecutionPlan.of(engine, cores(), self.precision))
        return [
            Reduced(
                engine=engine.value,
                precision=self.precision.value,
                task=task.name,
                metric=task.main_metric,
                score=scores[task.name],
                full=full[task.name],
            )
            for task in self._tasks()
        ]

    def _scores(self, path: str, plan: ExecutionPlan) -> dict[str, float]:
        """The main metric of each task."""
        with tempfile.TemporaryDirectory() as cache:
            predictor = Predictor(path, plan=plan, cache=cache)
            try:
                return {task.name: self._score(predictor, task) for task in self._tasks()}
            finally:
                predictor.close()

    def _score(self, predictor: Predictor, task: Task) -> float:
        examples = self._examples[task.name]
        predictions = predictor.predict(task, examples, file_prediction.progress)
        return task.metrics(examples, predictions)[task.main_metric]

    def _tasks(self) -> list[Task]:
        return [source.task for source in self.sources if source.task]


def _engines(precision: Precision) -> list[EngineName]:
    """Those that have a precision.

    Raises:
      InputError: none is installed.
    """
    known = [name for name in registry.REDUCED[precision] if name in registry.installed()]
    if not known:
        optional.load("onnxruntime", "onnx")  # says what is missing
    return known


def _told(found: Reduced) -> str:
    return (
        f"{found['task']} with {found['engine']}: {found['metric']} {found['score']:.4f} "
        f"instead of {found['full']:.4f}"
    )
