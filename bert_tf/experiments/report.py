"""The report of the experiments as Markdown and JSON, with a picture for each study."""

import platform
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

import bert_tf
from bert_tf.experiments import scores
from bert_tf.experiments.plan import IDENTITY, CommandRun, Plan
from bert_tf.experiments.scores import ScoreTable, SeedScores
from bert_tf.experiments.studies import BATCH, LENGTH, PERPLEXITY, SEEDS, STUDIES, Study
from bert_tf.training import figures
from pipelines.common import files, json_files
from pipelines.common.machine import cores

if TYPE_CHECKING:
    import matplotlib.figure

_MIN_DIFFERENCE = 0.01  # of two accuracies


def write(plan: Plan, studies: Sequence[str], failed: Mapping[str, str]) -> None:
    """Writes the report of studies and its pictures; `failed` has errors by name of the run."""
    output, runs = plan.request.output, plan.runs(studies)
    reports = {run.name: report for run in runs if (report := run.report())}
    sections, found = [], {}
    for name in studies:
        study, picture = STUDIES[name], f"{output}/{name}.png"
        table = {
            label: {column: _scores(column, of, failed) for column, of in row.items()}
            for label, row in plan.tables[name].items()
        }
        _draw(picture, study, table)
        findings = [scores.check(*claim, table) for claim in study.claims.items()]
        columns = list(next(iter(table.values())))
        rows = {
            label: [score.text(column != PERPLEXITY) for column, score in row.items()]
            for label, row in table.items()
        }
        paper = {**{row.label: row.paper for row in study.rows if row.paper}, **study.paper_rows}
        sections += [f"## {study.title}", study.question, _markdown(columns, rows)]
        sections += [f"![{study.title}]({name}.png)"] if files.gfile.exists(picture) else []
        sections.append("\n".join(f"- {each.sentence}" for each in findings))
        sections.append(f"The paper: {study.paper}.")
        sections += [_markdown(study.paper_columns, paper)] if paper else []
        found[name] = {
            "title": study.title,
            "scores": {
                label: {column: score.to_json() for column, score in row.items()}
                for label, row in table.items()
            },
            "findings": [each._asdict() for each in findings],
            "paper": {"source": study.paper, "columns": study.paper_columns, "rows": paper},
        }
    sections = [_head(plan, reports), *_warning(reports), *sections]
    sections.append(_runs(runs, reports, failed))
    files.write_text(f"{output}/report.md", "\n\n".join(sections) + "\n")
    scale = {**plan.preset._asdict(), "budget": plan.request.budget, "precision": plan.precision}
    values = {"machine": _machine(), "scale": scale, "studies": found}
    json_files.write(f"{output}/report.json", values)


def _scores(column: str, runs: Sequence[CommandRun], failed: Mapping[str, str]) -> SeedScores:
    """The values of the seeds of one run; of several runs, the mean of each."""
    reports = [report for run in runs if (report := run.report())]
    if not reports:
        return SeedScores(note="failed" if any(run.name in failed for run in runs) else "not done")
    if column == PERPLEXITY:
        return SeedScores(tuple(report["perplexity"] for report in reports))
    diverged = sum(bool(seed["diverged"]) for each in reports for seed in each["grid"])
    by_run = [[seed["score"] for seed in each["grid"] if not seed["diverged"]] for each in reports]
    values = by_run[0] if len(runs) == 1 else map(statistics.fmean, by_run)
    return SeedScores(tuple(values), f"{diverged} diverged" if diverged else "")


def _head(plan: Plan, reports: Mapping[str, Any]) -> str:
    """The scale, the data, and how to read the figures."""
    preset, request = plan.preset, plan.request
    hours = sum(report["seconds"] for report in reports.values()) / 3600
    count = len(preset.pretraining_seeds)
    spread = "A model is pre-trained once, so the spread has nothing of that."
    if count > 1:
        spread = (
            f"In the first study it is that of {count} models, each with the mean of its seeds."
        )
    tasks = request.tasks or "made of the corpus, of text that no model was pre-trained on"
    counts: dict[str, str] = {}
    for report in reports.values():
        for name, size in report.get("examples", {}).items():
            counts.setdefault(name, f"{name} {size['train']:,} and {size['dev']:,}")
    tokens = preset.steps * BATCH * LENGTH / 1e6
    return (
        "# The paper's experiments\n\n"
        f"Budget {request.budget}. Corpus: {request.corpus}; tasks: {tasks}. Pre-training: "
        f"{preset.size}, {preset.width} wide (but where sizes are compared), {preset.steps:,} "
        f"steps of {BATCH} sequences of {LENGTH} tokens ({tokens:,.1f} million); all models in "
        f"{plan.precision}. Fine-tuning: seeds {SEEDS}; at most {preset.examples:,} "
        f"training examples of a task, {preset.epochs} epochs. Training and dev examples: "
        f"{', '.join(counts.values()) or 'not yet known'}.\n\n"
        f"{hours:.1f} hours of computing on {_machine()}, bert-tf {bert_tf.__version__}, "
        f"TensorFlow {tf.__version__}.\n\n"
        "Figures are those on dev, in percent unless said: mean ± standard deviation over seeds "
        "(number of seeds). Two figures count as different when their means are farther apart "
        f"than twice the standard error of the difference. {spread}"
    )


def _warning(reports: Mapping[str, Any]) -> list[str]:
    """Names the models that know little more than which words are neighbours, if any."""
    weak = []
    for name, report in reports.items():
        masked, guess = report.get("masked_lm_accuracy"), report.get("bigram_accuracy")
        weak_one = masked is not None and guess is not None and masked <= guess + _MIN_DIFFERENCE
        if weak_one and report["steps"] > 1:  # not the control
            weak.append(name)
    about = "**Do not expect findings** of models that predict masked tokens no better than a guess"
    return [f"{about} from a neighbour: {', '.join(weak)}."] if weak else []


def _markdown(columns: Sequence[str], rows: Mapping[str, Sequence[object]]) -> str:
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [f"| {label} | {' | '.join(map(str, cells))} |" for label, cells in rows.items()]
    return "\n".join(lines)


def _runs(runs: Sequence[CommandRun], reports: Mapping[str, Any], failed: Mapping[str, str]) -> str:
    lines = []
    for run in runs:
        state = "done" if run.done else "failed" if run.name in failed else "waits"
        seconds = f"{reports[run.name]['seconds']:,.0f} s" if run.name in reports else ""
        error = f": {failed[run.name]}" if run.name in failed else ""
        lines.append(f"{state:6} {seconds:>9}  {run.name}{error}")
    return "\n".join([f"## The runs\n\n`{IDENTITY}` has their commands.\n\n```", *lines, "```"])


def _machine() -> str:
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    accelerators = ", ".join(map(str, names)) or "no GPU"
    return f"{cores()} cores ({platform.machine()}), {accelerators}"


def _draw(path: str, study: Study, table: ScoreTable) -> None:
    """Draws a panel for each column that has figures, if any."""
    rows = {row.label: row for row in study.rows}
    columns: dict[str, dict[str, list[tuple[str, float, float]]]] = {}
    for label, cells in table.items():
        for name, score in cells.items():
            if score.values:
                factor = 1 if name == PERPLEXITY else 100
                spread = score.spread if len(score.values) > 1 else 0.0
                point = label, factor * score.mean, factor * spread
                columns.setdefault(name, {}).setdefault(rows[label].line, []).append(point)

    def paint(figure: "matplotlib.figure.Figure") -> None:
        panels = figure.subplots(1, len(columns), squeeze=False)[0]
        for panel, (name, lines) in zip(panels, columns.items(), strict=True):
            for line, points in lines.items():
                labels, means, spreads = zip(*points, strict=True)
                # By number: matplotlib would log that it could read "80/10/10" as a date.
                xs = [rows[label].x for label in labels] if study.axis else range(len(labels))
                # Without an axis, dots: bars would mislead, as theirs does not begin at 0.
                form = "o-" if study.axis else "o"
                panel.errorbar(xs, means, yerr=spreads, fmt=form, capsize=3, label=line)
            panel.set(title=name if name == PERPLEXITY else f"{name} (%)", xlabel=study.axis)
            panel.set_xscale("log" if study.logarithmic else "linear") if study.axis else None
            panel.set_xticks(xs, labels, rotation=90) if not study.axis else None
            panel.grid(alpha=0.3)
            if len(lines) > 1:
                panel.legend()
        figure.suptitle(study.title)

    if columns:
        figures.draw(path, (5.0 * len(columns), 3.2 if study.axis else 6.4), paint)
