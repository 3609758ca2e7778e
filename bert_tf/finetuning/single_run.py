"""One run of fine-tuning: one learning rate and one seed."""

import dataclasses
import sys
import time
from collections.abc import Iterator
from typing import Any, TypedDict

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from bert_tf import weights
from bert_tf.finetuning import batches, inference
from bert_tf.finetuning.settings import FineTuningSettings, Selection
from bert_tf.finetuning.task_data import TaskData
from bert_tf.models.config import BertConfig
from bert_tf.tasks.model import TaskCounts, TaskModel, TaskObjective
from bert_tf.training import checkpoints, distribution, loop, optimizers, progress
from bert_tf.weights import Bundle
from bert_tf.weights.bundle import HEADS, POOLER
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

_RESULT = "result.json"
_LOG_EVERY = 20  # steps
_SAVE_EVERY = 1000  # steps; every evaluation saves besides


class Evaluation(TypedDict):
    """A score on dev, the mean of the main metrics, and all metrics by name."""

    step: int
    score: float
    metrics: dict[str, float]


class Result(TypedDict):
    """What came of a run; score None without dev data, diverged None where all went well."""

    learning_rate: float
    seed: int
    score: float | None
    metrics: dict[str, float]
    evaluations: list[Evaluation]
    seconds: float
    diverged: str | None


@dataclasses.dataclass(frozen=True)
class Setup:
    """What all runs share."""

    settings: FineTuningSettings
    config: BertConfig
    bundle: Bundle
    data: list[TaskData]
    strategy: tf.distribute.Strategy
    output: str
    tensorboard: bool

    def run_folder(self, rate: float, seed: int) -> str:
        """The folder of a run."""
        return f"{self.output}/runs/lr-{rate:g}-seed-{seed}"

    def kept_folder(self, rate: float, seed: int) -> str:
        """The folder of the weights that a run is about."""
        return f"{self.run_folder(rate, seed)}/kept"


class Run:
    """A model, its optimizer and compiled steps, for all seeds of a learning rate.

    Args:
      setup: what runs share.
      rate: the learning rate at the end of the warm-up.
    """

    def __init__(self, setup: Setup, rate: float):
        self.setup = setup
        self.rate = rate
        settings, tasks = setup.settings, [item.task for item in setup.data]
        self.schedule = batches.Schedule(setup.data, settings.batch_size)
        self.total_steps = max(1, round(settings.epochs * self.schedule.steps_per_epoch))
        compilation = distribution.resolve_compilation(settings.compilation, setup.strategy)
        replicas = setup.strategy.num_replicas_in_sync
        if settings.batch_size % (replicas * settings.accumulation):
            raise InputError(
                f"a batch of {settings.batch_size} cannot be cut into equal parts for {replicas} "
                f"devices and an accumulation of {settings.accumulation}; choose a multiple."
            )
        with setup.strategy.scope():
            self.model = TaskModel.for_tasks(setup.config, tasks, dtype=settings.precision)
            self.optimizer = optimizers.AdamW(
                optimizers.WarmupLinearDecay(
                    rate, round(settings.warmup_share * self.total_steps), self.total_steps
                ),
                decay=settings.weight_decay,
                bias_correction=settings.bias_correction,
                clip_norm=settings.clip_norm or None,
                rate_factors=_layer_factors(self.model, settings.layer_decay),
            )
            self.optimizer.build(self.model.trainable_variables)
        self.loop = loop.LoopSettings(
            total_steps=self.total_steps,
            accumulation=settings.accumulation,
            compilation=compilation,
            save_every=_SAVE_EVERY,
            log_every=_LOG_EVERY,
            evaluate_every=max(1, self.schedule.steps_per_epoch // settings.evaluations),
        )
        objectives = [TaskObjective(self.model, task) for task in tasks]
        self._steps = [
            loop.make_step(
                objective,
                self.optimizer,
                setup.strategy,
                self.loop,
                batches.spec(item, settings.batch_size, setup.strategy),
            )
            for objective, item in zip(objectives, setup.data, strict=True)
        ]
        fused = compilation is distribution.Compilation.FUSED
        self.predictors = [
            inference.make_logits_function(objective, setup.strategy, fused)
            for objective in objectives
        ]

    def go(self, seed: int) -> Result:
        """Trains with a seed, or goes on where that was stopped.

        Returns:
          The result: learning rate, seed, `metrics` of the kept weights,
          `score` (the mean of the main metrics; None without dev data),
          `evaluations`, `seconds`, and `diverged`: what went wrong, or None.

        Raises:
          stopping.Stopped: a signal came.
        """
        folder = self.setup.run_folder(self.rate, seed)
        if files.gfile.exists(f"{folder}/{_RESULT}"):
            return json_files.read(f"{folder}/{_RESULT}", Result, finite=False)
        begin = time.perf_counter()
        self._reset(seed)
        chief = distribution.is_chief(self.setup.strategy)
        state = loop.state_variables(self.model, self.optimizer)
        saved = checkpoints.Checkpoints(f"{folder}/checkpoints", state, keep=1, write=chief)
        start = saved.restore_newest() or 0
        course = _Course(self, folder, seed, start, begin)
        scored = any(item.dev for item in self.setup.data)
        diverged = None
        try:
            if not course.scores.enough:
                loop.train(
                    self._step,
                    lambda first: self._items(seed, first),
                    saved,
                    dataclasses.replace(self.loop, seed=seed),
                    course.report,
                    start,
                    distribution.make_agreement(self.setup.strategy),
                    course.evaluate if scored else None,
                )
            ended = course.scores.enough or course.scores.last_step == self.total_steps
            if scored and not ended:  # the last epoch was not whole
                course.evaluate(self.total_steps)
        except loop.DivergenceError as error:  # the other runs still count
            diverged = f"learning rate {self.rate:g}, seed {seed}: {error.what}."
            logging.warning(diverged)
        finally:
            course.display.close()
        if not diverged and (not scored or self.setup.settings.selection is Selection.LAST):
            self.keep(seed)
        result = {
            "learning_rate": self.rate,
            "seed": seed,
            **course.scores.chosen(),
            "evaluations": course.scores.found,
            "seconds": course.seconds(),
            "diverged": diverged,
        }
        if chief:
            json_files.write(f"{folder}/{_RESULT}", result)
            files.remove_tree(f"{folder}/checkpoints")
        return result

    def _reset(self, seed: int) -> None:
        """First weights: those of the model brought, heads and what it lacks by the seed."""
        keras.utils.set_random_seed(seed)
        self.optimizer.reset()
        settings = self.setup.settings
        missing = weights.assign(self.model, self._first_weights(), settings.init)
        rng = np.random.default_rng(seed)
        for variable in self.model.variables:
            if variable.path in missing:
                variable.assign(_first_value(variable, rng, self.setup.config.initializer_range))
        if any(path.startswith(POOLER) for path in missing) and self.model.encoder.pooler.trainable:
            logging.warning("%s has no pooler; a new one is trained.", settings.init)

    def _first_weights(self) -> dict[str, np.ndarray]:
        """The weights brought; of the heads, those that were trained for the same task."""
        bundle = self.setup.bundle
        known = {task["name"]: (task["shape"], list(task["labels"])) for task in bundle.tasks}
        tasks = [item.task for item in self.setup.data]
        same = {
            task.name for task in tasks if known.get(task.name) == (task.shape, list(task.labels))
        }
        for name in known:
            begins = "goes on" if name in same else "is of another task and left out"
            logging.info("%s: the head of %s %s.", self.setup.settings.init, name, begins)
        return {
            name: value
            for name, value in bundle.weights.items()
            if not name.startswith(HEADS) or name.split("/")[1] in same
        }

    def predictors_of(self, arrays: dict[str, np.ndarray]) -> list[inference.LogitsFunction]:
        """A predictor of each task, with weights that were kept.

        Of several workers each may call this alone: it computes on this one's
        device, without the others.
        """
        setup = self.setup
        model, predictors = self.model, self.predictors
        if distribution.has_several_workers(setup.strategy):
            tasks = [item.task for item in setup.data]
            model = TaskModel.for_tasks(setup.config, tasks)
            local = tf.distribute.get_strategy()
            predictors = [
                inference.make_logits_function(TaskObjective(model, task), local) for task in tasks
            ]
        weights.assign(model, arrays, setup.output)
        return predictors

    def _items(self, seed: int, first: int) -> Iterator[batches.TrainingItem]:
        return batches.training_items(
            self.setup.data,
            self.schedule,
            self.setup.settings.batch_size,
            seed,
            first,
            self.setup.strategy,
        )

    def _step(self, item: batches.TrainingItem, number: tf.Tensor, seed: tf.Tensor) -> TaskCounts:
        task, batch = item
        return self._steps[task](batch, number, seed)

    def evaluate(self) -> tuple[float, dict[str, float]]:
        """The score (mean of the main metrics), and all metrics by name."""
        mains, metrics = [], {}
        several = len(self.setup.data) > 1
        for item, predictor in zip(self.setup.data, self.predictors, strict=True):
            for index, split in enumerate(item.dev):
                logits = predictor(split.features)
                predictions = item.task.predict(split.examples, split.features, logits)
                task = item.task.tune(split.examples, predictions)
                found = task.metrics(split.examples, predictions)
                if index == 0:
                    mains.append(found[task.main_metric])
                prefix = f"{task.name}/" if several else ""
                prefix += f"{split.name}/" if index else ""
                metrics |= {f"{prefix}{name}": value for name, value in found.items()}
        return sum(mains) / len(mains), metrics

    def keep(self, seed: int) -> None:
        """Writes the weights of this moment as those that the run is about."""
        if distribution.is_chief(self.setup.strategy):
            prefix = checkpoints.MODEL_PREFIX
            arrays = {f"{prefix}{v.path}": v.numpy() for v in self.model.variables}
            checkpoints.write_arrays(self.setup.kept_folder(self.rate, seed), arrays)


class _Course:
    """What is shown and noted while one seed is trained.

    Args:
      run: whose course it is.
      folder: for history, evaluations and TensorBoard.
      seed: of the run.
      start: the steps done before.
      begin: when this process began with it, by time.perf_counter.
    """

    def __init__(self, run: Run, folder: str, seed: int, start: int, begin: float):
        chief = distribution.is_chief(run.setup.strategy)
        self._run, self._seed = run, seed
        kind = progress.FineTuningPoint
        self._history = progress.History(f"{folder}/history.jsonl", kind, start, chief)
        self._begin = begin - self._history.seconds
        self.scores = _Scores(f"{folder}/evaluations.json", start, run.setup.settings, chief)
        logs = f"{folder}/tensorboard" if run.setup.tensorboard and chief else None
        self.display = progress.Display(
            f"lr {run.rate:g}, seed {seed}", run.total_steps, start, logs
        )
        self._lap = time.perf_counter()

    def seconds(self) -> float:
        """Seconds given to the run, by earlier processes too."""
        return time.perf_counter() - self._begin

    def report(self, done: int, counts: list[TaskCounts]) -> None:
        """Notes and shows the steps since the last call."""
        examples = len(counts) * self._run.setup.settings.batch_size
        point = progress.FineTuningPoint(
            done,
            sum(count.loss for count in counts) / max(sum(count.total for count in counts), 1e-9),
            float(self._run.optimizer.learning_rate),
            examples / (time.perf_counter() - self._lap),
            self.seconds(),
        )
        self._history.add(point)
        self.display.show(point)
        self._lap = time.perf_counter()

    def evaluate(self, done: int) -> bool:
        """Scores the model, keeps it if it is the best; True if training may end."""
        score, metrics = self._run.evaluate()
        self.display.scalars(done, {f"dev/{name}": value for name, value in metrics.items()})
        if self.scores.add(done, score, metrics):
            self._run.keep(self._seed)
        self._lap = time.perf_counter()  # what was done here is not training
        return self.scores.enough


class _Scores:
    """The evaluations of a run, in a file; a resumed run goes on with them."""

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

    def add(self, step: int, score: float, metrics: dict[str, float]) -> bool:
        """Adds an evaluation; says whether it is the best so far."""
        better = not self.found or score > max(item["score"] for item in self.found)
        self.found.append({"step": step, "score": score, "metrics": metrics})
        if self._write:
            json_files.write(self._path, self.found)
            scores = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            tqdm.write(f"step {step}, dev: {scores}", file=sys.stderr)  # above the progress bar
        return better

    def _best_index(self) -> int:
        scores = [item["score"] for item in self.found]
        return scores.index(max(scores))

    def chosen(self) -> dict[str, Any]:
        """Score and metrics of the weights that are kept."""
        if not self.found:
            return {"score": None, "metrics": {}}
        last = self._settings.selection is Selection.LAST
        item = self.found[-1 if last else self._best_index()]
        return {"score": item["score"], "metrics": item["metrics"]}


def _layer_factors(model: TaskModel, decay: float) -> dict[str, float]:
    """Factors of the learning rate: 1 for head and pooler, `decay` less for each layer below."""
    if decay == 1.0:
        return {}
    depth = len(model.encoder.blocks)
    factors = {}
    for index, block in enumerate(model.encoder.blocks):
        factors |= {variable.path: decay ** (depth - index) for variable in block.variables}
    embeddings = {v.path: decay ** (depth + 1) for v in model.encoder.embeddings.variables}
    return factors | embeddings


def _first_value(variable: keras.Variable, rng: np.random.Generator, stddev: float) -> np.ndarray:
    """A truncated normal for kernels, zeros for biases."""
    if len(variable.shape) < 2:
        return np.zeros(variable.shape, np.float32)
    values = rng.standard_normal(variable.shape)
    while (far := np.abs(values) > 2).any():
        values[far] = rng.standard_normal(int(far.sum()))
    return (stddev * values).astype(np.float32)
