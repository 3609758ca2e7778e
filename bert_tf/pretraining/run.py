"""Pre-training from TFRecords to a checkpoint, a SavedModel and a report."""

import bisect
import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf import weights
from bert_tf.export import saved_model, sources
from bert_tf.models.base_config import EncoderConfig
from bert_tf.objectives.base import Batch, PretrainingObjective
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import LeftToRight
from bert_tf.pretraining import (
    baselines,
    distillation,
    evaluation,
    first_weights,
    inputs,
    masked_sentences,
    report,
    samples,
    word_vectors,
)
from bert_tf.pretraining.milestones import Milestones
from bert_tf.pretraining.schedule import TimeBudget, make_schedule
from bert_tf.pretraining.settings import (
    FIRST_EMBEDDINGS,
    DistillationSettings,
    PretrainingSettings,
    RunOptions,
)
from bert_tf.training import checkpoints, distribution, hardware, lost_workers, progress, run_folder
from bert_tf.training.loop import Counts, DivergenceError, TrainingDivergedError
from bert_tf.training.lost_workers import Watchdog
from bert_tf.training.run_monitor import RunMonitor
from bert_tf.training.session import Session
from bert_tf.training.settings import StrategyName
from bert_tf.training.step import StepSource
from bert_tf.weights import generators, own
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader


@lost_workers.reported()
def pretrain(settings: PretrainingSettings, output: str, options: RunOptions) -> dict[str, Any]:
    """Pre-trains a model, or resumes a run that was stopped.

    Args:
      settings: what to train.
      output: folder for checkpoints, bert_config.json, vocab.txt, SavedModel and report.
      options: how to run.

    Returns:
      The report.

    Raises:
      InputError: the examples, the vocabulary and the model do not match, the output folder is of
        another run, or the loss became NaN or infinite.
      stopping.Stopped: a signal came.
      RetryError: another worker was lost.
    """
    start_time = time.perf_counter()
    settings.check()
    options.check()
    if settings.minutes is not None and options.keep_at:
        raise InputError("--keep_at: fractions of --steps, which are not known with --minutes.")
    if settings.minutes is not None and options.data_service:
        raise InputError("--data_service: needs --steps, which are not known with --minutes.")
    settings = settings.timed()
    service = inputs.data_service(options)
    if service is not None:
        service.check()
    done = run_folder.is_finished(output)
    strategy = distribution.make_strategy(StrategyName.ONE_DEVICE if done else settings.strategy)
    run_folder.check_output(output, distribution.is_chief(strategy))
    for phase in settings.phases:
        distribution.check_batch(phase.batch_size, settings.accumulation, strategy)
    data = inputs.open_data(settings)
    config = inputs.model_config(settings, data)
    if data.held_out is None:
        if options.evaluate_every:
            logging.warning(
                "--evaluate_every has no effect: there are no held-out examples "
                "(write-examples --held_out_fraction)."
            )
        options = dataclasses.replace(options, evaluate_every=0)
    with lost_workers.watchdog(strategy, settings.worker_timeout) as watchdog:
        precision = run_folder.settled_precision(settings.precision, output, strategy)
        settings = dataclasses.replace(settings, precision=precision)
        identity = inputs.run_identity(settings, data, config)
        shared = [identity, settings.pace(), options.pace()]
        distribution.check_same(strategy, shared, run_folder.DIFFERENT_COMMANDS)
        if not done:
            inputs.check_memory(settings, data, config, strategy)
        chief = distribution.is_chief(strategy) and not done
        with run_folder.open_run(output, identity, write=chief) as finished, _damage_named(data):
            if finished is not None:
                run_folder.warn_of_late(output, settings.too_late(finished))
                return finished
            run = _Run(settings, output, options, data, config, strategy, watchdog)
            result = run.finish(run.train(), start_time)
            distribution.meet(strategy)
            return result


@contextlib.contextmanager
def _damage_named(data: inputs.PretrainingData) -> Iterator[None]:
    """Turns TensorFlow's error for a damaged file into one that names the file."""
    try:
        yield
    except tf.errors.DataLossError as error:
        examples = [each for each in (*data.training, data.held_out) if each]
        paths = [path for each in examples for path in each.paths]
        raise example_reader.find_damage(paths) from error


_OTHER_EMBEDDINGS = "the rounding of their first word embeddings; use --pmi_embeddings=false"


class _Run:
    """One process's part of a run; arguments are those of `pretrain`, checked."""

    def __init__(
        self,
        settings: PretrainingSettings,
        output: str,
        options: RunOptions,
        data: inputs.PretrainingData,
        config: EncoderConfig,
        strategy: tf.distribute.Strategy,
        watchdog: Watchdog,
    ):
        self.settings, self.output, self.options, self.data = settings, output, options, data
        keras.utils.set_random_seed(settings.seed)
        with strategy.scope():
            schedule = make_schedule(settings)
        self.session = Session(
            strategy,
            settings,
            schedule,
            lambda: inputs.make_objective(settings, data, config),
            watchdog=watchdog,
            beta_2=settings.beta_2,
        )
        self.model: PretrainingObjective = self.session.model
        self.model.encoder.set_vocabulary(data.tokenizer.vocabulary)
        inputs.check_features(self.model, settings, data)
        self._kept_steps = options.kept_steps(settings.total_steps)
        self.checkpoints = self.session.checkpoints(f"{output}/checkpoints", kept=self._kept_steps)
        self.evaluate = evaluation.make_evaluation(self.model, strategy)
        self._ends = list(itertools.accumulate(phase.steps for phase in settings.phases))

    def train(self) -> RunMonitor:
        """Trains from the newest whole checkpoint, or from the beginning, to the last step."""
        start = self._restore()
        lost = {step for step in self._kept_steps if step <= start} - {*self.checkpoints.steps()}
        if lost:
            past = ", ".join(map(str, sorted(lost)))
            logging.warning("--keep_at: the run is past step %s and has no checkpoint of it.", past)
        (peak,) = hardware.peak_flops(tf.as_dtype(self.model.compute_dtype))
        self._log_begin(start, peak)
        peaks = self._peak_fractions(peak * self.session.strategy.num_replicas_in_sync)
        milestones, minutes = self._milestones(start), self.settings.minutes
        budget = minutes and TimeBudget(
            minutes, self.settings.decay_fraction, self.session, self.output, start
        )

        def note(done: int, counts: list[Counts]) -> None:
            index = bisect.bisect_left(self._ends, done)
            batch_size = self.settings.phases[index].batch_size
            monitor.note(done, counts, batch_size, index, peaks[index])
            if budget:
                budget.note(done, monitor.history, batch_size)
                monitor.display.end_at(self.session.total_steps)
            if self._is_milestone(done):
                with monitor.apart():
                    milestones.guess(done)

        def evaluate(done: int) -> bool:
            found = self._held_out_metrics()
            milestones.score(done, found)
            texts = (progress.metric_text(k, v) for k, v in found.items() if not math.isnan(v))
            logging.info("step %d, held out: %s", done, ", ".join(texts))
            return False

        options, begin = self.options, (self.output, "pre-train", start)
        with RunMonitor(self.session, self.model, *begin, options.tensorboard) as monitor:
            try:
                monitor.train(
                    self._sources,
                    self.checkpoints,
                    note,
                    evaluate,
                    seed=self.settings.seed,
                    save_every=options.save_every,
                    log_every=options.log_every,
                    evaluate_every=options.evaluate_every,
                    save_at=self._kept_steps,
                    source_ends=tuple(self._ends),
                )
            except DivergenceError as error:
                raise _with_remedy(error, self.settings) from error
        return monitor

    def _restore(self) -> int:
        """Restores the newest checkpoint, or sets the first weights; returns the steps done."""
        restored = self.checkpoints.resume()
        distribution.check_same(self.session.strategy, restored, run_folder.DIFFERENT_FOLDERS)
        teacher = self.data.teacher
        if restored is None and teacher is not None:
            assert isinstance(self.settings, DistillationSettings)  # which has a teacher
            layers = self.settings.teacher_layers
            first = distillation.first_weights(layers, self.model.config, teacher)
            weights.assign(self.model, first, teacher.place)
        elif restored is None and self.settings.init:
            first_weights.initialize(
                self.model,
                self.checkpoints,
                self.data.tokenizer,
                self.settings.phases[0].tfrecords,
                self.settings.init,
            )
        elif restored is None:
            if self.settings.sinusoidal_positions:
                first_weights.place_sinusoids(self.model)
            if self.settings.pmi_embeddings:
                examples, tokenizer = self.data.training[0], self.data.tokenizer
                found = word_vectors.place(self.model, examples, tokenizer, self.settings.seed)
                distribution.check_same(self.session.strategy, found, _OTHER_EMBEDDINGS)
        return restored or 0

    def _milestones(self, start: int) -> Milestones:
        """The record of milestones from a step on, with questions about held-out sentences."""
        milestones = Milestones(self.output, start, self.session.is_chief)
        if questions := self._questions():
            milestones.ask(self.model, questions, self.data.tokenizer.vocabulary.tokens)
        return milestones

    def _is_milestone(self, done: int) -> bool:
        """Whether a checkpoint or an evaluation follows after this step."""
        options = self.options
        periods = [options.save_every, options.evaluate_every or options.save_every]
        due = done in self._kept_steps or not all(done % period for period in periods)
        return due or done == self.session.total_steps

    def _questions(self) -> masked_sentences.Questions | None:
        """Masked words of the first held-out examples; None if the model predicts none."""
        if self.data.held_out is None or not self.model.guesses_masked:
            return None
        return masked_sentences.choose(self._first_held_out(), self.data.tokenizer)

    def _first_held_out(self) -> Batch:
        """A batch of held-out examples; there must be some."""
        assert self.data.held_out is not None
        batches = example_reader.evaluation_batches(self.data.held_out, evaluation.BATCH)
        return next(evaluation.prepared(self.model, batches))

    def _log_begin(self, start: int, peak: float) -> None:
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
        logging.info("peak of a device: %.3g GFLOP/s, measured on a matrix product", peak / 1e9)
        if self.options.tensorboard and self.session.is_chief:
            progress.log_tensorboard(self.output)

    def _sources(self, start: int) -> Iterator[StepSource]:
        """The batches of all phases, from a step on."""
        step = self.session.make_step(self.model)
        for index, phase in enumerate(self.settings.phases):
            within = max(start - (self._ends[index] - phase.steps), 0)
            if within < phase.steps:
                batches = iter(self._batches(index, within))
                self.session.watchdog.other_work()  # the first step is compiled
                yield from itertools.repeat(StepSource(step, batches), phase.steps - within)

    def _batches(self, index: int, start: int) -> tf.distribute.DistributedDataset:
        """Distributed batches of a phase, from any one on; endless without a data service."""
        phase, service = self.settings.phases[index], inputs.data_service(self.options)

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            count = context.num_input_pipelines
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

    def _peak_fractions(self, peak: float) -> list[float]:
        """For each phase, the fraction of the devices' operations per second for one sequence."""
        found = []
        for examples, manifest in zip(self.data.training, self.data.manifests, strict=True):
            length, limits = examples.max_seq_length, manifest["settings"]
            forward = self.model.flops(length, limits["max_predictions_per_seq"])
            found.append(3 * forward / peak)
        return found

    def finish(self, monitor: RunMonitor, start_time: float) -> dict[str, Any]:
        """Evaluates, exports, and writes the report.

        Args:
          monitor: of the training.
          start_time: of this process, by time.perf_counter.
        """
        metrics = self._held_out_metrics()
        steps = self.session.total_steps
        Milestones(self.output, steps, self.session.is_chief).score(steps, metrics)
        result: dict[str, Any] = {
            **dict.fromkeys(self.model.curves, math.nan),
            **metrics,
            **baselines.of_data(self.model, self.data, self.settings.seed),
            "expected_gain": self._expected_gain(monitor),
            "steps": self.session.total_steps,
            "sequences_per_second": monitor.history.rate,
            "input_wait_fraction": monitor.history.input_wait_fraction,
            "seconds": monitor.seconds(start_time),
            "held_out_examples": self.data.held_out.total if self.data.held_out else 0,
            "parameters": self.model.count_params(),
            "precision": self.settings.precision,
            "objective": str(self.data.objective),
            "data": self._describe_data(),
            "weights_sha256": checkpoints.checksum(self.session.state()),
        }
        result = json_files.as_json(result)
        if not self.session.is_chief:
            return result
        tokenizer = self.data.tokenizer
        source = sources.of_model(self.model, tokenizer, self.output, self._describe_data())
        own.write_sealed_description(source.bundle, self.output)
        if generator := generators.generator(source.bundle):
            folder = f"{self.output}/{run_folder.GENERATOR}"
            files.remove_tree(folder)
            weights.write(generator, folder)
        if self.options.saved_model:
            saved_model.write([source], f"{self.output}/saved_model", replace=True)
        if questions := self._questions():
            result["masked_sentences"] = masked_sentences.report(
                self.model, questions, tokenizer.vocabulary.tokens
            )
        if isinstance(self.model, LeftToRight | Denoising) and self.data.held_out:
            result["samples"] = samples.write(self.model, self._first_held_out(), tokenizer)
        report.draw_curves(monitor.history.points, f"{self.output}/curves.png")
        run_folder.write_report(self.output, result)
        return result

    def _expected_gain(self, monitor: RunMonitor) -> float:
        """The gain of more training; NaN if unknown."""
        history, (phase, *others) = monitor.history, self.settings.phases
        if others or not self.model.guesses_masked:
            return math.nan
        return report.expected_gain(history.points, history.training_seconds(phase.batch_size))

    def _describe_data(self) -> dict[str, Any]:
        examples = {"train": sum(files.total for files in self.data.training)}
        if self.data.held_out:
            examples["held_out"] = self.data.held_out.total
        lengths = (files.max_seq_length for files in self.data.training)
        described = self.settings.describe_data(examples)
        return described | {"max_seq_length": max(lengths)}

    def _held_out_metrics(self) -> dict[str, float]:
        if (held_out := self.data.held_out) is None:
            return self.model.metrics_of({})
        most = max(found["settings"]["max_predictions_per_seq"] for found in self.data.manifests)
        size = evaluation.batch_size(self.model, held_out.max_seq_length, most)
        return self.evaluate(example_reader.evaluation_batches(held_out, size))


def _with_remedy(error: DivergenceError, settings: PretrainingSettings) -> TrainingDivergedError:
    remedy = "with a lower --learning_rate or a longer --warmup_steps, and another --output"
    if error.checkpoint and not isinstance(settings, DistillationSettings):
        flags = f"--init={error.checkpoint}"
        for name in FIRST_EMBEDDINGS:
            flags += f" --{name}=false" if getattr(settings, name) else ""
        remedy = f"from it: {flags}, {remedy}"
    return TrainingDivergedError(f"{error} Start a new run {remedy}.")
