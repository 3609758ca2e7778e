"""Pre-training from TFRecords to a checkpoint, a SavedModel and a report."""

import bisect
import dataclasses
import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf.export import saved_model, sources
from bert_tf.models.base_config import EncoderConfig
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.registry import OBJECTIVES
from bert_tf.pretraining import (
    baselines,
    evaluation,
    first_weights,
    inputs,
    masked_sentences,
    outlook,
    report,
    schedule,
)
from bert_tf.pretraining.milestones import Milestones
from bert_tf.pretraining.settings import PretrainingSettings, RunOptions
from bert_tf.pretraining.time_budget import TimeBudget
from bert_tf.training import (
    distribution,
    lost_workers,
    progress,
    run_folder,
    throughput,
)
from bert_tf.training.course import Course
from bert_tf.training.loop import (
    Counts,
    DivergenceError,
    LoopSettings,
    TrainingDivergedError,
    fingerprint,
)
from bert_tf.training.lost_workers import Watch
from bert_tf.training.schedules import WarmupHoldDecay
from bert_tf.training.session import Session
from bert_tf.training.settings import StrategyName
from bert_tf.training.step import Source
from bert_tf.weights import own
from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader
from pipelines.pretraining.data_service import DataService


@lost_workers.told()
def pretrain(settings: PretrainingSettings, output: str, options: RunOptions) -> dict[str, Any]:
    """Pre-trains a model, or goes on with a run that was stopped.

    Args:
      settings: what to train.
      output: folder for checkpoints, bert_config.json, vocab.txt, SavedModel
        and report.
      options: how to run.

    Returns:
      The report.

    Raises:
      InputError: the examples, the vocabulary and the model do not fit, the
        output folder is of another run, or the loss is no number any more.
      stopping.Stopped: a signal came.
      RetryError: another worker was lost.
    """
    start_time = time.perf_counter()
    settings.check()
    options.check()
    if settings.minutes is not None and options.keep_at:
        raise InputError("--keep_at: shares of --steps, which are not known with --minutes.")
    settings = settings.timed()
    service = inputs.data_service(options)
    if service is not None:
        service.check()
    done = run_folder.is_finished(output)
    strategy = distribution.make_strategy(StrategyName.ONE_DEVICE if done else settings.strategy)
    for phase in settings.phases:
        distribution.check_batch(phase.batch_size, settings.accumulation, strategy)
    data = inputs.open_data(settings)
    config = inputs.model_config(settings, data)
    with lost_workers.watched(strategy, settings.worker_timeout) as watch:
        setup = _Setup(settings, output, options, data, config, strategy, watch, done)
        return _pretrain(setup, start_time)


@dataclasses.dataclass(frozen=True)
class _Setup:
    """What a run is made of."""

    settings: PretrainingSettings
    output: str
    options: RunOptions
    data: inputs.PretrainingData
    config: EncoderConfig
    strategy: tf.distribute.Strategy
    watch: Watch
    done: bool

    def identity(self) -> dict[str, Any]:
        """What must be the same for it to be gone on with."""
        return inputs.run_identity(self.settings, self.data, self.config)


def _pretrain(setup: _Setup, start_time: float) -> dict[str, Any]:
    """See `pretrain`."""
    setup = _settled(setup)
    chief = distribution.is_chief(setup.strategy) and not setup.done
    try:
        with run_folder.open_run(setup.output, setup.identity(), write=chief) as finished:
            if finished is not None:
                return finished
            run = _Run(setup)
            result = run.finish(run.train(), start_time)
            distribution.meet(setup.strategy)
            return result
    except tf.errors.DataLossError as error:
        data = setup.data
        paths = [
            path
            for examples in (*data.training, data.held_out)
            if examples
            for path in examples.paths
        ]
        raise example_reader.find_damage(paths) from error


def _settled(setup: _Setup) -> _Setup:
    """The same with what was left open: the precision."""
    settings, strategy = setup.settings, setup.strategy
    precision = run_folder.settled_precision(settings.precision, setup.output, strategy)
    settings = dataclasses.replace(settings, precision=precision)
    setup = dataclasses.replace(setup, settings=settings)
    told = [setup.identity(), settings.pace(), setup.options.pace()]
    distribution.check_same(strategy, told, run_folder.DIFFERENT_COMMANDS)
    if not setup.done:
        inputs.check_memory(settings, setup.data, setup.config, strategy)
    return setup


class _Run:
    """One process's part of a run."""

    def __init__(self, setup: _Setup):
        self.settings, self.output, self.options = setup.settings, setup.output, setup.options
        self.data, settings, data = setup.data, setup.settings, setup.data
        self._service = inputs.data_service(setup.options)
        objective = OBJECTIVES[data.objective]
        traits = inputs.traits(data)
        keras.utils.set_random_seed(settings.seed)
        with setup.strategy.scope():
            rates = schedule.of_run(settings)
        self.session = Session(
            setup.strategy,
            settings,
            rates,
            lambda: objective.for_examples(setup.config, traits, dtype=settings.precision),
            watch=setup.watch,
            beta_2=settings.beta_2,
        )
        self.model: PretrainingObjective = self.session.model
        self.model.encoder.set_vocabulary(data.tokenizer.vocabulary)
        inputs.check_features(self.model, settings, data)
        self._kept_steps = self.options.kept_steps(settings.total_steps)
        self.checkpoints = self.session.checkpoints(
            f"{self.output}/checkpoints", kept=self._kept_steps
        )
        self.evaluate = evaluation.make_evaluation(self.model, setup.strategy)
        self._ends = list(itertools.accumulate(phase.steps for phase in settings.phases))

    def train(self) -> Course:
        """Trains from the newest whole checkpoint, or from the beginning, to the last step."""
        start = self._restore()
        peak = throughput.peak_flops(tf.as_dtype(self.model.compute_dtype))
        self._log_begin(start, peak)
        shares = self._peak_shares(peak * self.session.strategy.num_replicas_in_sync)
        milestones, budget = self._milestones(), self._time_budget(start)

        def note(done: int, counts: list[Counts]) -> None:
            index = bisect.bisect_left(self._ends, done)
            batch_size = self.settings.phases[index].batch_size
            course.note(done, counts, batch_size, index, shares[index])
            if budget:
                budget.note(done, course.history, batch_size)
                course.display.end_at(self.session.total_steps)
            if self._is_milestone(done):
                with course.apart():
                    milestones.guess(done)

        def evaluate(done: int) -> bool:
            found = self._held_out_metrics()
            milestones.score(done, found)
            texts = (progress.metric_text(k, v) for k, v in found.items() if not math.isnan(v))
            logging.info("step %d, held out: %s", done, ", ".join(texts))
            return False

        tensorboard = self.options.tensorboard
        with Course(
            self.session, self.model, self.output, "pre-train", start, tensorboard
        ) as course:
            try:
                course.train(self._sources, self.checkpoints, self._loop_settings(), note, evaluate)
            except DivergenceError as error:
                raise _with_remedy(error) from error
        return course

    def _restore(self) -> int:
        """Gives the model the weights to go on from, or the first; returns the steps done."""
        restored = self.checkpoints.resume()
        distribution.check_same(self.session.strategy, restored, run_folder.DIFFERENT_FOLDERS)
        if restored is None and self.settings.init_checkpoint:
            first_weights.initialize(
                self.model,
                self.checkpoints,
                self.data.tokenizer,
                self.settings.phases[0].tfrecords,
                self.settings.init_checkpoint,
            )
        elif restored is None and self.settings.sinusoidal_positions:
            first_weights.place_sinusoids(self.model)
        return restored or 0

    def _time_budget(self, start: int) -> TimeBudget | None:
        """What ends the run in time, where minutes count."""
        schedule, minutes = self.session.schedule, self.settings.minutes
        if minutes is None or not isinstance(schedule, WarmupHoldDecay):
            return None
        share, session = self.settings.decay_fraction, self.session
        return TimeBudget(
            minutes, share, schedule, self.output, start, session.strategy, session.is_chief
        )

    def _milestones(self) -> Milestones:
        """What is to be noted as training goes on: guesses for the first held-out sentences."""
        milestones = Milestones(self.output, self.session.is_chief)
        questions = self._questions()
        if questions:
            milestones.ask(self.model, questions, self.data.tokenizer.vocabulary.tokens)
        return milestones

    def _is_milestone(self, done: int) -> bool:
        """Whether a checkpoint or an evaluation follows after so many steps."""
        options = self.options
        periods = [options.save_every, options.evaluate_every or options.save_every]
        return done == self.session.total_steps or not all(done % period for period in periods)

    def _questions(self) -> masked_sentences.Questions | None:
        """Words to guess in the first held-out examples; None where no model guesses any."""
        if self.data.held_out is None or not self.model.guesses_masked:
            return None
        batches = example_reader.evaluation_batches(self.data.held_out, evaluation.BATCH)
        first = next(evaluation.prepared(self.model, batches))
        return masked_sentences.choose(first, self.data.tokenizer)

    def _loop_settings(self) -> LoopSettings:
        options = self.options
        return self.session.loop_settings(
            seed=self.settings.seed,
            save_every=options.save_every,
            log_every=options.log_every,
            evaluate_every=options.evaluate_every,
            save_at=self._kept_steps,
        )

    def _log_begin(self, start: int, peak: float) -> None:
        """Says what is trained, and how; `peak` is a device's FLOP/s."""
        strategy = self.session.strategy
        logging.info(
            "%s parameters, %s, %s, XLA: %s, on %d x %s; from step %d",
            f"{self.model.count_params():,}",
            self.settings.precision,
            self.data.objective,
            self.session.compilation,
            strategy.num_replicas_in_sync,
            strategy.extended.worker_devices[0].rsplit("/", 1)[-1],
            start,
        )
        logging.info(
            "peak of a device: %.3g GFLOP/s, measured on a large product of matrices", peak / 1e9
        )
        if self.options.tensorboard and self.session.is_chief:
            progress.log_tensorboard(self.output)

    def _sources(self, start: int) -> Iterator[Source]:
        """The batches of all phases, from a step on."""
        step = self.session.make_step(self.model)
        for index, phase in enumerate(self.settings.phases):
            within = max(start - (self._ends[index] - phase.steps), 0)
            if within < phase.steps:
                batches = iter(self._batches(index, within, self._service))
                yield from itertools.repeat(Source(step, batches), phase.steps - within)

    def _batches(
        self, index: int, start: int, service: DataService | None = None
    ) -> tf.distribute.DistributedDataset:
        """Distributed batches of a phase, from any one on: endless where no service makes them."""

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            count, phase = context.num_input_pipelines, self.settings.phases[index]
            return example_reader.training_batches(
                self.data.training[index],
                phase.batch_size,
                self.settings.seed + index,
                start,
                shard=(context.input_pipeline_id, count),
                replicas=context.num_replicas_in_sync // count,
                batches=phase.steps - start,
                service=service,
            )

        return self.session.strategy.distribute_datasets_from_function(dataset)

    def _peak_shares(self, peak: float) -> list[float]:
        """For each phase: of what all devices compute in a second, what a sequence takes."""
        shares = []
        for examples, manifest in zip(self.data.training, self.data.manifests, strict=True):
            length, most = examples.max_seq_length, manifest["settings"]["max_predictions_per_seq"]
            predictions = self.model.predictions(length, most)
            flops = throughput.training_flops(
                self.model.encoder, self.model.token_head, length, predictions
            )
            shares.append(flops / peak)
        return shares

    def finish(self, course: Course, start_time: float) -> dict[str, Any]:
        """Evaluates, exports, and writes the report.

        Args:
          course: of the training.
          start_time: of this process, as time.perf_counter gives it.
        """
        metrics = self._held_out_metrics()
        Milestones(self.output, self.session.is_chief).score(self.session.total_steps, metrics)
        result: dict[str, Any] = {
            **dict.fromkeys(self.model.curves, math.nan),
            **metrics,
            **baselines.of_data(self.model, self.data, self.settings.seed),
            "expected_gain": self._expected_gain(course),
            "steps": self.session.total_steps,
            "sequences_per_second": course.history.rate,
            "input_wait_share": course.history.input_wait_share,
            "seconds": course.seconds(start_time),
            "held_out_examples": self.data.held_out.total if self.data.held_out else 0,
            "parameters": self.model.count_params(),
            "precision": self.settings.precision,
            "objective": str(self.data.objective),
            "data": self._describe_data(),
            "weights_sha256": fingerprint(self.session.state()),
        }
        result = json_files.as_json(result)
        if not self.session.is_chief:
            return result
        source = sources.of_model(
            self.model, self.data.tokenizer, self.output, self._describe_data()
        )
        own.write_sealed_description(source.bundle, self.output)
        if self.options.saved_model:
            saved_model.write([source], f"{self.output}/saved_model", replace=True)
        questions = self._questions()
        if questions:
            result["masked_sentences"] = masked_sentences.report(
                self.model, questions, self.data.tokenizer.vocabulary.tokens
            )
        report.draw_curves(course.history.points, f"{self.output}/curves.png")
        run_folder.write_report(self.output, result)
        return result

    def _expected_gain(self, course: Course) -> float:
        """What more time would bring; NaN where that is not known."""
        points, (phase, *others) = course.history.points, self.settings.phases
        if others or not self.model.guesses_masked:
            return math.nan
        return outlook.expected_gain(points, course.history.training_seconds(phase.batch_size))

    def _describe_data(self) -> dict[str, Any]:
        data = self.data
        examples = {"train": sum(files.total for files in data.training)}
        if data.held_out:
            examples["held_out"] = data.held_out.total
        return self.settings.describe_data(examples)

    def _held_out_metrics(self) -> dict[str, float]:
        if self.data.held_out is None:
            return self.model.metrics_of({})
        batches = example_reader.evaluation_batches(self.data.held_out, evaluation.BATCH)
        return self.evaluate(batches)


def _with_remedy(error: DivergenceError) -> TrainingDivergedError:
    remedy = "with a lower --learning_rate or a longer --warmup_steps, and another --output"
    if error.checkpoint:
        remedy = f"from it: --init_checkpoint={error.checkpoint}, {remedy}"
    return TrainingDivergedError(f"{error} Start a new run {remedy}.")
