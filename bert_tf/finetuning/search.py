"""Search for the settings of fine-tuning with the best score on dev, by Optuna.

Trials are ordinary runs; one whose score falls behind the median of the others is given up.
"""

import dataclasses
import hashlib
import json
import os
import statistics
import time
from typing import Any

import keras
from absl import logging

from bert_tf.finetuning import preparation, sweep, task_report
from bert_tf.finetuning.preparation import PreparedRun
from bert_tf.finetuning.settings import FineTuningSettings
from bert_tf.training import distribution, run_folder
from bert_tf.training.loop import TrainingDivergedError
from pipelines.common import files, json_files, optional
from pipelines.common.errors import InputError
from pipelines.common.machine import OutOfMemoryError

PICTURE = "search.png"
_EXTRA = "search"
_TRIALS = "trials"
_OWN = ("report.json", "run.json", "runs")  # files of a trial that do not move
_FACTOR = 5  # of the learning rate, up and down
_FIRST = 4  # trials that are not given up
_PARTS = 10  # of the steps of a trial, by which trials are compared
_SECONDS, _REASON = "seconds", "reason"  # attributes of trials


def search(settings: FineTuningSettings, output: str, cache: str, minutes: float) -> dict[str, Any]:
    """Fine-tunes with various settings for some minutes, and keeps the best model.

    A search that was stopped is resumed; another trial begins if there is time for a usual one.

    Args:
      settings: the first trial. Learning rate, batch size, epochs and layer decay vary.
      output: folder for the best model, its predictions, the report and a picture of the trials.
      cache: folder for the outputs of a frozen encoder.
      minutes: for all trials together.

    Returns:
      The report of the best trial, with all trials as `search`.

    Raises:
      InputError: as for `sweep.finetune`; or the settings name several learning rates or seeds, or
        keep the weights of all runs; or there is no dev data.
    """
    optuna = optional.load("optuna", _EXTRA)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings.check()
    if len(settings.learning_rates) > 1 or len(settings.seeds) > 1:
        raise InputError("--search_minutes: varies the learning rate itself; give one, and a seed.")
    if settings.keep_runs:
        raise InputError("--keep_runs: a search keeps the best trial only; leave it out.")
    if distribution.in_cluster() or "://" in output:
        raise InputError("--search_minutes: works on one machine, and writes to a local folder.")
    run_folder.check_output(output, True)
    stamp = f"search-{preparation.stamp(settings)}"
    report = run_folder.unchanged(output, stamp)
    if report is None:
        done = run_folder.is_finished(output)
        prepared = preparation.prepare(settings, cache, searches=True, only_identity=done)
        with run_folder.open_run(output, _identity(prepared), write=True) as report:
            if report is None:
                study = _study(output, settings)
                while _has_time(study, 60 * minutes):
                    _try(study, prepared, output)
                report = _keep_best(study, output) | {"stamp": stamp}
                run_folder.write_report(output, report)
    run_folder.warn_of_late(output, settings.too_late(report))
    files.remove_tree(f"{output}/{_TRIALS}")
    logging.info("To search for longer, name another --output.")
    return report


def _identity(prepared: PreparedRun) -> dict[str, Any]:
    """What decides the trials."""
    found = preparation.identity(prepared, prepared.settings)
    return json_files.as_json(found | {"search": _batch_sizes(prepared)})


def _study(output: str, settings: FineTuningSettings) -> Any:
    """The trials so far. One that was stopped is tried again, which resumes its run."""
    optuna = optional.load("optuna", _EXTRA)
    journal = optional.load("optuna.storages.journal", _EXTRA).JournalFileBackend
    path = f"{output}/{run_folder.SEARCH}"
    if os.path.exists(path):
        with open(path, "r+b") as log:  # a full disk may have cut the last record
            log.truncate(log.read().rfind(b"\n") + 1)
    study = optuna.create_study(
        study_name=_TRIALS,
        storage=optuna.storages.JournalStorage(journal(path)),
        pruner=optuna.pruners.MedianPruner(_FIRST, n_min_trials=_FIRST),
        direction="maximize",
        load_if_exists=True,
    )
    if not study.trials:
        study.enqueue_trial(
            {
                "learning_rate": settings.learning_rates[0],
                "batch_size": settings.batch_size,
                "epochs": settings.epochs,
                "layer_decay": settings.layer_decay,
            }
        )
    for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        # One that was killed before all its settings were drawn leaves the draw to the next.
        given = trial.system_attrs.get("fixed_params") or (trial.params if _is_drawn(trial) else {})
        if given:
            study.enqueue_trial(given)
    return study


def _is_drawn(trial: Any) -> bool:
    return "layer_decay" in trial.params  # the last one of `_suggested`


def _has_time(study: Any, seconds: float) -> bool:
    """Whether another trial would end in time; the first one is always done."""
    taken = sum(trial.user_attrs.get(_SECONDS, 0.0) for trial in study.trials)
    whole = [trial.user_attrs[_SECONDS] for trial in _complete(study)]
    return not whole or taken + statistics.median(whole) <= seconds


def _ended(study: Any) -> list[Any]:
    """The trials that were not stopped, whether or not they have a score."""
    done = optional.load("optuna", _EXTRA).trial.TrialState
    states = (done.COMPLETE, done.PRUNED)
    return [t for t in study.trials if t.state in states or _REASON in t.user_attrs]


def _try(study: Any, prepared: PreparedRun, output: str) -> None:
    """Does the next trial, and removes its files unless it is the best."""
    optuna = optional.load("optuna", _EXTRA)
    # What comes next follows from the trials so far, whether or not the search was resumed.
    tried = {_folder(trial, output) for trial in study.trials if _is_drawn(trial)}
    study.sampler = optuna.samplers.TPESampler(seed=len(tried))
    trial = study.ask()
    chosen = dataclasses.replace(prepared, settings=_suggested(trial, prepared))
    told = 0

    def evaluated(share: float, score: float) -> None:
        """Gives the score to Optuna for each tenth of the steps, so that trials are comparable."""
        nonlocal told
        done = int(_PARTS * share)
        for part in range(told + 1, done + 1):
            trial.report(score, part)
        told = max(told, done)
        if share < 1 and trial.should_prune():
            raise optuna.TrialPruned

    keras.utils.clear_session()  # of the trial before
    begin, folder = time.perf_counter(), _folder(trial, output)
    states = optuna.trial.TrialState
    score, state = None, states.FAIL
    try:
        report = sweep.train(chosen, folder, tensorboard=False, evaluated=evaluated)
        run = report["grid"][0]
        for item in run["evaluations"]:  # of a run that had ended when the search was killed
            evaluated(item["step"] / run["steps"], item["score"])
        score, state = run["score"], states.COMPLETE
        begin = min(begin, time.perf_counter() - report["seconds"])  # with earlier processes
    except optuna.TrialPruned:
        state = states.PRUNED
    except InputError as error:
        # These settings may fail: others are tried. A full disk or a lost file ends the search.
        of_settings = isinstance(error, TrainingDivergedError | OutOfMemoryError)
        if not (of_settings and _complete(study)):
            # A failed start leaves nothing; after a full disk, the run can be resumed.
            if not _complete(study) and not run_folder.has_checkpoint(folder):
                files.gfile.remove(f"{output}/{run_folder.SEARCH}")
                files.remove_tree(f"{output}/{_TRIALS}")
            raise
        logging.warning("a trial failed: %s", error)
        trial.set_user_attr(_REASON, str(error))
    finally:
        if files.gfile.exists(f"{output}/{run_folder.SEARCH}"):
            trial.set_user_attr(_SECONDS, time.perf_counter() - begin)
    study.tell(trial, score, state=state)
    best = _folder(study.best_trial, output)
    for name in files.names_in(f"{output}/{_TRIALS}"):
        if f"{output}/{_TRIALS}/{name}" != best:
            files.remove_tree(f"{output}/{_TRIALS}/{name}")


def _batch_sizes(prepared: PreparedRun) -> list[int]:
    """The given batch size, twice and, if devices and losses can share it, half of it."""
    settings, strategy = prepared.settings, prepared.strategy
    size, parts = settings.batch_size, settings.accumulation * strategy.num_replicas_in_sync
    least = preparation.least_batch(settings, prepared.data, strategy)
    if size % (2 * parts) or size // 2 < least:
        return [size, 2 * size]
    return [size // 2, size, 2 * size]


def _suggested(trial: Any, prepared: PreparedRun) -> FineTuningSettings:
    settings = prepared.settings
    rate, sizes = settings.learning_rates[0], _batch_sizes(prepared)
    rates = (rate / _FACTOR, rate * _FACTOR)
    return dataclasses.replace(
        settings,
        learning_rates=(trial.suggest_float("learning_rate", *rates, log=True),),
        batch_size=trial.suggest_categorical("batch_size", sizes),
        epochs=trial.suggest_float("epochs", settings.epochs / 2, settings.epochs * 2),
        layer_decay=trial.suggest_float("layer_decay", min(0.7, settings.layer_decay), 1.0),
    )


def _folder(trial: Any, output: str) -> str:
    """The folder of a trial, the same for the same settings."""
    settings = json.dumps(trial.params, sort_keys=True).encode()
    return f"{output}/{_TRIALS}/{hashlib.sha256(settings).hexdigest()[:16]}"


def _complete(study: Any) -> list[Any]:
    optuna = optional.load("optuna", _EXTRA)
    return study.get_trials(states=[optuna.trial.TrialState.COMPLETE])


def _keep_best(study: Any, output: str) -> dict[str, Any]:
    """Moves the files of the best trial to the output folder, draws all, and returns the report."""
    best = _folder(study.best_trial, output)
    for name in files.names_in(best):
        if name not in _OWN:
            if files.gfile.isdir(f"{output}/{name}"):  # of an earlier best
                files.remove_tree(f"{output}/{name}")
            files.gfile.rename(f"{best}/{name}", f"{output}/{name}", overwrite=True)
    report = json_files.read(f"{best}/report.json", dict[str, Any], finite=False)
    trials = [
        {
            **trial.params,
            "score": trial.value,
            "state": trial.state.name.lower(),
            "seconds": trial.user_attrs.get(_SECONDS),
        }
        for trial in _ended(study)
    ]
    task_report.draw_search(f"{output}/{PICTURE}", trials)
    return report | {"search": trials}
