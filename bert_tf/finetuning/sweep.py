"""Fine-tuning: runs over learning rates and seeds, the best of which is kept."""

import dataclasses
import gc
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.finetuning import freezing, task_report, teaching
from bert_tf.finetuning.freezing import Frozen
from bert_tf.finetuning.run import Run, RunResult, Setup
from bert_tf.finetuning.settings import FineTuningSettings
from bert_tf.finetuning.task_data import (
    TaskData,
    TaskExamples,
    column_names,
    convert,
    read_examples,
)
from bert_tf.finetuning.teaching import Teacher
from bert_tf.models.base_config import EncoderConfig
from bert_tf.training import (
    checkpoints,
    distribution,
    hardware,
    lost_workers,
    progress,
    run_folder,
)
from bert_tf.training.loop import TrainingDivergedError
from bert_tf.training.settings import StrategyName
from bert_tf.weights import Bundle, formats, own
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.labelled import tables
from pipelines.tokenizers.base import Tokenizer

# What the report has of each run.
_GRID = ("learning_rate", "seed", "score", "metrics", "evaluations", "diverged")


@lost_workers.reported()
def finetune(
    settings: FineTuningSettings,
    output: str,
    cache: str,
    tensorboard: bool = True,
    evaluated: Callable[[float, float], None] | None = None,
) -> dict[str, Any]:
    """Fine-tunes a model for one or several tasks, or resumes a run that was stopped.

    Args:
      settings: what to train.
      output: folder for the model, its tasks.json, predictions and report.
      cache: folder for the outputs of a frozen encoder.
      tensorboard: whether to write summaries.
      evaluated: is called with the fraction of the steps and the score after each evaluation on
        dev, which must be there; what it raises ends the run.

    Returns:
      The report.

    Raises:
      InputError: the model, the data and the settings do not fit, or the output folder is of
        another run.
      stopping.Stopped: a signal arrived.
      RetryError: another worker was lost.
    """
    start_time = time.perf_counter()
    settings.check()
    done = run_folder.is_finished(output)
    strategy = distribution.make_strategy(StrategyName.ONE_DEVICE if done else settings.strategy)
    distribution.check_batch(settings.batch_size, settings.accumulation, strategy)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        settings = dataclasses.replace(settings, fixed_length=True)
        if any(tasks.make(request.kind).generation for request in settings.tasks):
            raise InputError("texts are not written on TPUs; fine-tune for them on GPUs or a CPU.")
    for model in filter(None, (settings.init, settings.teacher)):
        formats.detect(formats.find(model))
    # Before the weights, which take longer.
    examples = [read_examples(request, settings) for request in settings.tasks]
    bundle = weights.read(settings.init)
    tokenizer = bundle.tokenizer()
    data = [convert(each, tokenizer) for each in examples]
    known = list(map(tasks.load, bundle.tasks))
    data = [dataclasses.replace(x, task=x.task.begin_with(known)) for x in data]
    _check_dev(settings, data, evaluated is not None)
    config = _config(bundle, settings, data)
    frozen = Frozen.parse(settings.freeze, config).whole
    if config.causal and not frozen:
        data = [_in_both_orders(item) for item in data]
    if frozen:
        if settings.teacher:
            raise InputError("--teacher: is not for a frozen encoder (--freeze=all).")
        if not all(item.task.own_head for item in data):
            raise InputError("--freeze=all: leaves nothing to train for a head without weights.")
        if not done:
            data = freezing.with_outputs(data, bundle, cache)
    more = _unlabelled(settings, data[0], tokenizer)
    teacher, taught_by = None, weights.read(settings.teacher) if settings.teacher else None
    if taught_by and not done:
        teacher = Teacher(taught_by, data[0], tokenizer, strategy)
        data, more = [teacher.teach(data[0])], list(map(teacher.teach, more))
    with lost_workers.watchdog(strategy, settings.worker_timeout) as watchdog:
        precision = run_folder.settled_precision(settings.precision, output, strategy)
        settings = dataclasses.replace(settings, precision=precision)
        setup = Setup(
            *(settings, config, bundle, data, strategy, output, tensorboard, watchdog, evaluated),
            *(more, teacher),
        )
        found = identity(settings, data, bundle, taught_by)
        different = run_folder.DIFFERENT_COMMANDS
        distribution.check_same(strategy, [found, settings.pace()], different)
        if not (done or frozen):  # a frozen encoder needs no more than its weights
            _check_memory(setup)
        chief = distribution.is_chief(strategy)
        with run_folder.open_run(output, found, write=chief and not done) as finished:
            report = finished
            if report is None:
                report = _train(setup, start_time)
                distribution.meet(strategy)
            if chief and not report["settings"]["keep_runs"]:
                _remove_kept(setup)  # also of a finished run: a kill may have left them
            return report


def _in_both_orders(data: TaskData) -> TaskData:
    """A model that reads from left to right compares two texts in both orders."""
    task = data.task
    if not getattr(task, "symmetric", False):
        return data
    head = dataclasses.replace(task.head, both_orders=True)
    return dataclasses.replace(data, task=dataclasses.replace(task, head=head))


def _unlabelled(
    settings: FineTuningSettings, data: TaskData, tokenizer: Tokenizer
) -> list[TaskData]:
    """The texts without labels, if any."""
    if not settings.unlabelled:
        return []
    (request,) = settings.tasks
    columns = column_names(request, "train")
    return [teaching.unlabelled(data, settings.unlabelled, tokenizer, columns)]


def _check_memory(setup: Setup) -> None:
    """Raises InputError where a training step does not fit into memory."""
    settings, strategy = setup.settings, setup.strategy
    parts = settings.accumulation * distribution.worker_count(strategy)
    longest = max(item.longest for item in setup.data)
    orders = 1 + any(item.task.head.both_orders for item in setup.data)
    hardware.check_memory(
        setup.config,
        orders * settings.batch_size // parts,
        longest,
        strategy,
        settings.rematerialize,
    )


def _train(setup: Setup, start_time: float) -> dict[str, Any]:
    """Trains all runs and keeps the best one; returns the report."""
    settings = setup.settings
    if setup.tensorboard and distribution.is_chief(setup.strategy):
        progress.log_tensorboard(setup.output)
    results: list[RunResult] = []
    run_time = -time.perf_counter()
    run: Any = None
    for rate in settings.learning_rates:
        run = None  # The next one needs the memory.
        gc.collect()
        run = Run(setup, rate)
        results += [run.train(seed) for seed in settings.seeds]
    run_time += time.perf_counter()
    setup.watchdog.other_work()
    if not distribution.is_chief(setup.strategy):
        return {}
    chosen = _choose(results)
    report = _report(setup, results, chosen) | _keep(setup, chosen, run)
    report["warnings"] += task_report.warnings_of(report, setup.data)
    # Runs count with the time of earlier processes too, all else with that of this one.
    around = time.perf_counter() - start_time - run_time
    report["seconds"] = around + sum(result["seconds"] for result in results)
    report = json_files.as_json(report)
    run_folder.write_report(setup.output, report)
    return report


def _remove_kept(setup: Setup) -> None:
    """Removes the weights of the runs; those of the best one are in the output folder."""
    for rate, seed in itertools.product(setup.settings.learning_rates, setup.settings.seeds):
        files.remove_tree(setup.kept_folder(rate, seed))


def _check_dev(settings: FineTuningSettings, data: list[TaskData], searches: bool) -> None:
    """Raises InputError where there is something to choose on dev data, and no such data."""
    if any(item.dev for item in data):
        return
    if searches or len(settings.learning_rates) > 1 or settings.patience:
        raise InputError(
            f"{settings.tasks[0].name}: a learning rate, or when to stop, is chosen on dev data, "
            "and there is none; name some (--dev), or give one --learning_rate and no --patience "
            "or --search_minutes."
        )


def _config(bundle: Bundle, settings: FineTuningSettings, data: list[TaskData]) -> EncoderConfig:
    """The configuration to train, which must fit the tasks."""
    config = bundle.config
    for item in data:
        types = bundle.require_vocabulary().types(item.task.segments, bundle.resolved_settings())
        config.check_segments(types, item.task.name)
        if item.task.max_seq_length > config.max_seq_length:
            raise InputError(
                f"{item.task.name}: sequences of {item.task.max_seq_length} tokens exceed the "
                f"model's {config.max_seq_length} positions; set --max_seq_length."
            )
        widest = max(getattr(item.task, "dimensions", ()), default=0)
        if widest > config.hidden_size:
            raise InputError(f"--dimensions={widest}: vectors have {config.hidden_size}.")
        if item.task.generation and item.task.generation.max_new_tokens >= config.max_seq_length:
            raise InputError(
                f"{item.task.name}: targets of {item.task.generation.max_new_tokens + 1} tokens "
                f"exceed the model's {config.max_seq_length} positions; set --max_target_length."
            )
    return config if settings.dropout is None else config.with_dropout(settings.dropout)


def identity(
    settings: FineTuningSettings,
    data: Sequence[TaskData | TaskExamples],
    bundle: Bundle,
    teacher: Bundle | None,
) -> dict[str, Any]:
    """All that decides the weights; a run can be resumed if it is the same."""
    values = settings.identity()
    for name in ("tasks", "init", "teacher", "unlabelled"):  # their contents are compared
        del values[name]
    unlabelled = settings.unlabelled
    return {
        **({"teacher_sha256": teacher.sha256()} if teacher else {}),
        **({"unlabelled_sha256": tables.sha256(unlabelled)} if unlabelled else {}),
        "search": False,
        "settings": values,
        "config": bundle.config.to_dict(),
        "init_sha256": bundle.sha256(),
        **({"init_tasks": list(bundle.tasks)} if bundle.tasks else {}),
        "vocabulary_sha256": bundle.require_vocabulary().sha256,
        "tokenizer": bundle.resolved_settings(),
        "tasks": describe_tasks(settings, data),
    }


def describe_tasks(
    settings: FineTuningSettings, data: Sequence[TaskData | TaskExamples]
) -> list[dict[str, Any]]:
    """What decides the examples of each task: how its files are read, checksums, and labels."""
    return [
        {
            "kind": request.kind,
            "name": request.name,
            **request.layout(),
            "inputs": found.inputs,
            "labels": list(found.task.labels),  # a file beside the data may name them
        }
        for request, found in zip(settings.tasks, data, strict=True)
    ]


def _choose(results: list[RunResult]) -> RunResult:
    """The best run of the learning rate with the best median; of equal ones, with the best run.

    Raises:
      TrainingDivergedError: all runs diverged.
    """

    def score(result: RunResult) -> float:
        if result["diverged"]:
            return -math.inf
        return result["score"] if result["score"] is not None else 0.0

    if all(result["diverged"] for result in results):
        raise TrainingDivergedError(
            f"{results[0]['diverged']} Start anew with a lower --learning_rate or a longer warm-up "
            "(--warmup_fraction), and another --output."
        )

    def rank(group: list[RunResult]) -> tuple[float, float]:
        scores = list(map(score, group))
        return statistics.median(scores), max(scores)

    by_rate = itertools.groupby(results, key=lambda result: result["learning_rate"])
    best = max((list(group) for _, group in by_rate), key=rank)
    return max(best, key=score)


def _keep(setup: Setup, chosen: RunResult, run: Run) -> dict[str, Any]:
    """Writes the chosen run's model, predictions, mistakes and pictures to the output folder.

    The chief does so alone: the other workers are done.

    Returns:
      What the report has of each task.
    """
    rate, seed = chosen["learning_rate"], chosen["seed"]
    found = checkpoints.read_model(setup.kept_folder(rate, seed))
    written = []
    predictors = run.predictors_of(found)
    for item, predictor in zip(setup.data, predictors, strict=True):
        place = setup.output if len(setup.data) == 1 else f"{setup.output}/{item.task.name}"
        written.append(task_report.write_task(item, predictor, place))
    names = ", ".join(item.task.name for item in setup.data)
    task_report.draw_curves(
        f"{setup.output}/curves.png",
        f"{names}: learning rate {rate:g}, seed {seed}",
        progress.read_history(f"{setup.run_folder(rate, seed)}/{progress.HISTORY}"),
        chosen["evaluations"],
    )
    descriptions = tuple(task.describe() for task, _ in written)
    model = dataclasses.replace(
        setup.bundle, config=setup.config, weights=found, tasks=descriptions
    )
    own.write(model, setup.output)
    by_task = ("test_metrics", "test_baselines", "test_bag_of_words", "labels")
    compared = {}
    if setup.teacher:
        data = dataclasses.replace(setup.data[0], task=written[0][0])
        compared["distillation"] = setup.teacher.compare(data, run.model, predictors[0])
    return {
        **compared,
        "warnings": [warning for _, report in written for warning in report["warnings"]],
        **{key: {task.name: report[key] for task, report in written} for key in by_task},
    }


def _report(setup: Setup, results: list[RunResult], chosen: RunResult) -> dict[str, Any]:
    """What the report has of the runs and their data."""
    settings, data, rate = setup.settings, setup.data, chosen["learning_rate"]
    same_rate = [r for r in results if r["learning_rate"] == rate and not r["diverged"]]
    values = dataclasses.asdict(settings)
    values["tasks"] = [request.name for request in settings.tasks]
    sizes = {item.task.name: item.sizes for item in data}
    notes = {item.task.name: item.notes for item in data}
    for more in setup.unlabelled:
        sizes[more.task.name] |= more.sizes
        notes[more.task.name] = dict(Counter(notes[more.task.name]) + Counter(more.notes))
    return {
        "metrics": {
            "by_seed": {str(r["seed"]): r["metrics"] for r in same_rate},
            "median": {
                name: statistics.median(r["metrics"][name] for r in same_rate)
                for name in chosen["metrics"]
            },
        },
        **task_report.without_model(data),
        "learning_rate": rate,
        "seed": chosen["seed"],
        "grid": [{k: value for k, value in r.items() if k in _GRID} for r in results],
        "data": settings.describe_data({}),
        "examples": sizes,
        "notes": notes,
        "settings": values,
    }
