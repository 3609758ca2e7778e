"""The report of every study, of outcomes that are made up."""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf.experiments import report
from bert_tf.experiments.finetuning_jobs import FineTuning
from bert_tf.experiments.jobs import with_needs
from bert_tf.experiments.plan import Plan
from bert_tf.experiments.pretraining_jobs import Pretraining
from bert_tf.experiments.scheduler import Entry, State
from bert_tf.experiments.settings import STUDIES as NAMES
from bert_tf.experiments.studies.registry import STUDIES
from tests.bert_tf.experiments.test_plan import INPUTS, _scale

PLAN = Plan(INPUTS, _scale(cap=1000, seeds=(1, 2, 3)), "float32", NAMES)


def _entries(plan=PLAN, score=0.7):
    """Jobs that are done; the scores of fine-tuning are of `score` and a spread."""
    entries = []
    for number, job in enumerate(with_needs(plan.jobs(NAMES))):
        if isinstance(job, FineTuning):
            rng = np.random.default_rng(number)
            scores = {str(s): {"score": score + 0.01 * rng.standard_normal()} for s in job.seeds}
        else:
            scores = {"": {"perplexity": 100.0 - number}}
        outcome = {"seconds": 10.0, "scores": scores, "diverged": {}}
        entries.append(Entry(job, State.DONE, outcome))
    return entries


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    report.write(str(folder), PLAN, list(STUDIES.values()), _entries(), "texts of a test")
    return folder


def test_every_study_has_a_table_a_picture_and_findings(written):
    text = (written / "report.md").read_text()
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    for study in STUDIES.values():
        section = sections[study.title]
        assert f"]({study.name}.png)" in section
        assert (written / f"{study.name}.png").read_bytes()[:4] == b"\x89PNG"
        for label in study.rows(INPUTS, PLAN.scale):
            assert f"| {label} |" in section
        assert "\n- " in section
        for row in study.paper.rows:
            assert f"| {row} |" in section
    assert "texts of a test" in text.lower()
    assert "(3)" in text and "±" in text
    assert text.count("done") == len(_entries())


def test_numbers_are_those_of_the_table(written):
    found = json.loads((written / "report.json").read_text())
    assert list(found["studies"]) == list(NAMES)
    for study in STUDIES.values():
        numbers = found["studies"][study.name]
        rows = study.rows(INPUTS, PLAN.scale)
        assert {k: set(v) for k, v in numbers["scores"].items()} == {
            label: set(cells) for label, cells in rows.items()
        }
        assert all(entry["sentence"].endswith(".") for entry in numbers["findings"])
    score = found["studies"]["pretraining"]["scores"]["BERT"]["rte"]
    assert len(score["values"]) == 3 and score["mean"] == pytest.approx(np.mean(score["values"]))
    assert found["scale"]["seeds"] == [1, 2, 3]


def test_a_report_of_what_is_half_done(tmp_path):
    """Jobs that wait, failed or diverged leave holes, and are told."""
    entries = _entries()
    for number, entry in enumerate(entries):
        if isinstance(entry.job, FineTuning):
            if number % 3 == 0:
                entry.state, entry.outcome = State.WAITING, None
            elif number % 3 == 1:
                diverged = {"seconds": 1.0, "scores": {}, "diverged": dict.fromkeys("123", "lost")}
                entry.outcome = diverged
    report.write(str(tmp_path), PLAN, list(STUDIES.values()), entries, "texts")
    text = (tmp_path / "report.md").read_text()
    assert "not done" in text and "3 diverged" in text and "waits" in text


def test_nothing_done_is_a_report_too(tmp_path):
    entries = [Entry(job) for job in with_needs(PLAN.jobs(NAMES))]
    report.write(str(tmp_path), PLAN, list(STUDIES.values()), entries, "texts")
    text = (tmp_path / "report.md").read_text()
    assert "cannot be told, as there are not enough figures or seeds" in text
    assert not list(tmp_path.glob("*.png"))


def test_one_seed_tells_of_no_difference(tmp_path):
    plan = dataclasses.replace(PLAN, scale=dataclasses.replace(PLAN.scale, seeds=(1,)))
    report.write(str(tmp_path), plan, list(STUDIES.values()), _entries(plan), "texts")
    text = (tmp_path / "report.md").read_text()
    assert "as in the paper" not in text.split("The paper")[0]
    assert "cannot be told" in text


def test_one_task_alone_has_all_studies(tmp_path):
    for task in INPUTS.tasks:
        inputs = dataclasses.replace(INPUTS, tasks=(task,))
        plan = dataclasses.replace(PLAN, inputs=inputs)
        folder = tmp_path / task.name
        folder.mkdir()
        report.write(str(folder), plan, list(STUDIES.values()), _entries(plan), "texts")
        text = (folder / "report.md").read_text()
        assert "nothing to see" in text  # no task before another one


def test_what_is_to_be_known_before_the_figures_is_told(tmp_path):
    entries = _entries()
    bert = next(entry for entry in entries if isinstance(entry.job, Pretraining))
    bert.outcome["scores"][""] |= {"masked_lm_accuracy": 0.165, "bigram_accuracy": 0.16}
    report.write(str(tmp_path), PLAN, list(STUDIES.values()), entries, "texts", ["masking"])
    text = (tmp_path / "report.md").read_text()
    assert "Left out, as there was no time for models that learn enough: masking." in text
    assert "The budget is too small for the studies" in text
    assert f"not to be expected of them: {bert.job.label}." in text
    bert.outcome["scores"][""]["masked_lm_accuracy"] = 0.3
    plan = dataclasses.replace(PLAN, scale=dataclasses.replace(PLAN.scale, steps=10_000))
    report.write(str(tmp_path), plan, list(STUDIES.values()), entries, "texts")
    text = (tmp_path / "report.md").read_text()
    for told in ("Left out", "too small for the studies", "not to be expected"):
        assert told not in text


def test_a_figure_of_several_models_has_the_spread_of_the_models(tmp_path):
    plan = dataclasses.replace(
        PLAN, scale=dataclasses.replace(PLAN.scale, pretraining_seeds=(1, 2, 3))
    )
    entries = _entries(plan)
    report.write(str(tmp_path), plan, list(STUDIES.values()), entries, "texts")
    found = json.loads((tmp_path / "report.json").read_text())["studies"]["pretraining"]["scores"]
    cell = STUDIES["pretraining"].rows(INPUTS, plan.scale)["BERT"]["rte"]
    outcomes = {entry.job.key: entry.outcome for entry in entries}
    means = [
        np.mean([seed["score"] for seed in outcomes[job.key]["scores"].values()])
        for job in cell.jobs
    ]
    assert found["BERT"]["rte"]["values"] == pytest.approx(means) and len(means) == 3
    assert "the spread is that of 3 models" in (tmp_path / "report.md").read_text()
