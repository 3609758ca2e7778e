"""Checks that an export keeps its scores on dev data in a precision lower than float32."""

import contextlib
import dataclasses
import functools
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.export import saved_model
from bert_tf.export.saved_model import ReducedScore
from bert_tf.export.sources import ModelSource
from bert_tf.serving import engines, file_prediction, selection
from bert_tf.serving.plan import EngineName, ExecutionPlan, Precision
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks import Task
from pipelines.common import optional
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from pipelines.labelled.source import Source


@dataclasses.dataclass(frozen=True)
class ScoreCheck:
    """Scores an export on dev data, in a reduced precision and in float32.

    Attributes:
      sources: the exported models.
      precision: lower than float32.
      dev: labelled files by task.
      max_loss: maximum loss of a task's main metric, which is 1 at best.
      engines: those to score, if they are installed; None: all that have this precision.

    Raises:
      InputError: a file is missing, is not needed, or cannot be read; or no installed engine has
        this precision. All of this is found before anything is exported.
    """

    sources: Sequence[ModelSource]
    precision: Precision
    dev: Mapping[str, str]
    max_loss: float
    engines: Sequence[str] | None = None

    def __post_init__(self) -> None:
        names = [task.name for task in self._tasks]
        if not names:
            raise InputError(
                f"--precision={self.precision}: needs a task with scores; a pre-trained model has "
                "none."
            )
        others = [task.name for task in self._tasks_of(EngineName.ONNXRUNTIME)]
        alone = [name for name in names if name not in others]
        if alone and self.precision is Precision.INT8:
            raise InputError(
                f"--precision=int8: {', '.join(alone)} is computed in TensorFlow, which has no "
                "int8; leave it out."
            )
        if len(names) < len(self.sources):
            logging.warning(
                "--precision=%s: a pre-trained model has no scores, so what it answers in this "
                "precision is not checked.",
                self.precision,
            )
        missing = [name for name in names if name not in self.dev]
        if missing:
            raise InputError(
                f"--precision={self.precision}: {', '.join(missing)} must be scored in it; name "
                f"labelled files, such as --dev={missing[0]}=dev.tsv."
            )
        unknown = sorted(set(self.dev) - set(names))
        if unknown:
            raise InputError(f"--dev: {', '.join(unknown)} is not exported; {', '.join(names)} is.")
        if not self._engines:
            reduced = selection.PREFERRED[self.precision]
            engine = engines.ENGINES[next(n for n in reduced if n in (self.engines or reduced))]
            for module in engine.modules:
                optional.load(module, engine.extra)  # reports the missing package
        _ = self._examples

    @property
    def _tasks(self) -> list[Task]:
        return [each.task for each in self.sources if each.task and not each.pretrained]

    def _tasks_of(self, engine: EngineName) -> list[Task]:
        """The tasks that an engine computes itself.

        TensorFlow computes those that write texts, and exports with a family whose loops other
        engines do not read.
        """
        if engine is EngineName.TENSORFLOW:
            return self._tasks
        portable = all(each.bundle.config.portable for each in self.sources)
        return [task for task in self._tasks if portable and not task.generation]

    @property
    def _engines(self) -> list[EngineName]:
        """The installed engines with this precision that compute a task."""
        installed = engines.installed()
        wanted = installed if self.engines is None else self.engines
        reduced = selection.PREFERRED[self.precision]
        chosen = [name for name in reduced if name in installed and name in wanted]
        return [name for name in chosen if self._tasks_of(name)]

    @functools.cached_property
    def _examples(self) -> dict[str, Sequence[Any]]:
        """The labelled examples by task."""
        return {
            task.name: file_prediction.read(task, Source(self.dev[task.name]), labelled=True)
            for task in self._tasks
        }

    def __call__(self, path: str) -> list[ReducedScore]:
        """The scores of an export with each engine that keeps them.

        Raises:
          InputError: no engine keeps them.
        """
        full = self._full_scores(path)
        kept: list[ReducedScore] = []
        lost: list[str] = []
        for engine in self._engines:
            scores = self._scores(path, ExecutionPlan(engine, cores(), self.precision))
            found = [
                ReducedScore(
                    engine=engine.value,
                    precision=self.precision.value,
                    task=task.name,
                    metric=task.main_metric,
                    score=scores[task.name],
                    full=full[task.name],
                )
                for task in self._tasks_of(engine)
            ]
            losses = [_loss(each) for each in found if each["full"] - each["score"] > self.max_loss]
            kept += [] if losses else found
            lost += losses
            for line in losses:
                logging.warning("%s; it computes in float32.", line)
        # TensorFlow computes in the precision in which the export is stored.
        needed = {EngineName.TENSORFLOW} if self.precision is Precision.BFLOAT16 else set()
        if not kept or not needed <= {each["engine"] for each in kept}:
            raise InputError(
                f"--precision={self.precision}: scores are not kept ({'; '.join(lost)}); export in "
                "float32, or allow a larger --max_loss."
            )
        return kept

    def _full_scores(self, path: str) -> dict[str, float]:
        plan = ExecutionPlan(threads=engines.tensorflow_threads())
        if self.precision is not Precision.BFLOAT16:
            return self._scores(path, plan)
        with tempfile.TemporaryDirectory() as folder:
            saved_model.write(self.sources, f"{folder}/full")
            return self._scores(f"{folder}/full", plan)

    def _scores(self, path: str, plan: ExecutionPlan) -> dict[str, float]:
        """The main metric of each task that the engine of a plan computes."""
        with tempfile.TemporaryDirectory() as cache:
            predictor = Predictor(path, plan=plan, cache=cache)
            found = {}
            with contextlib.closing(predictor):
                for task in self._tasks_of(plan.engine):
                    examples = self._examples[task.name]
                    predictions = predictor.predict(task, examples, file_prediction.progress)
                    found[task.name] = task.metrics(examples, predictions)[task.main_metric]
            return found


def _loss(found: ReducedScore) -> str:
    return (
        f"{found['task']} with {found['engine']}: {found['metric']} {found['score']:.4f} "
        f"instead of {found['full']:.4f}"
    )
