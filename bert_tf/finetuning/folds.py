"""Cross-validation: the training data in parts, each of which is scored by a run on the others."""

import dataclasses
import statistics
from typing import Any

import keras
from absl import logging

from bert_tf.finetuning import sweep, task_data
from bert_tf.finetuning.settings import FineTuningSettings, Selection
from bert_tf.training import distribution, run_folder
from pipelines.common import files
from pipelines.common.errors import InputError

_FOLDS = "folds"


def finetune(settings: FineTuningSettings, output: str, cache: str) -> dict[str, Any]:
    """Fine-tunes as `sweep.finetune` does, and scores the settings on each of `settings.folds`.

    The model is that of the usual run. The runs of the folds keep their last weights, and no
    threshold is tuned, as nothing may be chosen on the part that is scored; their reports,
    predictions and mistakes are in the folder `folds`. A command that was stopped is resumed.

    Returns:
      The report of the usual run, with the metrics of each fold, their means and their ranges as
      `folds`.

    Raises:
      InputError: as for `sweep.finetune`; or there is a dev file, or there are several workers; or
        there are too few examples. All of this is noticed before anything is trained.
    """
    settings.check()
    assert settings.folds is not None
    if distribution.in_cluster():
        raise InputError("--folds: works on one machine.")
    fixed = dataclasses.replace(
        settings, folds=None, evaluations=0, selection=Selection.LAST, keep_runs=False
    )
    runs = [
        dataclasses.replace(fixed, fold=(number, settings.folds))
        for number in range(settings.folds)
    ]
    if not run_folder.is_finished(output):
        task_data.read_examples(runs[0].tasks[0], runs[0])  # the others fail for the same reasons
    report = sweep.finetune(dataclasses.replace(settings, folds=None), output, cache)
    if report.get(_FOLDS, {}).get("count") == settings.folds:
        return report
    found = []
    for number, chosen in enumerate(runs):
        keras.utils.clear_session()  # of the run before
        logging.info("fold %d of %d", number + 1, settings.folds)
        folder = f"{output}/{_FOLDS}/{number + 1}-of-{settings.folds}"
        found.append(sweep.finetune(chosen, folder, cache)["metrics"]["median"])
        files.remove_tree(f"{folder}/checkpoint")
    names = [name for name in found[0] if all(name in metrics for metrics in found)]
    if some := sorted(set().union(*found).difference(names)):
        logging.warning("left out, as not every fold has such examples: %s", ", ".join(some))
    by_name = {name: [metrics[name] for metrics in found] for name in names}
    report[_FOLDS] = {
        "count": settings.folds,
        "by_fold": by_name,
        "mean": {name: statistics.fmean(values) for name, values in by_name.items()},
        "range": {name: [min(values), max(values)] for name, values in by_name.items()},
    }
    run_folder.write_report(output, report)
    return report
