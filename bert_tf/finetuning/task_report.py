"""What fine-tuning leaves to read: predictions, mistakes, pictures, report."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.finetuning.inference import LogitsFunction
from bert_tf.finetuning.scores import Evaluation
from bert_tf.finetuning.task_data import Split, TaskData
from bert_tf.tasks import Task
from bert_tf.tasks.base import LabelScores
from bert_tf.training import figures
from bert_tf.training.progress import Point
from pipelines.common import files

if TYPE_CHECKING:
    import matplotlib.figure

_MISTAKES = 30
_SIZE = (8, 6)  # of a picture, inches
_LABELS_SHOWN = 20  # of which the summary has the scores


@dataclasses.dataclass
class Account:
    """What is told of a task when its run is over.

    Attributes:
      task: with what was tuned on dev data.
      test_metrics: of test data that has labels, by `split/metric`.
      test_baselines: what is scored there without a model.
      labels: scores of each label on dev data.
      warnings: what the user should look at.
    """

    task: Task
    test_metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    test_baselines: dict[str, float] = dataclasses.field(default_factory=dict)
    labels: dict[str, LabelScores] = dataclasses.field(default_factory=dict)
    warnings: list[str] = dataclasses.field(default_factory=list)


def write_task(data: TaskData, predictor: LogitsFunction, folder: str) -> Account:
    """Writes the prediction files, mistakes.txt and picture.png of a task.

    Args:
      data: the task and its dev and test data.
      predictor: of the task, with the weights to keep.
      folder: where to write.
    """
    task = data.task
    account = Account(task)
    for index, split in enumerate((*data.dev, *data.test)):
        predictions = task.predict(split.examples, split.features, predictor(split.features))
        if index == 0 and data.dev:
            task = account.task = task.tune(split.examples, predictions)
            _write_dev(account, split.name, split.examples, predictions, folder)
        if split in data.test and split.labelled:
            scores = task.metrics(split.examples, predictions)
            account.test_metrics |= _prefixed(scores, f"{split.name}/")
            account.test_baselines |= _prefixed(_guessed(data, split), f"{split.name}/")
        for name, text in task.files(split.examples, predictions, split.name).items():
            files.write_text(f"{folder}/{name}", text)
    return account


def _write_dev(
    account: Account, split: str, examples: Sequence[Any], predictions: Sequence[Any], folder: str
) -> None:
    """Writes what is drawn and told of the dev data that decides."""
    task = account.task
    score = task.metrics(examples, predictions)[task.main_metric]
    what = f"{task.main_metric.replace('_', ' ')} {score:.4f} on {len(examples):,} of {split}"

    def paint(figure: "matplotlib.figure.Figure") -> None:
        task.draw(figure, examples, predictions)
        figure.suptitle(f"{task.name}: {what}")

    mistakes = task.mistakes(examples, predictions, _MISTAKES)
    files.write_text(f"{folder}/mistakes.txt", "\n\n".join(mistakes) + "\n")
    figures.draw(f"{folder}/picture.png", _SIZE, paint)
    account.labels = task.by_label(examples, predictions)
    answers = {answer for prediction in predictions for answer in task.answers(prediction)}
    if len(answers) == 1 and len(examples) > 1 and score < 1:
        account.warnings.append(
            f"{task.name}: the model says {min(answers)!r} to all {len(examples):,} examples of "
            f"{split}, so it has learned nothing to tell them apart. Train for longer (--epochs), "
            "with another --learning_rate, with more examples, or, if one label is much more "
            "frequent than the others, with --balanced."
        )


def baselines(data: Sequence[TaskData]) -> dict[str, float]:
    """What is scored on dev data without a model, by the names of the run's metrics."""
    found: dict[str, float] = {}
    for item in data:
        for split, prefix in item.scored(several=len(data) > 1):
            found |= _prefixed(_guessed(item, split), prefix)
    return found


def _guessed(data: TaskData, split: Split) -> dict[str, float]:
    """What is scored on a split without a model."""
    guesses = data.task.baseline(data.train.examples, split.examples)
    return data.task.metrics(split.examples, guesses)


def _prefixed(scores: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in scores.items()}


def draw_curves(
    path: str, name: str, points: Sequence[Point], evaluations: Sequence[Evaluation]
) -> None:
    """Draws the loss and the scores on dev of a run over its steps, as a PNG.

    Args:
      path: of the PNG.
      name: of the run, for the title.
      points: of its history.
      evaluations: on dev data; none where there is none.
    """

    def paint(figure: "matplotlib.figure.Figure") -> None:
        figure.suptitle(name)
        loss, score = figure.subplots(2, 1, sharex=True)
        loss.plot([point.step for point in points], [point.metrics["loss"] for point in points])
        loss.set_ylabel("training loss (nats)")
        for metric in evaluations[0]["metrics"] if evaluations else ():
            values = [evaluation["metrics"][metric] for evaluation in evaluations]
            steps = [evaluation["step"] for evaluation in evaluations]
            score.plot(steps, values, marker="o", markersize=3, label=metric.replace("_", " "))
        score.set_ylabel("on dev")
        score.set_xlabel("step")
        for axes in (loss, score):
            axes.grid(alpha=0.3)
        if evaluations:
            score.legend(fontsize=8)

    figures.draw(path, _SIZE, paint)


def summary(report: Mapping[str, Any]) -> str:
    """The report as a few lines of text; reports of older versions say less."""
    seeds = report["metrics"]["by_seed"]
    guessed = report.get("baselines", {})
    lines = ["There was no dev data to score with."]
    if report["metrics"]["median"]:
        each = "".join(f"{f'seed {s}':>10}" for s in seeds)
        lines = [f"{'metric':32} {'median':>8} {'baseline':>9}{each}"]
    for name, median in report["metrics"]["median"].items():
        each = "".join(f"{metrics[name]:10.4f}" for metrics in seeds.values())
        lines.append(f"{name:32} {median:8.4f} {_baseline(guessed, name)}{each}")
    for task, scores in report["test_metrics"].items():
        prefix = f"{task}/" if len(report["test_metrics"]) > 1 else ""
        guessed = report.get("test_baselines", {}).get(task, {})
        for name, value in scores.items():
            lines.append(f"{prefix + name:32} {value:8.4f} {_baseline(guessed, name)}")
    for task, labels in report.get("labels", {}).items():
        if labels and len(labels) <= _LABELS_SHOWN:
            lines += _label_lines(task, labels)
    for name, notes in report["notes"].items():
        lines += [f"{name}: {what}: {count:,}" for what, count in notes.items()]
    lines += [f"warning: {warning}" for warning in report.get("warnings", ())]
    lines.append(f"learning rate {report['learning_rate']:g}, {report['seconds']:.0f} s")
    return "\n".join(lines)


def _baseline(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:9.4f}" if name in values else f"{'-':>9}"


def _label_lines(task: str, labels: Mapping[str, LabelScores]) -> list[str]:
    head = "".join(f" {kind:>9}" for kind in ("precision", "recall", "f1", "count"))
    lines = [f"{task + ', dev':32}{head}"]
    for name, scores in labels.items():
        *values, count = scores.values()
        lines.append(f"  {name:30}" + "".join(f" {v:9.4f}" for v in values) + f" {count:9,}")
    return lines
