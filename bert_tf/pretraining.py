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

from bert_tf import (
    baselines,
    distribution,
    evaluation,
    export,
    optimization,
    progress,
    report,
    throughput,
    training,
)
from bert_tf.checkpoints import Checkpoints
from bert_tf.config import BertConfig
from bert_tf.objectives import Counts, Metrics, PretrainingModel
from pipelines import example_writer, files, manifest, reader, tokenizer, vocabulary
from pipelines.errors import InputError
from pipelines.examples import Objective

_BASELINE_RECORDS = 50_000  # enough to count neighbours in
_EVALUATION_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of training on one set of examples."""

    tfrecords: str  # folder of the example writer
    steps: int
    batch_size: int  # of all devices and accumulation parts together


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """Everything that decides the weights, beside the examples."""

    phases: tuple[Phase, ...]
    model: str = "base"  # a size of `config.SIZES`, or a bert_config.json
    learning_rate: float = 1e-4  # at the end of the warm-up
    warmup_steps: int = 10_000
    weight_decay: float = 0.01
    beta_2: float = 0.999
    clip_norm: float = 1.0
    dropout: float | None = None  # in place of the configuration's two; None: as it says
    accumulation: int = 1  # parts of a batch whose gradients are summed
    precision: str = "auto"  # float32, mixed_bfloat16, or auto
    strategy: distribution.StrategyName = distribution.StrategyName.AUTO
    compilation: distribution.Compilation = distribution.Compilation.AUTO
    init_checkpoint: str | None = None  # a checkpoint folder to take the first weights from
    seed: int = 12345

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, good in (
            ("learning_rate", self.learning_rate > 0),
            ("warmup_steps", self.warmup_steps >= 0),
            ("weight_decay", self.weight_decay >= 0),
            ("beta_2", 0 <= self.beta_2 < 1),
            ("clip_norm", self.clip_norm >= 0),
            ("dropout", self.dropout is None or 0 <= self.dropout < 1),
            ("accumulation", self.accumulation >= 1),
            ("seed", 0 <= self.seed < 1 << 31),
        ):
            if not good:
                raise InputError(f"--{name}={getattr(self, name)} is out of range; see --help.")

    @property
    def total_steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; of no influence on the weights."""

    save_every: int = 1000  # steps
    log_every: int = 20  # steps
    evaluate_every: int = 0  # steps; 0: at the end only
    tensorboard: bool = True

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        for name, least in (("save_every", 1), ("log_every", 1), ("evaluate_every", 0)):
            if getattr(self, name) < least:
                raise InputError(f"--{name}={getattr(self, name)}: it must be {least} or more.")


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
      training.Stopped: a signal came.
    """
    start_time = time.perf_counter()
    settings.check()
    options.check()
    strategy = distribution.make_strategy(settings.strategy)
    data = _open_data(settings)
    config = _model_config(settings, data)
    settings = dataclasses.replace(settings, precision=_resolve_precision(settings, output))
    finished = _check_output(
        output, _identity(settings, data, config), write=distribution.is_chief(strategy)
    )
    if finished is not None:
        logging.info("%s is complete; nothing to do.", output)
        return finished
    try:
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
        raise reader.find_damage(paths) from error


@dataclasses.dataclass(frozen=True)
class _Data:
    """The examples of all phases, and the vocabulary they were made with."""

    manifests: tuple[dict[str, Any], ...]
    training: tuple[reader.ExampleFiles, ...]
    held_out: reader.ExampleFiles | None  # of the last phase that has any
    tokenizer: tokenizer.BertTokenizer
    objective: Objective


def _open_data(settings: PretrainingSettings) -> _Data:
    folders = [phase.tfrecords for phase in settings.phases]
    manifests = tuple(example_writer.read_manifest(folder) for folder in folders)
    for folder, found in zip(folders, manifests, strict=True):
        for key in ("vocabulary_sha256", "tokenizer"):
            if found[key] != manifests[0][key]:
                raise InputError(f"{folder}: has another vocabulary than {folders[0]}.")
        if found["settings"]["objective"] != manifests[0]["settings"]["objective"]:
            raise InputError(f"{folder}: was made for another objective than {folders[0]}.")
        path = f"{folder}/{example_writer.VOCABULARY}"
        if files.sha256(path) != found["vocabulary_sha256"]:
            raise InputError(f"{path}: is not the vocabulary that the examples were made with.")
    held_out = None
    for folder, found in zip(folders, manifests, strict=True):
        if found["held_out"].get("records"):
            held_out = reader.open_examples(folder, held_out=True)
    return _Data(
        manifests,
        tuple(reader.open_examples(folder) for folder in folders),
        held_out,
        tokenizer.BertTokenizer(
            vocabulary.load(f"{folders[0]}/{example_writer.VOCABULARY}"),
            **manifests[0]["tokenizer"],
        ),
        Objective(manifests[0]["settings"]["objective"]),
    )


def _model_config(settings: PretrainingSettings, data: _Data) -> BertConfig:
    """The configuration, checked against the vocabulary and the length of the examples."""
    vocab_size = len(data.tokenizer.vocabulary)
    if settings.model.endswith(".json"):
        config = BertConfig.load(settings.model)
        if config.vocab_size < vocab_size:
            raise InputError(
                f"{settings.model}: vocab_size is {config.vocab_size}, but the examples in "
                f"{settings.phases[0].tfrecords} have ids up to {vocab_size - 1}. Set vocab_size "
                f"to {vocab_size}, or write the examples with the model's vocabulary."
            )
    else:
        config = BertConfig.named(settings.model, vocab_size=vocab_size)
    if settings.dropout is not None:
        config = dataclasses.replace(
            config,
            hidden_dropout_prob=settings.dropout,
            attention_probs_dropout_prob=settings.dropout,
        )
    for phase, examples in zip(settings.phases, data.training, strict=True):
        if examples.max_seq_length > config.max_position_embeddings:
            raise InputError(
                f"{phase.tfrecords}: records of {examples.max_seq_length} tokens exceed the "
                f"model's max_position_embeddings of {config.max_position_embeddings}. Write them "
                "shorter (--max_seq_length), or enlarge the position table."
            )
    return config


def _identity(settings: PretrainingSettings, data: _Data, config: BertConfig) -> dict[str, Any]:
    """What must be the same for a run to be gone on with: all that decides the weights.

    Devices and compilation may change between two stops; they change the rounding only.
    """
    values = dataclasses.asdict(settings)
    for name in ("phases", "model", "strategy", "compilation"):
        del values[name]
    first = data.manifests[0]
    return {
        "settings": values,
        "config": config.to_dict(),
        "tokenizer": first["tokenizer"],
        "vocabulary_sha256": first["vocabulary_sha256"],
        "phases": [
            {
                "steps": phase.steps,
                "batch_size": phase.batch_size,
                "examples": found["settings"],
                "inputs": [entry["sha256"] for entry in found["inputs"]],
            }
            for phase, found in zip(settings.phases, data.manifests, strict=True)
        ],
    }


def _check_output(output: str, identity: dict[str, Any], write: bool) -> dict[str, Any] | None:
    """The report of a finished run; None for a new or half-finished one.

    Raises:
      InputError: the folder is of a run with other settings.
    """
    path = f"{output}/run.json"
    if files.gfile.exists(path):
        other = manifest.difference(files.read_json(path), identity)
        if other:
            raise InputError(
                f"{output}: is of a run with other {other}. Name another output folder (OUT=), or "
                "remove this one."
            )
        if files.gfile.exists(f"{output}/report.json"):
            return files.read_json(f"{output}/report.json")
    elif write:
        files.write_json(path, identity)
    return None


def _resolve_precision(settings: PretrainingSettings, output: str) -> str:
    """The precision to train in: the one that a run began with, where the choice is left open."""
    path = f"{output}/run.json"
    if settings.precision == "auto" and files.gfile.exists(path):
        return files.read_json(path).get("settings", {}).get("precision", "float32")
    return resolve_precision(settings.precision)


def resolve_precision(precision: str) -> str:
    """Turns auto into mixed_bfloat16 where the hardware multiplies bfloat16, else float32.

    Raises:
      InputError: the name is unknown.
    """
    if precision not in ("auto", "float32", "mixed_bfloat16"):
        raise InputError(f"precision {precision!r} is unknown; use float32 or mixed_bfloat16.")
    if precision != "auto":
        return precision
    if tf.config.list_physical_devices("TPU"):
        return "mixed_bfloat16"
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return "mixed_bfloat16" if details.get("compute_capability", (0,)) >= (8, 0) else "float32"
    fast = throughput.peak_flops(tf.bfloat16) > 1.2 * throughput.peak_flops(tf.float32)
    return "mixed_bfloat16" if fast else "float32"


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        settings: PretrainingSettings,
        output: str,
        options: RunOptions,
        data: _Data,
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
            self.optimizer = optimization.AdamW(
                optimization.WarmupLinearDecay(
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
            training.state_variables(self.model, self.optimizer),
            write=self.is_chief,
        )
        self.loop = training.LoopSettings(
            total_steps=settings.total_steps,
            seed=settings.seed,
            accumulation=settings.accumulation,
            compilation=distribution.resolve_compilation(settings.compilation, self.strategy),
            save_every=options.save_every,
            log_every=options.log_every,
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
            self.checkpoints.restore_weights(self.settings.init_checkpoint)
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
        self._history = progress.History(f"{self.output}/history.jsonl", start, self.is_chief)
        self._earlier_seconds = self._history.seconds
        logs = f"{self.output}/tensorboard" if self.options.tensorboard and self.is_chief else None
        display = progress.Display(self.settings.total_steps, start, logs)
        step_function = training.make_step(self.model, self.optimizer, self.strategy, self.loop)
        begin = self._lap = time.perf_counter()

        def report_progress(done: int, counts: list[Counts]) -> None:
            point = self._point(done, counts, begin)
            self._history.add(point)
            display.show(point)
            every = self.options.evaluate_every
            if every and done // every > (done - len(counts)) // every:
                logging.info("step %d, held out: %s", done, _text(self._held_out_metrics()))
            self._lap = time.perf_counter()  # what was done here is not training

        try:
            training.train(
                step_function,
                self._batches,
                self.checkpoints,
                self.loop,
                report_progress,
                start,
                distribution.make_agreement(self.strategy),
            )
        finally:
            display.close()

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
            "perplexity": math.exp(metrics.masked_lm_loss),
            "loss": metrics.loss,
            "steps": self.settings.total_steps,
            "sequences_per_second": self._history.rate,
            "seconds": self._earlier_seconds + time.perf_counter() - start_time,
            "held_out_examples": self.data.held_out.total if self.data.held_out else 0,
            "parameters": self.model.count_params(),
            "precision": self.settings.precision,
            "objective": str(self.data.objective),
            "weights_sha256": training.fingerprint(
                training.state_variables(self.model, self.optimizer)
            ),
        }
        if not self.is_chief:
            return result
        self.config.save(f"{self.output}/bert_config.json")
        vocabulary.save(self.data.tokenizer.vocabulary, f"{self.output}/vocab.txt")
        files.write_json(f"{self.output}/tokenizer_config.json", self.data.tokenizer.settings)
        export.export_pretrained(self.model, self.data.tokenizer, f"{self.output}/saved_model")
        if self.data.held_out is not None and self.data.objective is not Objective.LEFT_TO_RIGHT:
            batch = next(iter(reader.evaluation_batches(self.data.held_out, _EVALUATION_BATCH)))
            result["masked_sentences"] = report.guess_masked(
                self.model, batch, self.data.tokenizer.vocabulary
            )
        report.draw_curves(self._history.points, f"{self.output}/curves.png")
        files.write_json(f"{self.output}/report.json", report.as_json(result))
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
                return reader.training_batches(
                    self.data.training[index],
                    phase.batch_size,
                    self.settings.seed + index,
                    within,
                    shard=(context.input_pipeline_id, count),
                    replicas=context.num_replicas_in_sync // count,
                )

            batches = self.strategy.distribute_datasets_from_function(dataset)
            yield from itertools.islice(batches, phase.steps - within)

    def _point(self, done: int, counts: list[Counts], begin: float) -> progress.Point:
        now = time.perf_counter()
        phase_index = bisect.bisect_left(self._ends, done)
        phase, examples = self.settings.phases[phase_index], self.data.training[phase_index]
        rate = len(counts) * phase.batch_size / (now - self._lap)
        metrics = Metrics.of(Counts(*map(sum, zip(*counts, strict=True))))
        settings = self.data.manifests[phase_index]["settings"]
        length = examples.max_seq_length
        predictions = settings["max_predictions_per_seq"] if self.model.features else length
        flops = throughput.training_flops(self.config, length, predictions)
        return progress.Point(
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
        return self.evaluate(reader.evaluation_batches(self.data.held_out, _EVALUATION_BATCH))

    def _baselines(self) -> dict[str, float]:
        if self.data.held_out is None or self.data.objective is Objective.LEFT_TO_RIGHT:
            return {"unigram_accuracy": math.nan, "bigram_accuracy": math.nan}
        tokens = self.data.tokenizer
        size = 512
        batches = reader.training_batches(self.data.training[-1], size, self.settings.seed)
        guesses = baselines.guess(
            batches.take(_BASELINE_RECORDS // size).as_numpy_iterator(),
            reader.evaluation_batches(self.data.held_out, size).as_numpy_iterator(),
            len(tokens.vocabulary),
            (tokens.pad_id, tokens.unk_id, tokens.cls_id, tokens.sep_id, tokens.mask_id),
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
