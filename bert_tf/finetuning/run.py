"""One run of fine-tuning: one learning rate and one seed."""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypedDict

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from bert_tf import tasks, weights
from bert_tf.finetuning import batches
from bert_tf.finetuning.freezing import Frozen
from bert_tf.finetuning.preparation import PreparedRun
from bert_tf.finetuning.settings import FineTuningSettings, Selection
from bert_tf.tasks import objectives
from bert_tf.tasks.labels import LabelTask
from bert_tf.tasks.model import TaskModel
from bert_tf.training import checkpoints, distribution, run_folder
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.loop import DivergenceError
from bert_tf.training.lost_workers import Watchdog
from bert_tf.training.run_monitor import RunMonitor
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.session import Session
from bert_tf.training.step import StepSource
from bert_tf.weights.bundle import HEADS, MASKED_LM, POOLER, head_units
from pipelines.common import files, json_files

_RESULT = "result.json"
_CHECKPOINTS = "checkpoints"
_OF_MASKED_LM = {"transform": "transform/dense", "norm": "transform/norm"}  # parts of heads
_LOG_EVERY = 20  # steps
_SAVE_EVERY = 1000  # steps; evaluations save, too
_CRF_RATE = 100.0  # factor of the learning rate of transitions


class Evaluation(TypedDict):
    """The score on dev after a step, which is the mean of the main metrics, and all metrics."""

    step: int
    score: float
    metrics: dict[str, float]


class RunResult(TypedDict):
    """The result of a run: `score` and `metrics` of the kept weights, and the time it took.

    `score` is None without dev data, `diverged` a message if the loss became NaN or infinite. A run
    of `steps` may have ended before them.
    """

    learning_rate: float
    seed: int
    score: float | None
    metrics: dict[str, float]
    evaluations: list[Evaluation]
    steps: int
    seconds: float
    diverged: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup(PreparedRun):
    """What the runs over rates and seeds share."""

    output: str
    tensorboard: bool
    watchdog: Watchdog
    evaluated: Callable[[float, float], None] | None  # fraction of the steps, score on dev

    def run_folder(self, rate: float, seed: int) -> str:
        """The folder of a run."""
        return f"{self.output}/runs/lr-{rate}-seed-{seed}"

    def kept_folder(self, rate: float, seed: int) -> str:
        """The folder of the weights that a run keeps until the best run is known."""
        return f"{self.run_folder(rate, seed)}/kept"


class Scores:
    """The evaluations of a run, in a file, which decide what weights are kept and when it ends.

    Args:
      path: path of the file.
      start: the step that the run resumes from; later evaluations are dropped.
      settings: settings of the run.
      write: whether this process writes the file.
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
    def best(self) -> int:
        """The index of the first evaluation with the best score."""
        scores = [item["score"] for item in self.found]
        return scores.index(max(scores))

    @property
    def enough(self) -> bool:
        """Whether the score has not improved for as many evaluations as patience allows."""
        patience = self._settings.patience
        return bool(patience and self.found) and len(self.found) - 1 - self.best >= patience

    def is_best(self, score: float) -> bool:
        """Whether a score is better than all before."""
        return not self.found or score > self.found[self.best]["score"]

    def add(self, step: int, score: float, metrics: dict[str, float]) -> None:
        """Adds an evaluation."""
        self.found.append({"step": step, "score": score, "metrics": metrics})
        if self._write:
            json_files.write(self._path, self.found)
            scores = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            tqdm.write(f"step {step}, dev: {scores}", file=sys.stderr)  # above the progress bar

    def chosen(self) -> tuple[float | None, dict[str, float]]:
        """Score and metrics of the weights that are kept; None and {} without evaluations."""
        if not self.found:
            return None, {}
        item = self.found[-1 if self._settings.selection is Selection.LAST else self.best]
        return item["score"], item["metrics"]


class Run:
    """A model, its optimizer and compiled steps, for all seeds of a learning rate.

    Args:
      setup: what runs share.
      rate: the learning rate at the end of the warm-up.
    """

    def __init__(self, setup: Setup, rate: float):
        self.setup = setup
        self.rate = rate
        settings = setup.settings
        self._training = [*setup.data, *setup.unlabelled]
        self.schedule = batches.TaskOrder(self._training, settings.batch_size)
        self.total_steps = max(1, round(settings.epochs * self.schedule.steps_per_epoch))
        warmup_steps = round(settings.warmup_fraction * self.total_steps)

        def make_model() -> TaskModel:
            tasks = [item.task for item in setup.data]
            model = TaskModel.for_tasks(setup.config, tasks, dtype=settings.precision)
            for layer in Frozen.parse(settings.freeze, setup.config).layers(model.encoder):
                layer.trainable = False
            return model

        self.session = Session(
            setup.strategy,
            settings,
            WarmupLinearDecay(rate, warmup_steps, self.total_steps),
            make_model,
            lambda model: _layer_factors(model, settings.layer_decay),
            setup.watchdog,
            bias_correction=True,
        )
        self.model: TaskModel = self.session.model
        tokenizer = setup.bundle.tokenizer
        trained = [objectives.make(self.model, item.task, tokenizer) for item in self._training]
        self._objective = trained[0]
        self._steps = [
            self.session.make_step(
                objective, batches.spec(item, settings.batch_size, setup.strategy)
            )
            for objective, item in zip(trained, self._training, strict=True)
        ]
        fused = self.session.compilation is distribution.Compilation.FUSED
        self.predictors = [
            batches.make_logits_function(objective, setup.strategy, fused)
            for objective in trained[: len(setup.data)]
        ]

    def train(self, seed: int) -> RunResult:
        """Trains with a seed, or resumes a run that was stopped.

        Raises:
          stopping.Stopped: a signal arrived.
        """
        folder = self.setup.run_folder(self.rate, seed)
        if files.gfile.exists(f"{folder}/{_RESULT}"):
            self._remove_checkpoints(folder)  # a kill may have left them
            return json_files.read(f"{folder}/{_RESULT}", RunResult, finite=False)
        begin = time.perf_counter()
        self._reset(seed)
        saved = self.session.checkpoints(f"{folder}/{_CHECKPOINTS}", keep=1)
        restored = saved.resume()
        distribution.check_same(self.setup.strategy, restored, run_folder.DIFFERENT_FOLDERS)
        start = restored or 0
        scores = Scores(
            f"{folder}/evaluations.json", start, self.setup.settings, self.session.is_chief
        )
        if self.setup.evaluated:
            for item in scores.found:
                self.setup.evaluated(item["step"] / self.total_steps, item["score"])
        name = f"lr {self.rate:g}, seed {seed}"
        with RunMonitor(
            self.session, self._objective, folder, name, start, self.setup.tensorboard, begin
        ) as monitor:
            diverged = self._train(monitor, saved, scores, seed)
            score, metrics = scores.chosen()
            result: RunResult = {
                "learning_rate": self.rate,
                "seed": seed,
                "score": score,
                "metrics": metrics,
                "evaluations": scores.found,
                "steps": self.total_steps,
                "seconds": monitor.seconds(),
                "diverged": diverged,
            }
        if self.session.is_chief:
            json_files.write(f"{folder}/{_RESULT}", result)
        self._remove_checkpoints(folder)
        return result

    def _remove_checkpoints(self, folder: str) -> None:
        if self.session.is_chief:
            files.remove_tree(f"{folder}/{_CHECKPOINTS}")

    def _train(
        self, monitor: RunMonitor, saved: Checkpoints, scores: Scores, seed: int
    ) -> str | None:
        """Trains, evaluates, and keeps weights; returns why it diverged, None if it did not."""
        settings, per_epoch = self.setup.settings, self.schedule.steps_per_epoch
        scored = any(item.dev for item in self.setup.data)

        def evaluate(done: int) -> bool:
            score, metrics = self.evaluate()
            monitor.display.scalars(done, {f"dev/{name}": x for name, x in metrics.items()})
            # A noted step is not evaluated again, so its weights are kept before.
            if scores.is_best(score):
                self.keep(seed)
            scores.add(done, score, metrics)
            if self.setup.evaluated:
                self.setup.evaluated(done / self.total_steps, score)
            return scores.enough

        count = settings.evaluations
        evaluate_every = max(1, round(per_epoch / count)) if count else 0  # 0: only at the end
        try:
            if not scores.enough:
                monitor.train(
                    lambda first: self._sources(seed, first),
                    saved,
                    lambda done, counts: monitor.note(done, counts, settings.batch_size),
                    evaluate if scored else None,
                    seed=seed,
                    save_every=_SAVE_EVERY,
                    log_every=_LOG_EVERY,
                    evaluate_every=evaluate_every,
                )
            if scored and not scores.enough and scores.last_step != self.total_steps:
                evaluate(self.total_steps)  # the last epoch was not whole
        except DivergenceError as error:  # the other runs still count
            diverged = f"learning rate {self.rate:g}, seed {seed}: {error.what}."
            logging.warning(diverged)
            return diverged
        if not scored or settings.selection is Selection.LAST:
            self.keep(seed)
        return None

    def _reset(self, seed: int) -> None:
        """Sets the first weights: those of the given model; heads and missing ones by the seed."""
        keras.utils.set_random_seed(seed)
        self.session.optimizer.reset()
        settings = self.setup.settings
        missing = weights.assign(self.model, self._first_weights(), settings.init)
        rng = np.random.default_rng(seed)
        stated = self.model.weights_by_path()
        biases = {
            f"{HEADS}{item.task.name}/bias": item.task.first_bias
            for item in self.setup.data
            if isinstance(item.task, LabelTask)
        }
        for variable in self.model.variables:
            if variable.path in missing:
                first = stated[variable.path].first_value(rng)
                variable.assign(biases.get(variable.path) or first)
        if any(path.startswith(POOLER) for path in missing) and self.model.encoder.pooler.trainable:
            logging.warning("%s has no pooler; a new one is trained.", settings.init)

    def _first_weights(self) -> dict[str, np.ndarray]:
        """The given weights; of the heads, those of the same form, trained for the same task.

        The dense layer and the norm of other heads are those of the masked LM (ModernBERT).
        """
        bundle, init = self.setup.bundle, self.setup.settings.init
        trained = {item.task.name: item.task for item in self.setup.data}
        same = {
            entry["name"]
            for entry in bundle.tasks
            if (task := trained.get(entry["name"]))
            and entry["shape"] == task.shape
            and (tuple(entry["labels"]) == task.labels or not task.own_head)
            and tasks.load(entry).head == task.head
        }
        for name in head_units(bundle.weights):
            how = "is trained further" if name in same else "is another one and left out"
            logging.info("%s: the head of %s %s.", init, name, how)
        found = {}
        for name, value in bundle.weights.items():
            part, _, variable = name.removeprefix(MASKED_LM).partition("/")
            if name.startswith(MASKED_LM) and part in _OF_MASKED_LM:
                for other in trained.keys() - same:
                    found[f"{HEADS}{other}/{_OF_MASKED_LM[part]}/{variable}"] = value
            if not name.startswith(HEADS) or name.split("/")[1] in same:
                found[name] = value
        return found

    def predictors_of(self, arrays: dict[str, np.ndarray]) -> list[batches.LogitsFunction]:
        """A predictor of each task, with weights that were kept.

        One of several workers may call this alone: it computes on its own device, without the
        others.
        """
        setup = self.setup
        model, predictors = self.model, self.predictors
        if distribution.has_several_workers(setup.strategy):
            tasks = [item.task for item in setup.data]
            model = TaskModel.for_tasks(setup.config, tasks)
            local = tf.distribute.get_strategy()
            predictors = [
                batches.make_logits_function(
                    objectives.make(model, task, setup.bundle.tokenizer), local
                )
                for task in tasks
            ]
        weights.assign(model, arrays, setup.output)
        return predictors

    def _sources(self, seed: int, first: int) -> Iterator[StepSource]:
        """The batches of all tasks, starting at a step."""
        size, strategy = self.setup.settings.batch_size, self.setup.strategy
        streams = batches.training_streams(
            self._training, self.schedule, size, seed, first, strategy
        )
        return (StepSource(self._steps[task], stream) for task, stream in streams)

    def evaluate(self) -> tuple[float, dict[str, float]]:
        """The score (mean of the main metrics), and all metrics by name."""
        mains: list[float] = []
        metrics: dict[str, float] = {}
        several = len(self.setup.data) > 1
        for item, predictor in zip(self.setup.data, self.predictors, strict=True):
            for index, (split, prefix) in enumerate(item.scored(several)):
                logits = predictor(split.features)
                predictions = item.task.predict(split.examples, split.features, logits)
                task = item.task
                if not self.setup.settings.fold:  # cross-validation chooses nothing here
                    task = task.tune(split.examples, predictions)
                found = task.metrics(split.examples, predictions)
                if index == 0:
                    mains.append(found[task.main_metric])
                metrics |= {f"{prefix}{name}": value for name, value in found.items()}
        return sum(mains) / len(mains), metrics

    def keep(self, seed: int) -> None:
        """Writes the current weights as those that the run keeps."""
        if self.session.is_chief:
            prefix = checkpoints.MODEL_PREFIX
            arrays = {f"{prefix}{v.path}": v.numpy() for v in self.model.variables}
            checkpoints.write_arrays(self.setup.kept_folder(self.rate, seed), arrays)


def _layer_factors(model: TaskModel, decay: float) -> dict[str, float]:
    """Factors of the learning rate: 1 for head and pooler, `decay` less for each layer below.

    The transitions of a CRF, which begin at 0, would hardly move at the rate of an encoder.
    """
    chains = [head.transitions for head in model.heads.members() if head.transitions is not None]
    factors = {variable.path: _CRF_RATE for variable in chains}
    if decay == 1.0:
        return factors
    layers = model.encoder.layer_variables()
    return factors | {
        variable.path: decay ** (len(layers) - index)
        for index, layer in enumerate(layers)
        for variable in layer
    }
