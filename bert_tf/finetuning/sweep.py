"""Fine-tuning: runs over learning rates and seeds, the best of which is kept."""

import dataclasses
import gc
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bert_tf.finetuning import preparation, task_report
from bert_tf.finetuning.freezing import Frozen
from bert_tf.finetuning.preparation import PreparedRun
from bert_tf.finetuning.run import Run, RunResult, Setup
from bert_tf.finetuning.settings import FineTuningSettings
from bert_tf.models import encoders
from bert_tf.training import checkpoints, distribution, hardware, lost_workers, progress, run_folder
from bert_tf.training.loop import TrainingDivergedError
from bert_tf.weights import own
from pipelines.common import files, json_files

# What the report has of each run.
_GRID = ("learning_rate", "seed", "score", "metrics", "evaluations", "steps", "diverged")


@lost_workers.reported()
def finetune(
    settings: FineTuningSettings, output: str, cache: str, tensorboard: bool = True
) -> dict[str, Any]:
    """Fine-tunes a model for one or several tasks, or resumes a run that was stopped.

    Args:
      settings: what to train.
      output: folder for the model, its tasks.json, predictions and report.
      cache: folder for the outputs of a frozen encoder.
      tensorboard: whether to write summaries.

    Returns:
      The report.

    Raises:
      InputError: the model, the data and the settings do not fit, or the output folder is of
        another run.
      stopping.Stopped: a signal arrived.
      RetryError: another worker was lost.
    """
    begin = time.perf_counter()
    settings.check()
    run_folder.check_output(output, not distribution.in_cluster())
    stamp = preparation.stamp(settings)
    report = run_folder.unchanged(output, stamp)
    if report is not None:
        _end(report, settings, output)
        return report
    prepared = preparation.prepare(settings, cache, only_identity=run_folder.is_finished(output))
    return train(prepared, output, tensorboard, begin=begin, stamp=stamp)


def train(
    prepared: PreparedRun,
    output: str,
    tensorboard: bool,
    evaluated: Callable[[float, float], None] | None = None,
    begin: float | None = None,
    **marks: str,
) -> dict[str, Any]:
    """Trains with the settings of what was prepared, or resumes a run that was stopped.

    Args:
      prepared: what to train, and on what.
      output: folder for the model, its tasks.json, predictions and report.
      tensorboard: whether to write summaries.
      evaluated: is called with the fraction of the steps and the score after each evaluation on
        dev, which must be there; what it raises ends the run.
      begin: when the work began, by `time.perf_counter`; None: now.
      **marks: further entries of the report.

    Returns:
      The report.

    Raises:
      InputError: the output folder is of another run, or a step does not fit into memory.
      TrainingDivergedError: all runs diverged.
      stopping.Stopped: a signal arrived.
    """
    begin = time.perf_counter() if begin is None else begin
    strategy, settings = prepared.strategy, prepared.settings
    done, chief = run_folder.is_finished(output), distribution.is_chief(strategy)
    with lost_workers.watchdog(strategy, settings.worker_timeout) as watchdog:
        precision = run_folder.settled_precision(settings.precision, output, strategy)
        settings = dataclasses.replace(settings, precision=precision)
        setup = Setup(
            **(vars(prepared) | {"settings": settings}),
            output=output,
            tensorboard=tensorboard,
            watchdog=watchdog,
            evaluated=evaluated,
        )
        found = preparation.identity(prepared, settings)
        distribution.check_same(strategy, [found, settings.pace()], run_folder.DIFFERENT_COMMANDS)
        frozen = Frozen.parse(settings.freeze, prepared.config)
        if not (done or frozen.whole):  # a frozen encoder needs no more than its weights
            _check_memory(setup, frozen)
        with run_folder.open_run(output, found, write=chief and not done) as finished:
            report = finished
            if report is None:
                report = _train(setup, begin, marks)
                distribution.meet(strategy)
            if chief:
                _end(report, settings, output)
            return report


def _check_memory(setup: Setup, frozen: Frozen) -> None:
    """Raises InputError where a training step does not fit into memory."""
    settings, strategy = setup.settings, setup.strategy
    parts = settings.accumulation * distribution.worker_count(strategy)
    longest = max(item.longest for item in setup.data)
    orders = 1 + any(item.task.head.both_orders for item in setup.data)
    layers = frozen.layers(encoders.unallocated(setup.config))
    hardware.check_memory(
        setup.config,
        orders * settings.batch_size // parts,
        longest,
        strategy,
        settings.rematerialize,
        frozen=sum(layer.parameters for layer in layers),
    )


def _train(setup: Setup, begin: float, marks: dict[str, str]) -> dict[str, Any]:
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
    chosen = _choose(results, bool(setup.settings.fold))
    report = _report(setup, results, chosen) | _keep(setup, chosen, run)
    report["warnings"] += task_report.warnings_of(report, setup.data)
    # Runs count with the time of earlier processes too, all else with that of this one.
    around = time.perf_counter() - begin - run_time
    report["seconds"] = around + sum(result["seconds"] for result in results)
    report = json_files.as_json(report | marks)
    run_folder.write_report(setup.output, report)
    return report


def _end(report: dict[str, Any], settings: FineTuningSettings, output: str) -> None:
    """Removes the weights of the runs, also those that a kill left in a finished run's folder.

    Those of the best run are in the output folder. Says which settings came too late.
    """
    run_folder.warn_of_late(output, settings.too_late(report))
    if not report["settings"]["keep_runs"]:
        for run in files.matching(f"{output}/runs", "*"):
            files.remove_tree(f"{run}/kept")


def _choose(results: list[RunResult], is_fold: bool) -> RunResult:
    """The best run of the learning rate with the best median; of equal ones, with the best run.

    Of a fold it is the first one: cross-validation chooses nothing on what it scores.

    Raises:
      TrainingDivergedError: all runs diverged.
    """

    def score(result: RunResult) -> float:
        if result["diverged"]:
            return -math.inf
        if is_fold:
            return 0.0
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
        tune = not setup.settings.fold  # cross-validation chooses nothing on what it scores
        written.append(task_report.write_task(item, predictor, place, tune))
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
