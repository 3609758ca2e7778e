"""What fine-tuning leaves to read: predictions, mistakes, pictures, report."""

import functools
from typing import Any

from bert_tf.finetuning.inference import LogitsFunction
from bert_tf.finetuning.task_data import TaskData
from bert_tf.tasks import Task
from bert_tf.training import figures
from pipelines.common import files

_MISTAKES = 30
_SIZE = (8, 6)  # of a picture, inches


def write_task(
    data: TaskData, predictor: LogitsFunction, folder: str
) -> tuple[Task, dict[str, float]]:
    """Writes the official prediction files, mistakes.txt and picture.png of a task.

    Args:
      data: the task and its dev and test data.
      predictor: of the task, with the weights to keep.
      folder: where to write.

    Returns:
      The task, with what was tuned on dev data; and the metrics of test data that has labels.
    """
    task = data.task
    scores: dict[str, float] = {}
    for index, split in enumerate((*data.dev, *data.test)):
        predictions = task.predict(split.examples, split.features, predictor(split.features))
        if index == 0 and data.dev:
            task = task.tune(split.examples, predictions)
            mistakes = task.mistakes(split.examples, predictions, _MISTAKES)
            files.write_text(f"{folder}/mistakes.txt", "\n\n".join(mistakes) + "\n")
            paint = functools.partial(task.draw, examples=split.examples, predictions=predictions)
            figures.draw(f"{folder}/picture.png", _SIZE, paint)
        if split in data.test and split.labelled:
            found = task.metrics(split.examples, predictions)
            scores |= {f"{split.name}/{name}": value for name, value in found.items()}
        for name, text in task.files(split.examples, predictions, split.name).items():
            files.write_text(f"{folder}/{name}", text)
    return task, scores


def summary(report: dict[str, Any]) -> str:
    """The report as a few lines of text."""
    seeds = report["metrics"]["by_seed"]
    lines = ["There was no dev data to score with."]
    if report["metrics"]["median"]:
        lines = [f"{'metric':32} {'median':>8}" + "".join(f"{f'seed {s}':>10}" for s in seeds)]
    for name, median in report["metrics"]["median"].items():
        each = "".join(f"{metrics[name]:10.4f}" for metrics in seeds.values())
        lines.append(f"{name:32} {median:8.4f}{each}")
    for task, scores in report["test_metrics"].items():
        prefix = f"{task}/" if len(report["test_metrics"]) > 1 else ""
        lines += [f"{prefix + name:32} {value:8.4f}" for name, value in scores.items()]
    for name, notes in report["notes"].items():
        lines += [f"{name}: {count:,} {what}" for what, count in notes.items()]
    lines.append(f"learning rate {report['learning_rate']:g}, {report['seconds']:.0f} s")
    return "\n".join(lines)
