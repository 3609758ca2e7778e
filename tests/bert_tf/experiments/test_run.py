"""Experiments from a corpus to a report: all studies, with models that learn next to nothing."""

import dataclasses
import glob
import json
import os

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.experiments import run
from bert_tf.experiments.schedule import JobState
from bert_tf.experiments.settings import STUDIES as NAMES
from bert_tf.pretraining import first_weights
from pipelines.common.errors import InputError
from tests.bert_tf.experiments import small_plan
from tests.bert_tf.experiments.test_own_tasks import write_corpus
from tests.bert_tf.experiments.test_plan import make_plan


def _begin(folder, seeds):
    corpus = write_corpus(folder / "corpus.txt", documents=30)
    return small_plan.begin(corpus, f"{folder}/own_tasks", f"{folder}/out", seeds)


def test_a_study_goes_on_where_it_was(tmp_path):
    """Its jobs are done once; other studies take them; other settings are refused."""
    settings, output = _begin(tmp_path, seeds=(1,))
    with pytest.raises(InputError, match=r"has no plan.json; no experiments were begun there"):
        run.show(f"{tmp_path}/other", NAMES)
    with pytest.raises(InputError, match="--devices=gpu0: is not a GPU; "):
        run.run(settings, output, ("curves",), ["gpu0"])
    entries = run.run(settings, output, ("curves",), [""])
    assert entries and {entry.state for entry in entries} <= {JobState.DONE}
    first = {path: os.path.getmtime(path) for path in glob.glob(f"{output}/runs/*/outcome.json")}
    untrained = weights.read(f"{output}/runs/untrained-1x64/model")
    table = untrained.weights["encoder/embeddings/position_embeddings"]
    np.testing.assert_array_equal(table, first_weights.sinusoids(*table.shape, 0.05))
    trained = weights.read(f"{output}/runs/pretrain-1x64-mlm_nsp/model")
    assert untrained.config.initializer_range == trained.config.initializer_range
    again = run.run(settings, output, ("curves",), [""])
    assert [entry.job.name for entry in again] == [entry.job.name for entry in entries]
    assert {path: os.path.getmtime(path) for path in first} == first
    report = json.load(open(f"{output}/report.json"))
    assert list(report["studies"]) == ["curves"]
    shown = {entry.job.name: entry.state for entry in run.show(output, NAMES)}
    done = {entry.job.name for entry in entries}
    assert all((state is JobState.DONE) == (key in done) for key, state in shown.items())
    other = dataclasses.replace(settings, max_seq_length=16)
    with pytest.raises(InputError, match=r"is of experiments with other max_seq_length"):
        run.run(other, output, ("curves",), [""])


def test_studies_are_done_unless_the_plan_leaves_them_out():
    plan = make_plan(studies=("curves",), left_out=("masking",))
    assert run._studies(plan, ("curves", "size", "masking")) == ["curves", "size"]
    assert run._studies(plan, ("masking",)) == ("masking",)


@pytest.mark.slow
def test_all_studies(tmp_path):
    settings, output = _begin(tmp_path, seeds=(1, 2))
    entries = run.run(settings, output, NAMES, ["", ""])
    assert [entry.error for entry in entries if entry.state is not JobState.DONE] == []
    found = json.load(open(f"{output}/report.json"))["studies"]
    assert list(found) == list(NAMES)
    for study in found.values():
        for row in study["scores"].values():
            for score in row.values():
                assert len(score["values"]) in (1, 2), study["title"]
    assert sorted(os.path.basename(p) for p in glob.glob(f"{output}/*.png")) == sorted(
        f"{name}.png" for name in NAMES if found[name]["scores"]
    )
