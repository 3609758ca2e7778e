"""The report of the experiments: Markdown, JSON and pictures."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import bert_tf
from bert_tf.experiments import plots
from bert_tf.experiments.plan import Plan
from bert_tf.experiments.scale import sees_enough
from bert_tf.experiments.scheduler import Entry, table
from bert_tf.experiments.studies.base import Outcomes, PaperTable, Scores, Study
from pipelines.common import files, json_files, process_pool

REPORT, NUMBERS = "report.md", "report.json"
_SURE = 0.01  # a difference of accuracies that is none of chance


def write(
    folder: str,
    plan: Plan,
    studies: Sequence[Study],
    entries: Sequence[Entry],
    about: str,
    left_out: Sequence[str] = (),
) -> None:
    """Writes the report of what is done so far.

    Args:
      folder: for report.md, report.json and a PNG of each study.
      plan: that was followed.
      studies: to report on.
      entries: all jobs.
      about: what the data is.
      left_out: studies that there was no time for.
    """
    outcomes = {e.job.key: e.outcome for e in entries if e.outcome is not None}
    parts = [_head(plan, outcomes, about), *_warnings(plan, entries, left_out)]
    found: dict[str, Any] = {}
    for study in studies:
        scores = study.scores(plan.inputs, plan.scale, outcomes)
        axes = study.axes(plan.inputs, plan.scale)
        picture = f"{study.name}.png"
        plots.draw(f"{folder}/{picture}", study.title, scores, axes, study.plain_columns)
        drawn = files.gfile.exists(f"{folder}/{picture}")
        parts.append(_section(study, scores, picture if drawn else None))
        found[study.name] = _numbers(study, scores)
    parts.append(_jobs(entries))
    files.write_text(f"{folder}/{REPORT}", "\n\n".join(parts) + "\n")
    values = {"machine": _machine(), "scale": _scale(plan), "studies": found}
    json_files.write(f"{folder}/{NUMBERS}", json_files.as_json(values))


def _head(plan: Plan, outcomes: Outcomes, about: str) -> str:
    """What was done, with what."""
    scale, inputs = plan.scale, plan.inputs
    tokens = scale.steps * scale.batch_size * scale.length
    hours = sum(outcome["seconds"] for outcome in outcomes.values()) / 3600
    seeds = ", ".join(map(str, scale.seeds))
    tasks = [
        f"| {task.name} | {task.kind} | {min(task.rows[0], scale.cap or task.rows[0]):,} | "
        f"{task.rows[1]:,} | {task.tokens} | {scale.recipe(task).epochs:g} |"
        for task in inputs.tasks
    ]
    several = len(scale.pretraining_seeds)
    models = "one seed" if several == 1 else f"{several} seeds in the first study, one in others"
    precision = f"; all models in {plan.precision}"
    cap = f"; at most {scale.cap:,} training examples of a task" if scale.cap else ""
    return "\n".join(
        [
            "# The paper's experiments",
            "",
            f"Pre-training: {scale.main.layers} layers, {scale.main.width} wide (but where sizes "
            f"are compared), {scale.steps:,} steps of {scale.batch_size} sequences of "
            f"{scale.length} tokens ({tokens / 1e6:,.1f} million), learning rate "
            f"{scale.pretraining_rate:g}, {models}{precision}. Fine-tuning: seeds {seeds}{cap}. "
            f"{about.capitalize()}.",
            "",
            f"{hours:.1f} hours of computing on {_machine()}, bert-tf {bert_tf.__version__}, "
            f"TensorFlow {tf.__version__}.",
            "",
            "Figures are those on dev, in percent unless said: mean ± standard deviation over "
            "seeds (number of seeds). Two figures count as different when their means are "
            "farther apart than twice the standard error of the difference. "
            + _about_spread(several),
            "",
            "| task | kind | training examples | dev examples | tokens of one | epochs |",
            "|---|---|---|---|---|---|",
            *tasks,
        ]
    )


def _about_spread(models: int) -> str:
    if models == 1:
        return "A model is pre-trained once, so the spread has nothing of that in it."
    return (
        f"In the first study the spread is that of {models} models, each with the mean of its "
        "seeds of fine-tuning; others are pre-trained once, and their spread has nothing of it."
    )


def _warnings(plan: Plan, entries: Sequence[Entry], left_out: Sequence[str]) -> list[str]:
    """What is to be known before the figures are read."""
    found = []
    if left_out:
        found.append(
            f"Left out, as there was no time for models that learn enough: {', '.join(left_out)}. "
            "A larger budget has them."
        )
    if not sees_enough(plan.scale):
        found.append(
            "**The budget is too small for the studies:** the models see less than four tokens for "
            "each of their weights, and know little more than what stands next to what."
        )
    behind = [entry.job.label for entry in entries if _is_behind(entry)]
    if behind:
        found.append(
            "No better at masked tokens than the best guess from a neighbour, so that findings are "
            f"not to be expected of them: {'; '.join(behind)}."
        )
    return found


def _is_behind(entry: Entry) -> bool:
    """Whether a pre-trained model guesses masked tokens no better than can be without one."""
    scores = (entry.outcome or {"scores": {}})["scores"].get("", {})
    masked, guess = scores.get("masked_lm_accuracy"), scores.get("bigram_accuracy")
    return masked is not None and guess is not None and masked <= guess + _SURE


def _section(study: Study, scores: Scores, picture: str | None) -> str:
    columns = plots.columns_of(scores)
    rows = {
        label: [
            row[name].text(name not in study.plain_columns) if name in row else ""
            for name in columns
        ]
        for label, row in scores.items()
    }
    findings = [f"- {found.sentence}" for found in study.findings(scores)]
    parts = [f"## {study.title}", study.question]
    if rows:
        parts.append(_markdown(columns, rows))
    if picture:
        parts.append(f"![{study.title}]({picture})")
    parts += ["\n".join(findings), _paper(study.paper)]
    return "\n\n".join(parts)


def _paper(paper: PaperTable) -> str:
    if not paper.rows:
        return f"The paper: {paper.source}."
    rows = {
        label: ["" if value is None else f"{value:g}" for value in values]
        for label, values in paper.rows.items()
    }
    return f"The paper ({paper.source}):\n\n{_markdown(paper.columns, rows)}"


def _markdown(columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in rows.items()]
    return "\n".join(lines)


def _numbers(study: Study, scores: Scores) -> dict[str, Any]:
    return {
        "title": study.title,
        "scores": {
            label: {column: score.to_json() for column, score in row.items()}
            for label, row in scores.items()
        },
        "findings": [
            {"sentence": found.sentence, "verdicts": [str(v) for v in found.verdicts]}
            for found in study.findings(scores)
        ],
        "paper": {
            "source": study.paper.source,
            "columns": list(study.paper.columns),
            "rows": {label: list(row) for label, row in study.paper.rows.items()},
        },
    }


def _jobs(entries: Sequence[Entry]) -> str:
    return f"## The jobs\n\n```\n{table(entries)}\n```"


def _scale(plan: Plan) -> dict[str, Any]:
    scale = plan.scale
    return {
        "main": str(scale.main),
        "sizes": list(map(str, scale.sizes)),
        "steps": scale.steps,
        "batch_size": scale.batch_size,
        "max_seq_length": scale.length,
        "seeds": list(scale.seeds),
        "most_training_examples": scale.cap,
        "precision": plan.precision,
    }


def _machine() -> str:
    """What the machine is, in a few words."""
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    cores = process_pool.default_workers()
    accelerators = ", ".join(str(name) for name in names) or "no GPU"
    return f"{cores} cores ({platform.machine()}), {accelerators}"
