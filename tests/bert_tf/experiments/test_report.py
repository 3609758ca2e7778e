"""The report of runs that are done, failed or open, by reports made by hand."""

import json
import random

import pytest

from bert_tf.experiments import report
from bert_tf.experiments.studies import STUDIES
from tests.bert_tf.experiments.test_studies import TASKS, make_plan


def write_reports(runs, grid=lambda run: [], **pretrained):
    """Writes what the report reads of each run: a grid of scores, or figures of pre-training."""
    for run in runs:
        path = run.mark.rpartition("/")[0]
        import os

        os.makedirs(path, exist_ok=True)
        found = {"seconds": 36.0, "steps": 12_000, **pretrained}
        if run.words[0] == "finetune":
            sizes = {
                task.name: {"train": 3000, "dev": 872} for task in TASKS if task.name in run.name
            }
            found = {"seconds": 36.0, "examples": sizes, "grid": grid(run)}
        with open(run.mark, "w") as file:
            json.dump(found, file)


def seeds(*values, diverged=()):
    return [
        {"seed": seed, "score": score, "diverged": "NaN" if seed in diverged else None}
        for seed, score in enumerate(values, 1)
    ]


@pytest.fixture
def plan(tmp_path):
    return make_plan(output=str(tmp_path))


def test_a_report_of_all_studies(plan, tmp_path):
    rng = random.Random(0)
    runs = plan.runs(STUDIES)
    write_reports(
        runs,
        lambda run: seeds(*(rng.uniform(0.7, 0.8) for _ in range(3))),
        perplexity=60.5, masked_lm_accuracy=0.3, bigram_accuracy=0.14,
    )  # fmt: skip
    report.write(plan, list(STUDIES), {})
    text = (tmp_path / "report.md").read_text()
    assert "not done" not in text and "failed" not in text and "Do not expect" not in text
    assert (
        "| 2 x 128 | 60.50 (1) | 7" in text and "| 12x768, 12 | 3.99 | 84.4 | 86.7 | 92.9 |" in text
    )
    assert "rte 3,000 and 872" in text and "Budget 2h" in text
    assert text.count("done ") == len(runs)
    found = json.loads((tmp_path / "report.json").read_text())
    assert list(found["studies"]) == list(STUDIES) and found["scale"]["budget"] == "2h"
    assert found["studies"]["features"]["paper"]["rows"]["ELMo"] == [95.7]
    assert {path.stem for path in tmp_path.glob("*.png")} == set(STUDIES)
    assert all(f"![{study.title}]({name}.png)" in text for name, study in STUDIES.items())


def test_figures_and_findings_follow_from_the_scores(plan, tmp_path):
    """Hand-made: BERT is better than the control in topics, equal in tags; one run diverged."""
    scores = {
        "not-pre-trained-topic": seeds(0.60, 0.62, 0.61), "bert-topic": seeds(0.70, 0.72, 0.71),
        "not-pre-trained-pos": seeds(0.80, 0.82, 0.84), "bert-pos": seeds(0.81, 0.83, 0.82),
        "no-nsp-topic": seeds(0.70, None, 0.74, diverged=(2,)),
    }  # fmt: skip
    runs = [r for r in plan.runs(["pretraining"]) if r.name.removeprefix("finetuning/") in scores]
    write_reports(runs, lambda run: scores[run.name.removeprefix("finetuning/")])
    report.write(plan, ["pretraining"], {"finetuning/bert-rte": "error: no labels"})
    text = (tmp_path / "report.md").read_text()
    assert "| BERT | 71.0 ± 1.0 (3) | failed | 82.0 ± 1.0 (3) |" in text
    assert "| no NSP | 72.0 ± 2.8 (2) 1 diverged | not done | not done |" in text
    found = json.loads((tmp_path / "report.json").read_text())["studies"]["pretraining"]
    helps = next(f for f in found["findings"] if f["sentence"].startswith("Pre-training helps"))
    assert helps["sentence"] == (
        "Pre-training helps: seen in part (1 as in the paper, 1 within the spread)."
    )
    assert helps["verdicts"] == ["higher", "unknown", "alike"]
    assert found["scores"]["BERT"]["topic"]["values"] == [0.70, 0.72, 0.71]
    assert "finetuning/bert-rte: error: no labels" in text and "waits" in text


def test_nothing_done_is_a_report_too(plan, tmp_path):
    report.write(plan, list(STUDIES), {})
    text = (tmp_path / "report.md").read_text()
    assert "cannot be decided (there are not enough figures or seeds)" in text
    assert "cannot be decided (not all models are trained)" in text
    assert not list(tmp_path.glob("*.png"))


def test_a_figure_of_several_models_has_the_spread_of_the_models(tmp_path):
    plan = make_plan("24h", output=str(tmp_path))
    runs = plan.tables["pretraining"]["BERT"]["topic"]
    of_models = dict(zip(runs, (seeds(0.7, 0.8), seeds(0.6, 0.8), seeds(0.5, 0.7)), strict=True))
    write_reports(runs, of_models.get)
    report.write(plan, ["pretraining"], {})
    found = json.loads((tmp_path / "report.json").read_text())["studies"]["pretraining"]
    assert found["scores"]["BERT"]["topic"]["values"] == pytest.approx([0.75, 0.7, 0.6])
    assert "it is that of 3 models" in (tmp_path / "report.md").read_text()


def test_models_that_know_only_neighbours_are_named(plan, tmp_path):
    runs = [run for run in plan.runs(["pretraining"]) if run.words[0] == "pretrain"]
    write_reports(runs[1:2], masked_lm_accuracy=0.165, bigram_accuracy=0.16)
    write_reports(runs[2:3], masked_lm_accuracy=0.3, bigram_accuracy=0.16)
    # The control knows nothing, as it should.
    write_reports(runs[:1], masked_lm_accuracy=0.0, bigram_accuracy=0.16, steps=1)
    report.write(plan, ["pretraining"], {})
    text = (tmp_path / "report.md").read_text()
    assert "no better than a guess from a neighbour: pretraining/bert.\n" in text
