"""The report of every study, of outcomes that are made up."""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf.experiments import report
from bert_tf.experiments.jobs import FineTuningJob, PretrainingJob
from bert_tf.experiments.schedule import JobEntry, JobState
from bert_tf.experiments.settings import STUDIES as NAMES
from bert_tf.experiments.studies import STUDIES, jobs_of
from tests.bert_tf.experiments.test_plan import TASKS, make_plan


def _plan(folder, **changes):
    values = {"max_examples": 1000, "seeds": (1, 2, 3)} | changes
    return make_plan(folder=str(folder), **values)


def _entries(plan, score=0.7):
    """Jobs that are done; the scores of fine-tuning are of `score` and a spread."""
    entries = []
    for number, job in enumerate(jobs_of(plan, NAMES)):
        if isinstance(job, FineTuningJob):
            rng = np.random.default_rng(number)
            scores = {str(s): {"score": score + 0.01 * rng.standard_normal()} for s in plan.seeds}
        else:
            scores = {"": {"perplexity": 100.0 - number}}
        outcome = {"seconds": 10.0, "scores": scores, "diverged": {}}
        entries.append(JobEntry(job, JobState.DONE, outcome))
    return entries


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    plan = _plan(folder)
    report.write(plan, NAMES, _entries(plan))
    return folder


def test_every_study_has_a_table_a_picture_and_findings(written):
    text = (written / "report.md").read_text()
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    for study in STUDIES.values():
        section = sections[study.title]
        assert f"]({study.name}.png)" in section
        assert (written / f"{study.name}.png").read_bytes()[:4] == b"\x89PNG"
        for label in study.rows(_plan(written)):
            assert f"| {label} |" in section
        assert "\n- " in section
        for row in study.paper.rows:
            assert f"| {row} |" in section
    assert "Made of the corpus itself (topic, rte, pos)" in text
    assert "(3)" in text and "±" in text
    assert text.count("done") == len(_entries(_plan(written)))


def test_numbers_are_those_of_the_table(written):
    found = json.loads((written / "report.json").read_text())
    assert list(found["studies"]) == list(NAMES)
    for study in STUDIES.values():
        numbers = found["studies"][study.name]
        rows = study.rows(_plan(written))
        assert {k: set(v) for k, v in numbers["scores"].items()} == {
            label: set(cells) for label, cells in rows.items()
        }
        assert all(entry["sentence"].endswith(".") for entry in numbers["findings"])
    score = found["studies"]["pretraining"]["scores"]["BERT"]["rte"]
    assert len(score["values"]) == 3 and score["mean"] == pytest.approx(np.mean(score["values"]))
    assert found["scale"]["seeds"] == [1, 2, 3]


def test_a_report_of_what_is_half_done(tmp_path):
    """Jobs that wait, failed or diverged leave holes, and are told."""
    plan = _plan(tmp_path)
    entries = _entries(plan)
    for number, entry in enumerate(entries):
        if isinstance(entry.job, FineTuningJob):
            if number % 3 == 0:
                entry.state, entry.outcome = JobState.WAITING, None
            elif number % 3 == 1:
                diverged = {"seconds": 1.0, "scores": {}, "diverged": dict.fromkeys("123", "lost")}
                entry.outcome = diverged
    report.write(plan, NAMES, entries)
    text = (tmp_path / "report.md").read_text()
    assert "not done" in text and "3 diverged" in text and "waits" in text


def test_nothing_done_is_a_report_too(tmp_path):
    plan = _plan(tmp_path)
    entries = [JobEntry(job) for job in jobs_of(plan, NAMES)]
    report.write(plan, NAMES, entries)
    text = (tmp_path / "report.md").read_text()
    assert "cannot be decided, as there are not enough figures or seeds" in text
    assert "not all sizes are done (none is known; one run each)" in text
    assert not list(tmp_path.glob("*.png"))


def test_one_seed_tells_of_no_difference(tmp_path):
    plan = _plan(tmp_path, seeds=(1,))
    report.write(plan, NAMES, _entries(plan))
    text = (tmp_path / "report.md").read_text()
    assert "as in the paper" not in text.split("The paper")[0]
    assert "cannot be decided" in text


def test_one_task_alone_has_all_studies(tmp_path):
    for task in TASKS:
        folder = tmp_path / task.name
        folder.mkdir()
        plan = _plan(folder, tasks=(task,))
        report.write(plan, NAMES, _entries(plan))
        text = (folder / "report.md").read_text()
        assert "nothing to see" in text  # no task before another one


def test_what_is_to_be_known_before_the_figures_is_told(tmp_path):
    plan = _plan(tmp_path)
    entries = _entries(plan)
    bert = next(entry for entry in entries if isinstance(entry.job, PretrainingJob))
    bert.outcome["scores"][""] |= {"masked_lm_accuracy": 0.165, "bigram_accuracy": 0.16}
    report.write(plan, NAMES, entries, ["masking"])
    text = (tmp_path / "report.md").read_text()
    assert "Left out, as there was no time for models that learn enough: masking." in text
    assert "The budget is too small for the studies" in text
    assert f"not to be expected of them: {bert.job.label}." in text
    bert.outcome["scores"][""]["masked_lm_accuracy"] = 0.3
    report.write(dataclasses.replace(plan, steps=10_000), NAMES, entries)
    text = (tmp_path / "report.md").read_text()
    for told in ("Left out", "too small for the studies", "not to be expected"):
        assert told not in text


def test_a_figure_of_several_models_has_the_spread_of_the_models(tmp_path):
    plan = _plan(tmp_path, model_seeds=(1, 2, 3))
    entries = _entries(plan)
    report.write(plan, NAMES, entries)
    found = json.loads((tmp_path / "report.json").read_text())["studies"]["pretraining"]["scores"]
    cell = STUDIES["pretraining"].rows(plan)["BERT"]["rte"]
    outcomes = {entry.job.name: entry.outcome for entry in entries}
    means = [
        np.mean([seed["score"] for seed in outcomes[job.name]["scores"].values()])
        for job in cell.jobs
    ]
    assert found["BERT"]["rte"]["values"] == pytest.approx(means) and len(means) == 3
    assert "the spread is that of 3 models" in (tmp_path / "report.md").read_text()
