"""Budgets, tasks, and the scale that fits."""

import dataclasses

import pytest

from bert_tf.experiments import plan, pretraining_jobs, run, scale, speed
from bert_tf.experiments.finetuning_jobs import FineTuning, TaskSource
from bert_tf.experiments.jobs import Place, with_needs
from bert_tf.experiments.plan import Plan, Request
from bert_tf.experiments.pretraining_jobs import Corpus, Pretraining, Vocabulary
from bert_tf.experiments.scale import Inputs, Scale
from bert_tf.experiments.settings import STUDIES as NAMES
from bert_tf.experiments.settings import ExperimentSettings, chosen_studies
from bert_tf.experiments.size import Size
from bert_tf.experiments.speed import Speed
from bert_tf.experiments.studies.registry import STUDIES
from bert_tf.finetuning import sweep
from bert_tf.pretraining import run as pretraining_run
from bert_tf.training.loop import TrainingDivergedError
from bert_tf.training.precision import resolve_precision
from pipelines.common import json_files
from pipelines.common.errors import InputError
from tests.bert_tf.experiments.test_own_tasks import write_corpus

SPEED = Speed(((64, 6e10), (128, 1.5e11), (256, 3e11)), 2e10, 8192, 64)
CORPUS = Corpus("corpus.txt")
TASKS = (
    TaskSource("topic", "classification", "topic.tsv", rows=(4000, 800), tokens=20),
    TaskSource("rte", "rte", "glue/RTE", rows=(2490, 277), tokens=60),
    TaskSource("pos", "pos", "ud", rows=(12544, 2001), tokens=20),
)
INPUTS = Inputs(CORPUS, Corpus("corpus.txt,texts.txt"), Vocabulary(CORPUS, 8192), TASKS)


def _plan(thought):
    return Plan(INPUTS, thought, "float32", NAMES)


def _jobs_of(thought):
    return with_needs(_plan(thought).jobs(NAMES))


@pytest.mark.parametrize(
    "text,seconds", [("10m", 600), ("8h", 28800), ("1d12h", 129600), ("90s", 90), ("1.5h", 5400)]
)
def test_budgets(text, seconds):
    settings = ExperimentSettings(budget=text)
    settings.check()
    assert settings.seconds == seconds


@pytest.mark.parametrize("text", ["", "8", "h", "8 h", "-1h", "8hours", "30s", "1e3h"])
def test_what_is_no_budget(text):
    with pytest.raises(InputError, match=r"--budget="):
        ExperimentSettings(budget=text).check()


def test_names_of_studies_are_those_there_are():
    assert tuple(STUDIES) == NAMES
    assert chosen_studies([]) == NAMES
    assert chosen_studies(["masking", "size"]) == ("size", "masking")
    with pytest.raises(InputError, match="--only=mask: there is no such study; use pretraining, "):
        chosen_studies(["mask"])


@pytest.mark.parametrize(
    "entry,name,kind,data,columns",
    [
        ("rte=glue/RTE", "rte", "rte", "glue/RTE", ()),
        ("imdb:classification=a b/train.tsv", "imdb", "classification", "a b/train.tsv", ()),
        (
            "r:pair=x.csv?text_a=q&text_b=a=1&label=3",
            "r",
            "pair",
            "x.csv",
            (("text_a", "q"), ("text_b", "a=1"), ("label", "3")),
        ),
    ],
)
def test_tasks_are_named(entry, name, kind, data, columns):
    task = plan.parse_task(entry)
    assert (task.name, task.kind, task.data, task.columns) == (name, kind, data, columns)


@pytest.mark.parametrize("entry", ["rte", "=x", "rte=", "a/b:rte=x"])
def test_what_names_no_task(entry):
    with pytest.raises(InputError, match="a task is KIND=PATH or NAME:KIND=PATH"):
        plan.parse_task(entry)
    with pytest.raises(InputError, match="there is no task topics; use cola, "):
        plan.parse_task("topics=x")


@pytest.mark.parametrize("hours", [12, 24, 200])
def test_a_scale_fills_its_budget(hours):
    found = scale.fit(hours * 3600, (), SPEED, _jobs_of)
    needed = scale.seconds(_jobs_of(found), SPEED)
    assert 0.95 * hours * 3600 < needed <= hours * 3600
    assert found.seeds == (1, 2, 3) and len(found.sizes) == 4
    assert found.pretraining_seeds == ((1, 2, 3) if hours >= 24 else (1,))
    models = {job.key: job for job in _jobs_of(found) if isinstance(job, Pretraining)}
    trained = sum(found.steps * job.step_cost(SPEED) for job in models.values())
    assert trained >= 0.7 * hours * 3600 and scale.sees_enough(found)
    weights = [size.layers * size.width**2 for size in found.sizes]
    assert weights == sorted(weights) and found.main in found.sizes


def test_more_time_makes_more_of_it():
    found = [scale.fit(hours * 3600, (), SPEED, _jobs_of) for hours in (12, 24, 200)]
    size = [one.main.layers * one.main.width**2 for one in found]
    tokens = [one.steps * one.batch_size * one.length for one in found]
    assert size == sorted(size) and size[0] < size[-1]
    assert tokens[-1] > tokens[0]


def test_little_time_makes_the_smallest():
    assert scale.fit(120, (), SPEED, _jobs_of) is None
    found = scale.smallest(120, (), SPEED, _jobs_of)
    assert found.main == Size(2, 64) and found.seeds == (1,) and found.steps >= 30
    assert found.cap == 300
    assert scale.smallest(120, (5, 6), SPEED, _jobs_of).seeds == (5, 6)


def test_studies_that_there_is_no_time_for_are_left_out():
    def fitted(budget, studies=NAMES):
        settings = ExperimentSettings(budget=budget)
        return plan._fitted(settings, INPUTS, SPEED, studies, Size(4, 256))

    kept = {budget: fitted(budget)[1] for budget in ("2m", "2h", "6h", "2d")}
    # Too little for any: a trial of all of them.
    assert kept["2m"] == kept["2d"] == NAMES
    assert len(kept["2h"]) < len(kept["6h"]) and set(kept["2h"]) < set(kept["6h"])
    assert kept["2h"][0] == "pretraining" and "masking" not in kept["2h"]
    assert all(scale.sees_enough(fitted(budget)[0]) for budget in ("2h", "6h", "2d"))
    assert not scale.sees_enough(fitted("2m")[0])
    assert fitted("2h", ("masking",))[1] == ("masking",)


def test_models_of_the_first_study_are_trained_several_times():
    one, three = (_jobs_of(_scale(pretraining_seeds=seeds)) for seeds in ((1,), (1, 2, 3)))
    models = [[job for job in jobs if isinstance(job, Pretraining)] for jobs in (one, three)]
    # BERT, no NSP, left-to-right and ELMo, twice more.
    assert len(models[1]) == len(models[0]) + 2 * 4
    assert {model.key for model in models[0]} < {model.key for model in models[1]}


def _scale(**changes):
    values = {"main": Size(2, 128), "steps": 100, "batch_size": 32, "length": 64, "seeds": (1, 2)}
    return Scale(**(values | {"cap": None, "speed": SPEED} | changes))


def test_studies_share_their_jobs():
    jobs = _jobs_of(_scale())
    models = [job for job in jobs if isinstance(job, Pretraining)]
    # BERT, no NSP, left-to-right, ELMo; three other sizes; five other splits of masks.
    assert len(models) == 4 + 3 + 5
    assert len({(m.examples.key, m.size) for m in models}) == len(models)
    tuned = [job for job in jobs if isinstance(job, FineTuning)]
    assert {job.seeds for job in tuned} == {(1, 2)}
    alone = [len(with_needs(_plan(_scale()).jobs([name]))) for name in NAMES]
    assert sum(alone) > len(jobs)


def test_a_cap_holds_for_all_tasks():
    for job in _jobs_of(_scale(cap=1000)):
        if isinstance(job, FineTuning):
            used = min(job.train_examples or job.task.rows[0], job.task.rows[0])
            assert used <= 1000
            assert 3 <= job.recipe.epochs <= 10


def test_a_plan_is_kept_as_it_was(tmp_path):
    whole = Plan(INPUTS, _scale(cap=300, pretraining_seeds=(1, 2)), "mixed_bfloat16", NAMES[:3])
    json_files.write(f"{tmp_path}/{plan.PLAN}", dataclasses.asdict(whole))
    assert plan.read(str(tmp_path)) == whole
    keys = [job.key for job in plan.read(str(tmp_path)).jobs(NAMES)]
    assert keys == [job.key for job in whole.jobs(NAMES)]


@pytest.mark.parametrize(("asked", "found"), [("auto", "mixed_bfloat16"), ("float32", "float32")])
def test_the_plan_decides_in_what_every_model_is_trained(tmp_path, monkeypatch, asked, found):
    """Measured once: a machine that is busy for a while must not divide models into two kinds."""
    measured = []

    def measure(sizes, vocab_size, length, precision):
        measured.append(precision)
        return dataclasses.replace(SPEED, vocab_size=vocab_size, length=length)

    monkeypatch.setattr(speed, "measure", measure)
    monkeypatch.setattr(
        plan,
        "resolve_precision",
        lambda name: "mixed_bfloat16" if name == "auto" else resolve_precision(name),
    )
    settings = ExperimentSettings(budget="10m", vocab_size=200, precision=asked)
    request = Request(settings, Corpus(write_corpus(tmp_path / "corpus.txt", documents=60)))
    made = plan.make(request, Place(f"{tmp_path}/out"), ["curves"])
    assert (made.precision, measured) == (found, [found])
    assert plan.read(f"{tmp_path}/out") == made
    place = run._schedule(made, ["curves"], f"{tmp_path}/out").place
    jobs = {type(job): job for job in with_needs(made.jobs(["curves"]))}
    trained = []

    def begun(settings, *rest):
        trained.append(settings.precision)
        raise TrainingDivergedError("no number")

    monkeypatch.setattr(pretraining_run, "pretrain", begun)
    monkeypatch.setattr(sweep, "finetune", begun)
    jobs[pretraining_jobs.Examples].work(place)
    jobs[Pretraining].work(place)
    jobs[FineTuning].work(place)
    assert trained == [found, found]
