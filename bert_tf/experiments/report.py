"""The report of the experiments as Markdown and JSON, with a picture for each study."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import bert_tf
from bert_tf.experiments import plots
from bert_tf.experiments.plan import ExperimentPlan
from bert_tf.experiments.schedule import JobEntry, table
from bert_tf.experiments.studies import STUDIES
from bert_tf.experiments.studies.base import PaperTable, ScoreTable, Study
from pipelines.common import files, json_files
from pipelines.common.machine import cores

_MIN_DIFFERENCE = 0.01  # of two accuracies


def write(
    plan: ExperimentPlan,
    studies: Sequence[str],
    entries: Sequence[JobEntry],
    left_out: Sequence[str] = (),
) -> None:
    """Writes report.md, report.json and the pictures to the folder of the plan.

    Args:
      plan: the plan.
      studies: names of the studies to report on.
      entries: all jobs; those that are not done leave gaps.
      left_out: names of studies that the budget is too small for.
    """
    outcomes = {entry.job.name: entry.outcome for entry in entries if entry.outcome is not None}
    hours = sum(outcome["seconds"] for outcome in outcomes.values()) / 3600
    parts = [_head(plan, hours), *_warnings(plan, entries, left_out)]
    found: dict[str, Any] = {}
    for study in (STUDIES[name] for name in studies):
        scores = study.scores(plan, outcomes)
        picture = f"{plan.folder}/{study.name}.png"
        plots.draw(picture, study.title, scores, study.axes(plan), study.plain_columns)
        drawn = files.gfile.exists(picture)
        parts.append(_section(study, scores, f"{study.name}.png" if drawn else None))
        found[study.name] = _numbers(study, scores)
    parts.append(f"## The jobs\n\n```\n{table(entries)}\n```")
    files.write_text(f"{plan.folder}/report.md", "\n\n".join(parts) + "\n")
    values = {"machine": _machine(), "scale": _scale(plan), "studies": found}
    json_files.write(f"{plan.folder}/report.json", values)


def _head(plan: ExperimentPlan, hours: float) -> str:
    """The scale, the data, and how to read the figures."""
    several = len(plan.model_seeds)
    models, spread = "one seed", "A model is pre-trained once, so the spread has nothing of that."
    if several > 1:
        models = f"{several} seeds in the first study, one in others"
        spread = (
            f"In the first study the spread is that of {several} models, each with the mean of "
            "its seeds of fine-tuning; others are pre-trained once, and their spread has nothing "
            "of it."
        )
    settings, cap = plan.settings, plan.max_examples
    capped = f"; at most {cap:,} training examples of a task" if cap else ""
    names = ", ".join(task.name for task in plan.tasks)
    about = (
        f"Corpus: {settings.corpus}; tasks: {settings.tasks}"
        if settings.tasks
        else f"Made of the corpus itself ({names}), of text that no model was pre-trained on"
    )
    counts = {task.name: plan.examples_of(task) for task in plan.tasks}
    tasks = [
        f"| {task.name} | {task.request.kind} | {counts[task.name]:,} | {task.dev_examples:,} | "
        f"{task.tokens} | {plan.recipe(task, counts[task.name], plan.size.width)['epochs']} |"
        for task in plan.tasks
    ]
    return "\n".join(
        [
            "# The paper's experiments",
            "",
            f"Pre-training: {plan.size.layers} layers, {plan.size.width} wide (but where sizes "
            f"are compared), {plan.steps:,} steps of {plan.batch_size} sequences of "
            f"{plan.length} tokens ({plan.tokens / 1e6:,.1f} million), learning rate "
            f"{plan.size.learning_rate:g}, {models}; all models in {plan.precision}. Fine-tuning: "
            f"seeds {', '.join(map(str, plan.seeds))}{capped}. {about}.",
            "",
            f"{hours:.1f} hours of computing on {_machine()}, bert-tf {bert_tf.__version__}, "
            f"TensorFlow {tf.__version__}.",
            "",
            "Figures are those on dev, in percent unless said: mean ± standard deviation over "
            "seeds (number of seeds). Two figures count as different when their means are "
            f"farther apart than twice the standard error of the difference. {spread}",
            "",
            "| task | kind | training examples | dev examples | tokens of one | epochs |",
            "|---|---|---|---|---|---|",
            *tasks,
        ]
    )


def _warnings(
    plan: ExperimentPlan, entries: Sequence[JobEntry], left_out: Sequence[str]
) -> list[str]:
    """Paragraphs that limit what can be concluded."""
    found = []
    if left_out:
        found.append(
            f"Left out, as there was no time for models that learn enough: {', '.join(left_out)}. "
            "A larger budget has them."
        )
    if not plan.sees_enough:
        found.append(
            "**The budget is too small for the studies:** the models see less than four tokens for "
            "each of their weights, and know little more than which words are neighbours."
        )
    behind = [entry.job.label for entry in entries if _is_behind(entry)]
    if behind:
        found.append(
            "No better at masked tokens than the best guess from a neighbour, so that findings are "
            f"not to be expected of them: {'; '.join(behind)}."
        )
    return found


def _is_behind(entry: JobEntry) -> bool:
    """Whether a model predicts masked tokens no better than a guess without a model."""
    scores = entry.outcome["scores"].get("", {}) if entry.outcome else {}
    masked, guess = scores.get("masked_lm_accuracy"), scores.get("bigram_accuracy")
    return masked is not None and guess is not None and masked <= guess + _MIN_DIFFERENCE


def _section(study: Study, scores: ScoreTable, picture: str | None) -> str:
    columns = plots.columns_of(scores)
    rows = {
        label: [
            row[name].text(name not in study.plain_columns) if name in row else ""
            for name in columns
        ]
        for label, row in scores.items()
    }
    parts = [f"## {study.title}", study.question]
    if rows:
        parts.append(_markdown(columns, rows))
    if picture:
        parts.append(f"![{study.title}]({picture})")
    findings = [f"- {found.sentence}" for found in study.findings(scores)]
    return "\n\n".join([*parts, "\n".join(findings), _paper(study.paper)])


def _paper(paper: PaperTable) -> str:
    if not paper.rows:
        return f"The paper: {paper.source}."
    rows = {label: [f"{value:g}" for value in values] for label, values in paper.rows.items()}
    return f"The paper ({paper.source}):\n\n{_markdown(paper.columns, rows)}"


def _markdown(columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in rows.items()]
    return "\n".join(lines)


def _numbers(study: Study, scores: ScoreTable) -> dict[str, Any]:
    return {
        "title": study.title,
        "scores": {
            label: {column: score.to_json() for column, score in row.items()}
            for label, row in scores.items()
        },
        "findings": [found._asdict() for found in study.findings(scores)],
        "paper": study.paper._asdict(),
    }


def _scale(plan: ExperimentPlan) -> dict[str, Any]:
    return {
        "main": str(plan.size),
        "sizes": list(map(str, plan.sizes)),
        "steps": plan.steps,
        "batch_size": plan.batch_size,
        "max_seq_length": plan.length,
        "seeds": plan.seeds,
        "max_training_examples": plan.max_examples,
        "precision": plan.precision,
    }


def _machine() -> str:
    """The cores and GPUs of this machine."""
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    accelerators = ", ".join(str(name) for name in names) or "no GPU"
    return f"{cores()} cores ({platform.machine()}), {accelerators}"
