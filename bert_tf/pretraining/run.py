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

from bert_tf import weights
from bert_tf.export import saved_model, sources
from bert_tf.models.config import BertConfig
from bert_tf.objectives.bert import Counts, Metrics, PretrainingModel
from bert_tf.pretraining import baselines, evaluation, inputs, report
from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from bert_tf.training import (
    checkpoints,
    distribution,
    footprint,
    loop,
    optimizers,
    progress,
    run_folder,
    throughput,
)
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.weights import own
from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader
from pipelines.pretraining.settings import Objective

_BASELINE_RECORDS = 50_000  # enough to count neighbours in
_EVALUATION_BATCH = 64
# Keys of a configuration in which the first weights and the run may differ; the last one follows
# from the examples.
_FREE = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "causal")


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
    """
    start_time = time.perf_counter()
    settings.check()
    options.check()
    strategy = distribution.make_strategy(settings.strategy)
    data = inputs.open_data(settings)
    config = inputs.model_config(settings, data)
    settings = dataclasses.replace(
        settings, precision=run_folder.settled_precision(settings.precision, output)
    )
    for phase, examples in zip(settings.phases, data.training, strict=True):
        parts = settings.accumulation * distribution.worker_count(strategy)
        sequences = phase.batch_size // parts
        footprint.check_training(config, sequences, examples.max_seq_length, strategy)
    identity = inputs.run_identity(settings, data, config)
    chief = distribution.is_chief(strategy)
    try:
        with run_folder.open_run(output, identity, write=chief) as finished:
            if finished is not None:
                return finished
            run = _Run(settings, output, options, data, config, strategy)
            run.train()
            return run.finish(start_time)
    except tf.errors.DataLossError as error:
        paths = [
            path
            for examples in (*data.training, data.held_out)
            if examples
            for path in examples.paths
        ]
        raise example_reader.find_damage(paths) from error


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        settings: PretrainingSettings,
        output: str,
        options: RunOptions,
        data: inputs.PretrainingData,
        config: BertConfig,
        strategy: tf.distribute.Strategy,
    ):
        self.settings, self.output, self.options = settings, output, options
        self.data, self.config = data, config
        self.strategy = strategy
        self._check_batches()
        keras.utils.set_random_seed(settings.seed)
        with self.strategy.scope():
            self.model = PretrainingModel(config, data.objective, dtype=settings.precision)
            self.optimizer = optimizers.AdamW(
                optimizers.WarmupLinearDecay(
                    settings.learning_rate, self._warmup_steps(), settings.total_steps
                ),
                decay=settings.weight_decay,
                beta_2=settings.beta_2,
                clip_norm=settings.clip_norm,
            )
            self.optimizer.build(self.model.trainable_variables)
        for phase, examples in zip(settings.phases, data.training, strict=True):
            self.model.check_features(examples.names, phase.tfrecords)
        self.is_chief = distribution.is_chief(self.strategy)
        self.checkpoints = Checkpoints(
            f"{output}/checkpoints",
            loop.state_variables(self.model, self.optimizer),
            write=self.is_chief,
        )
        self.loop = loop.LoopSettings(
            total_steps=settings.total_steps,
            seed=settings.seed,
            accumulation=settings.accumulation,
            compilation=distribution.resolve_compilation(settings.compilation, self.strategy),
            save_every=options.save_every,
            log_every=options.log_every,
            evaluate_every=options.evaluate_every,
        )
        self.evaluate = evaluation.make_evaluation(self.model, self.strategy)
        self._ends = list(itertools.accumulate(phase.steps for phase in settings.phases))

    def _check_batches(self) -> None:
        parts = self.strategy.num_replicas_in_sync * self.settings.accumulation
        for phase in self.settings.phases:
            if phase.batch_size % parts:
                raise InputError(
                    f"a batch of {phase.batch_size} cannot be cut into {parts} equal parts "
                    f"({self.strategy.num_replicas_in_sync} devices, --accumulation="
                    f"{self.settings.accumulation}); choose a multiple."
                )

    def _warmup_steps(self) -> int:
        """The warm-up asked for, or a tenth of a run that is no longer than that."""
        settings = self.settings
        if settings.warmup_steps < settings.total_steps:
            return settings.warmup_steps
        shorter = settings.total_steps // 10
        logging.warning(
            "a warm-up of %d steps is as long as the run; it is shortened to %d.",
            settings.warmup_steps,
            shorter,
        )
        return shorter

    def train(self) -> None:
        """Trains from the newest whole checkpoint, or from the beginning, to the last step."""
        restored = self.checkpoints.restore_newest()
        self.checkpoints.remove_damaged(restored)
        if restored is None and self.settings.init_checkpoint:
            self._initialize(self.settings.init_checkpoint)
        start = restored or 0
        logging.info(
            "%s parameters, %s, %s, XLA: %s, on %d x %s; from step %d",
            f"{self.model.count_params():,}",
            self.settings.precision,
            self.data.objective,
            self.loop.compilation,
            self.strategy.num_replicas_in_sync,
            self.strategy.extended.worker_devices[0].rsplit("/", 1)[-1],
            start,
        )
        self._peak = throughput.peak_flops(tf.as_dtype(self.model.compute_dtype))
        self._history = progress.History(
            f"{self.output}/history.jsonl", progress.PretrainingPoint, start, self.is_chief
        )
        self._earlier_seconds = self._history.seconds
        logs = f"{self.output}/tensorboard" if self.options.tensorboard and self.is_chief else None
        display = progress.Display("pre-train", self.settings.total_steps, start, logs)
        step_function = loop.make_step(self.model, self.optimizer, self.strategy, self.loop)
        begin = self._lap = time.perf_counter()

        def report_progress(done: int, counts: list[Counts]) -> None:
            point = self._point(done, counts, begin)
            self._history.add(point)
            display.show(point)
            self._lap = time.perf_counter()  # what was done here is not training

        def evaluate(done: int) -> bool:
            logging.info("step %d, held out: %s", done, _text(self._held_out_metrics()))
            self._lap = time.perf_counter()
            return False

        try:
            loop.train(
                step_function,
                self._batches,
                self.checkpoints,
                self.loop,
                report_progress,
                start,
                distribution.make_agreement(self.strategy),
                evaluate,
            )
        except loop.DivergenceError as error:
            remedy = "with a lower --learning_rate or a longer --warmup_steps, and another --output"
            if error.checkpoint:
                remedy = f"from it: --init_checkpoint={error.checkpoint}, {remedy}"
            raise InputError(f"{error} Start a new run {remedy}.") from error
        finally:
            display.close()

    def _initialize(self, path: str) -> None:
        """First weights from a checkpoint folder, or from a model in any format.

        Raises:
          InputError: they are damaged, of another shape, or of another vocabulary.
        """
        if checkpoints.is_checkpoint(path):
            self.checkpoints.restore_weights(path)
            return
        bundle = weights.read(path)
        if bundle.vocabulary not in (None, self.data.tokenizer.vocabulary):
            raise InputError(
                f"{path}: has another vocabulary than the examples in "
                f"{self.settings.phases[0].tfrecords}; write them with that of the model."
            )
        self._check_same_model(bundle.config, path)
        missing = weights.assign(self.model, bundle.weights, path)
        if missing:
            logging.warning("%s: lacks %s, which begin anew.", path, ", ".join(missing))

    def _check_same_model(self, theirs: BertConfig, path: str) -> None:
        """Refuses a configuration that computes something else; dropout may differ."""
        for field in dataclasses.fields(theirs):
            ours, other = (getattr(c, field.name) for c in (self.model.config, theirs))
            if field.name not in _FREE and ours != other:
                raise InputError(
                    f"{path}: {field.name} is {other}, that of the run {ours}; use --model with "
                    "the bert_config.json of the model (python -m bert_tf convert writes one)."
                )

    def finish(self, start_time: float) -> dict[str, Any]:
        """Evaluates, exports, and writes the report.

        Args:
          start_time: of this process, as time.perf_counter gives it.
        """
        metrics = self._held_out_metrics()
        result: dict[str, Any] = {
            "masked_lm_accuracy": metrics.masked_lm_accuracy,
            **self._baselines(),
            "next_sentence_accuracy": metrics.next_sentence_accuracy,
            "next_sentence_majority": self._next_sentence_majority(),
            "perplexity": math.exp(metrics.masked_lm_loss),
            "loss": metrics.loss,
            "steps": self.settings.total_steps,
            "sequences_per_second": self._history.rate,
            "seconds": self._earlier_seconds + time.perf_counter() - start_time,
            "held_out_examples": self.data.held_out.total if self.data.held_out else 0,
            "parameters": self.model.count_params(),
            "precision": self.settings.precision,
            "objective": str(self.data.objective),
            "weights_sha256": loop.fingerprint(loop.state_variables(self.model, self.optimizer)),
        }
        result = json_files.as_json(result)
        if not self.is_chief:
            return result
        source = sources.of_model(self.model, self.data.tokenizer, self.output)
        own.write_sealed_description(source.bundle, self.output)
        saved_model.write([source], f"{self.output}/saved_model", replace=True)
        if self.data.held_out is not None and self.data.objective is not Objective.LEFT_TO_RIGHT:
            batch = next(
                iter(example_reader.evaluation_batches(self.data.held_out, _EVALUATION_BATCH))
            )
            result["masked_sentences"] = report.guess_masked(
                self.model, batch, self.data.tokenizer.vocabulary
            )
        report.draw_curves(self._history.points, f"{self.output}/curves.png")
        run_folder.write_report(self.output, result)
        return result

    def _batches(self, start: int) -> Iterator[dict[str, tf.Tensor]]:
        """One distributed batch a step, through all phases."""
        for index, phase in enumerate(self.settings.phases):
            first = self._ends[index] - phase.steps
            if start >= self._ends[index]:
                continue
            within = max(start - first, 0)

            def dataset(
                context: tf.distribute.InputContext,
                index: int = index,
                phase: Phase = phase,
                within: int = within,
            ) -> tf.data.Dataset:
                count = context.num_input_pipelines
                return example_reader.training_batches(
                    self.data.training[index],
                    phase.batch_size,
                    self.settings.seed + index,
                    within,
                    shard=(context.input_pipeline_id, count),
                    replicas=context.num_replicas_in_sync // count,
                )

            batches = self.strategy.distribute_datasets_from_function(dataset)
            yield from itertools.islice(batches, phase.steps - within)

    def _point(self, done: int, counts: list[Counts], begin: float) -> progress.PretrainingPoint:
        now = time.perf_counter()
        phase_index = bisect.bisect_left(self._ends, done)
        phase, examples = self.settings.phases[phase_index], self.data.training[phase_index]
        rate = len(counts) * phase.batch_size / (now - self._lap)
        metrics = Metrics.of(Counts(*map(sum, zip(*counts, strict=True))))
        settings = self.data.manifests[phase_index]["settings"]
        length = examples.max_seq_length
        predictions = settings["max_predictions_per_seq"] if self.model.features else length
        flops = throughput.training_flops(self.config, length, predictions)
        return progress.PretrainingPoint(
            done,
            phase_index,
            metrics.loss,
            metrics.masked_lm_accuracy,
            metrics.next_sentence_accuracy,
            float(self.optimizer.learning_rate),
            rate,
            rate * flops / (self._peak * self.strategy.num_replicas_in_sync),
            self._earlier_seconds + now - begin,
        )

    def _held_out_metrics(self) -> Metrics:
        if self.data.held_out is None:
            return Metrics(*[math.nan] * len(Metrics._fields))
        return self.evaluate(
            example_reader.evaluation_batches(self.data.held_out, _EVALUATION_BATCH)
        )

    def _next_sentence_majority(self) -> float:
        """The share of the more frequent label among the held-out pairs."""
        share = self.data.held_out_random_share
        if share is None or self.data.objective is not Objective.MLM_NSP:
            return math.nan
        return max(share, 1 - share)

    def _baselines(self) -> dict[str, float]:
        if self.data.held_out is None or self.data.objective is Objective.LEFT_TO_RIGHT:
            return {"unigram_accuracy": math.nan, "bigram_accuracy": math.nan}
        tokens = self.data.tokenizer
        size = 512
        batches = example_reader.training_batches(self.data.training[-1], size, self.settings.seed)
        guesses = baselines.guess(
            batches.take(_BASELINE_RECORDS // size).as_numpy_iterator(),
            example_reader.evaluation_batches(self.data.held_out, size).as_numpy_iterator(),
            len(tokens.vocabulary),
            tokens.special_ids,
        )
        return {
            "unigram_accuracy": guesses.unigram_accuracy,
            "bigram_accuracy": guesses.bigram_accuracy,
            "left_neighbour_accuracy": guesses.left_accuracy,
            "right_neighbour_accuracy": guesses.right_accuracy,
        }


def _text(metrics: Metrics) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}"
        for name, value in metrics._asdict().items()
        if not math.isnan(value)
    )
