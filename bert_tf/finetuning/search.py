"""Search for the settings of fine-tuning with the best score on dev, by Optuna.

Trials are ordinary runs; one whose score falls behind the median of the others is given up.
"""

import dataclasses
import hashlib
import json
import statistics
from typing import Any

import keras

from bert_tf.finetuning import sweep, task_report
from bert_tf.finetuning.settings import FineTuningSettings
from bert_tf.training import run_folder
from bert_tf.training.loop import TrainingDivergedError
from pipelines.common import files, json_files, optional
from pipelines.common.errors import InputError

PICTURE = "search.png"
_EXTRA = "search"
_TRIALS, _JOURNAL = "trials", "search.log"
_OWN = ("report.json", "run.json", "runs")  # files of a trial that do not move
_FACTOR = 5  # of the learning rate, up and down
_FIRST = 4  # trials that are not given up


def search(settings: FineTuningSettings, output: str, cache: str, minutes: float) -> dict[str, Any]:
    """Fine-tunes with various settings for some minutes, and keeps the best model.

    A search that was stopped is resumed; another trial begins if there is time for a usual one.

    Args:
      settings: the first trial. Learning rate, batch size, epochs and layer decay vary.
      output: folder for the best model, its predictions, the report and a picture of the trials.
      cache: folder for features.
      minutes: for all trials together.

    Returns:
      The report of the best trial, with all trials as `search`.

    Raises:
      InputError: as for `sweep.finetune`; or the settings name several learning rates or seeds; or
        there is no dev data.
    """
    optuna = optional.load("optuna", _EXTRA)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings.check()
    if len(settings.learning_rates) > 1 or len(settings.seeds) > 1:
        raise InputError("--search_minutes: varies the learning rate itself; give one, and a seed.")
    identity = json_files.as_json({"search": True, "settings": settings.identity()})
    with run_folder.open_run(output, identity, write=True) as finished:
        if finished is not None:
            return finished
        study = _study(output, settings)
        while _has_time(study, 60 * minutes):
            _try(study, settings, output, cache)
        report = _keep_best(study, output)
        run_folder.write_report(output, report)
        files.remove_tree(f"{output}/{_TRIALS}")
        return report


def _study(output: str, settings: FineTuningSettings) -> Any:
    """The trials so far. The one that was running begins anew, and resumes its run."""
    optuna = optional.load("optuna", _EXTRA)
    journal = optional.load("optuna.storages.journal", _EXTRA).JournalFileBackend
    study = optuna.create_study(
        study_name=_TRIALS,
        storage=optuna.storages.JournalStorage(journal(f"{output}/{_JOURNAL}")),
        pruner=optuna.pruners.MedianPruner(_FIRST),
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
        if trial.params:
            study.enqueue_trial(trial.params)
    return study


def _has_time(study: Any, seconds: float) -> bool:
    """Whether another trial would end in time; the first one always begins."""
    taken = [trial.duration.total_seconds() for trial in study.trials if trial.duration]
    return not taken or sum(taken) + statistics.median(taken) <= seconds


def _try(study: Any, settings: FineTuningSettings, output: str, cache: str) -> None:
    """Does the next trial, and removes its files unless it is the best."""
    optuna = optional.load("optuna", _EXTRA)
    # What comes next follows from the trials so far, whether or not the search was resumed.
    tried = {_folder(trial, output) for trial in study.trials if trial.params}
    study.sampler = optuna.samplers.TPESampler(seed=len(tried))
    trial = study.ask()
    chosen = _suggested(trial, settings)

    def evaluated(share: float, score: float) -> None:
        trial.report(score, round(100 * share))
        if trial.should_prune():
            raise optuna.TrialPruned

    keras.utils.clear_session()  # of the trial before
    try:
        report = sweep.finetune(
            chosen, _folder(trial, output), cache, tensorboard=False, evaluated=evaluated
        )
        score = report["grid"][0]["score"]
        if score is None:
            raise InputError("--search_minutes: compares scores on dev data, and there is none.")
        study.tell(trial, score)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    except TrainingDivergedError:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    best = _folder(study.best_trial, output) if _complete(study) else ""
    for name in files.names_in(f"{output}/{_TRIALS}"):
        if f"{output}/{_TRIALS}/{name}" != best:
            files.remove_tree(f"{output}/{_TRIALS}/{name}")


def _suggested(trial: Any, settings: FineTuningSettings) -> FineTuningSettings:
    rate, size = settings.learning_rates[0], settings.batch_size
    # The least is what the parts of a batch need.
    least = settings.accumulation
    sizes = sorted({max(least, size // 2), size, 2 * size})
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
    if not _complete(study):
        raise TrainingDivergedError("all trials diverged; begin with a lower --learning_rate.")
    best = _folder(study.best_trial, output)
    for name in files.names_in(best):
        if name not in _OWN:
            files.gfile.rename(f"{best}/{name}", f"{output}/{name}", overwrite=True)
    report = json_files.read(f"{best}/report.json", dict[str, Any], finite=False)
    trials = [
        {
            **trial.params,
            "score": trial.value,
            "state": trial.state.name.lower(),
            "seconds": trial.duration.total_seconds() if trial.duration else None,
        }
        for trial in study.trials
    ]
    task_report.draw_search(f"{output}/{PICTURE}", trials)
    return report | {"search": trials}
