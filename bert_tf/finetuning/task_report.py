"""Results of fine-tuning to read: predictions, mistakes, pictures, and a summary."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.finetuning.batches import LogitsFunction
from bert_tf.finetuning.run import Evaluation
from bert_tf.finetuning.task_data import Split, TaskData
from bert_tf.tasks import Task
from bert_tf.tasks.base import LabelScores
from bert_tf.training import figures
from bert_tf.training.progress import Point
from pipelines.common import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MISTAKES = 30
_SIZE = (8, 6)  # of a picture, inches
_MAX_LABELS = 20  # for scores of single labels in the summary
_SEARCHED = ("learning_rate", "batch_size", "epochs", "layer_decay")


def write_task(
    data: TaskData, predictor: LogitsFunction, folder: str, tune: bool
) -> tuple[Task, dict[str, Any]]:
    """Writes the prediction files, mistakes.txt and picture.png of a task.

    Args:
      data: the task and its dev and test data.
      predictor: computes logits with the weights to keep.
      folder: where to write.
      tune: whether thresholds are tuned on dev data.

    Returns:
      The task, with what was tuned on dev data, and its part of the report: `test_metrics`,
      `test_baselines` and `test_bag_of_words` by `split/metric`, `labels` (scores of each on dev),
      `warnings`.
    """
    task = data.task
    report: dict[str, Any] = {
        "test_metrics": {},
        "test_baselines": {},
        "test_bag_of_words": {},
        "labels": {},
        "warnings": [],
    }
    for index, split in enumerate((*data.dev, *data.test)):
        predictions = task.predict(split.examples, split.features, predictor(split.features))
        if index == 0 and data.dev:
            task = task.tune(split.examples, predictions) if tune else task
            report["labels"] = task.by_label(split.examples, predictions)
            report["warnings"] = _write_dev(task, split, predictions, folder)
        if split in data.test and split.labelled:
            scores = task.metrics(split.examples, predictions)
            report["test_metrics"] |= _prefixed(scores, f"{split.name}/")
            for key, scores in _without_model(data, split).items():
                report[f"test_{key}"] |= _prefixed(scores, f"{split.name}/")
        for name, text in task.files(split.examples, predictions, split.name).items():
            files.write_text(f"{folder}/{name}", text)
    return task, report


def _write_dev(task: Task, split: Split, predictions: Sequence[Any], folder: str) -> list[str]:
    """Writes mistakes and the picture of the dev data that decides; returns warnings."""
    examples, name = split.examples, split.name
    score = task.metrics(examples, predictions)[task.main_metric]
    what = f"{task.main_metric.replace('_', ' ')} {score:.4f} on {len(examples):,} of {name}"

    def paint(figure: "Figure") -> None:
        task.draw(figure, examples, predictions)
        figure.suptitle(f"{task.name}: {what}")

    mistakes = task.mistakes(examples, predictions, _MISTAKES)
    files.write_text(f"{folder}/mistakes.txt", "\n\n".join(mistakes) + "\n")
    figures.draw(f"{folder}/picture.png", _SIZE, paint)
    answers = {answer for prediction in predictions for answer in task.answers(prediction)}
    if len(answers) > 1 or len(examples) < 2 or score == 1:
        return []
    remedies = "Train for longer (--epochs), with another --learning_rate, or with more examples"
    if not getattr(task, "balanced", True):
        remedies += "; if one label is much more frequent than the others, with --balanced"
    return [
        f"{task.name}: the model answers {min(answers) or '(none)'!r} to all {len(examples):,} "
        f"examples of {name}, so it has not learned to tell them apart. {remedies}."
    ]


def without_model(data: Sequence[TaskData]) -> dict[str, dict[str, float]]:
    """Scores on dev data without a model, by the names of the run's metrics.

    Returns:
      `baselines`, from the labels of the training data alone, and `bag_of_words`, from its words;
      the latter only for tasks that have it.
    """
    found: dict[str, dict[str, float]] = {"baselines": {}, "bag_of_words": {}}
    for item in data:
        for split, prefix in item.scored(several=len(data) > 1):
            for key, scores in _without_model(item, split).items():
                found[key] |= _prefixed(scores, prefix)
    return found


def _without_model(data: TaskData, split: Split) -> dict[str, dict[str, float]]:
    """Scores without a model on a split."""
    task, training = data.task, data.train.examples
    guesses = {
        "baselines": task.baseline(training, split.examples),
        "bag_of_words": task.bag_of_words(training, split.examples),
    }
    return {key: task.metrics(split.examples, found) for key, found in guesses.items() if found}


def warnings_of(report: Mapping[str, Any], data: Sequence[TaskData]) -> list[str]:
    """Warns of each task whose model has a lower score on dev than the words alone."""
    found = []
    for item in data:
        for _, prefix in list(item.scored(several=len(data) > 1))[:1]:
            name = f"{prefix}{item.task.main_metric}"
            words = report["bag_of_words"].get(name)
            if words is not None and (score := report["metrics"]["median"][name]) < words:
                found.append(
                    f"{item.task.name}: {item.task.main_metric} on dev, {score:.4f}, is below the "
                    f"{words:.4f} of TF-IDF with logistic regression. Start from a model that was "
                    "pre-trained for longer, or on texts like these."
                )
    return found


def _prefixed(scores: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in scores.items()}


def draw_curves(
    path: str, name: str, points: Sequence[Point], evaluations: Sequence[Evaluation]
) -> None:
    """Draws the training loss and the scores on dev of a run over its steps, as a PNG."""

    def paint(figure: "Figure") -> None:
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


def draw_search(path: str, trials: Sequence[Mapping[str, Any]]) -> None:
    """Draws the scores of a search over each of the settings, as a PNG."""
    done = [trial for trial in trials if trial["score"] is not None]

    def paint(figure: "Figure") -> None:
        for axes, name in zip(figure.subplots(2, 2, sharey=True).flat, _SEARCHED, strict=True):
            for state in sorted({trial["state"] for trial in done}):
                shown = [trial for trial in done if trial["state"] == state]
                values, scores = ([trial[k] for trial in shown] for k in (name, "score"))
                axes.plot(values, scores, "o" if state == "complete" else "x", label=state)
            axes.set_xscale("log" if name == "learning_rate" else "linear")
            axes.set_xlabel(name.replace("_", " "))
            axes.grid(alpha=0.3)
        figure.axes[0].legend(fontsize=8)
        figure.supylabel("score on dev")

    figures.draw(path, _SIZE, paint)


def summary(report: Mapping[str, Any]) -> str:
    """The report as a few lines of text."""
    seeds, medians = report["metrics"]["by_seed"], report["metrics"]["median"]
    lines = ["There was no dev data to score with."]
    if medians:
        each = "".join(f"{f'seed {s}':>10}" for s in seeds)
        words = "TF-IDF" if report["bag_of_words"] else ""
        lines = [f"{'metric':32} {'median':>8} {'baseline':>9} {words:>9}{each}"]
    for name, median in medians.items():
        each = "".join(f"{metrics[name]:10.4f}" for metrics in seeds.values())
        lines.append(
            _score_line("", name, median, report["baselines"], report["bag_of_words"]) + each
        )
    for task, scores in report["test_metrics"].items():
        prefix = f"{task}/" if len(report["test_metrics"]) > 1 else ""
        others = report["test_baselines"][task], report["test_bag_of_words"][task]
        lines += [_score_line(prefix, name, value, *others) for name, value in scores.items()]
    for task, labels in report["labels"].items():
        if labels and len(labels) <= _MAX_LABELS:
            lines += _label_lines(task, labels)
    for name, values in report.get("distillation", {}).items():
        shown = (f"{key.replace('_', ' ')} {value:,.4g}" for key, value in values.items())
        lines.append(f"{name:32} {', '.join(shown)}")
    if folds := report.get("folds"):
        for name, mean in folds["mean"].items():
            low, high = folds["range"][name]
            spread = f"mean of {folds['count']} folds, {low:.4f} to {high:.4f}"
            lines.append(f"{name:32} {mean:8.4f} {spread}")
    if trials := report.get("search"):
        best = max((t for t in trials if t["state"] == "complete"), key=lambda t: t["score"])
        chosen = (f"{k.replace('_', ' ')} {best[k]:.4g}" for k in _SEARCHED)
        lines.append(f"Best of {len(trials)} trials: {', '.join(chosen)}.")
    for name, notes in report["notes"].items():
        lines += [f"{name}: {what}: {count:,}" for what, count in notes.items()]
    lines += [f"warning: {warning}" for warning in report["warnings"]]
    lines.append(f"learning rate {report['learning_rate']:g}, {report['seconds']:.0f} s")
    return "\n".join(lines)


def _score_line(prefix: str, name: str, value: float, *others: Mapping[str, float]) -> str:
    """A score next to those of the same name without a model, which some tasks lack."""
    cells = (f"{scores[name]:9.4f}" if name in scores else f"{'':9}" for scores in others)
    return f"{prefix + name:32} {value:8.4f} {' '.join(cells)}"


def _label_lines(task: str, labels: Mapping[str, LabelScores]) -> list[str]:
    head = "".join(f" {kind:>9}" for kind in ("precision", "recall", "f1", "count"))
    lines = [f"{task + ', dev':32}{head}"]
    for name, scores in labels.items():
        *values, count = scores.values()
        lines.append(f"  {name:30}" + "".join(f" {v:9.4f}" for v in values) + f" {count:9,}")
    return lines
