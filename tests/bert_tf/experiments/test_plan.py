"""Budgets, tasks, and the plan that fits."""

import pytest

from bert_tf.experiments import jobs, planning, run
from bert_tf.experiments import plan as plans
from bert_tf.experiments.jobs import FineTuningJob, PretrainingJob
from bert_tf.experiments.plan import ExperimentPlan, ExperimentTask, ModelSize
from bert_tf.experiments.planning import StepTime
from bert_tf.experiments.settings import STUDIES as NAMES
from bert_tf.experiments.settings import ExperimentSettings, chosen_studies
from bert_tf.experiments.studies import BY_IMPORTANCE, STUDIES, jobs_of
from bert_tf.finetuning.settings import TaskRequest
from bert_tf.training.hardware import resolve_precision
from bert_tf.training.loop import TrainingDivergedError
from pipelines.common.errors import InputError
from pipelines.pretraining.settings import Objective
from tests.bert_tf.experiments.test_own_tasks import write_corpus

SETTINGS = ExperimentSettings(corpus="corpus.txt")
TASKS = (
    ExperimentTask(TaskRequest("classification", "topic", "topic.tsv"), 4000, 800, 20),
    ExperimentTask(TaskRequest("rte", "rte", "glue/RTE"), 2490, 277, 60),
    ExperimentTask(TaskRequest("pos", "pos", "ud"), 12544, 2001, 20),
)


def make_plan(**changes):
    values = {
        "folder": "out", "settings": SETTINGS, "studies": NAMES, "corpus": "corpus.txt",
        "corpus_format": "auto", "word_corpus": "corpus.txt,texts.txt", "tasks": TASKS,
        "precision": "float32", "size": ModelSize(2, 128), "weights": 1_600_000, "steps": 100,
        "seeds": (1, 2),
    }  # fmt: skip
    return ExperimentPlan(**(values | changes))


def _measure(size):
    """A machine that does more operations a second with wider models."""
    rates = {64: 6e10, 128: 1.5e11}
    flops = 2048 * planning._flops(size, make_plan()) / 64
    bert = flops / rates.get(size.width, 3e11)
    seconds = dict.fromkeys(Objective, bert) | {Objective.BIDIRECTIONAL_LM: 4 * bert}
    return StepTime(size, seconds)


def _fit(hours, **changes):
    return planning.fit(make_plan(**changes), hours * 3600, _measure)


@pytest.mark.parametrize(
    "text,seconds", [("10m", 600), ("8h", 28800), ("1d12h", 129600), ("90s", 90), ("1.5h", 5400)]
)
def test_budgets(text, seconds):
    settings = ExperimentSettings(budget=text)
    settings.check()
    assert settings.seconds == seconds


@pytest.mark.parametrize("text", ["", "8", "h", "8 h", "-1h", "8hours", "30s", "1e3h"])
def test_invalid_budgets(text):
    with pytest.raises(InputError, match=r"--budget="):
        ExperimentSettings(budget=text).check()


def test_left_to_right_model_is_a_gpt():
    config = ModelSize(4, 256).gpt_config(1000)
    assert config.model_type == "openai-gpt" and config.causal and config.vocab_size == 1000
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (4, 256, 4)


def test_names_of_studies_are_those_there_are():
    assert tuple(STUDIES) == NAMES and sorted(BY_IMPORTANCE) == sorted(NAMES)
    assert chosen_studies([]) == NAMES
    assert chosen_studies(["masking", "size"]) == ("size", "masking")
    with pytest.raises(InputError, match="--only=mask: unknown study; use pretraining, "):
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
    request = planning.parse_task(entry).request
    assert (request.name, request.kind, request.data, request.columns) == (
        name, kind, data, columns,
    )  # fmt: skip


@pytest.mark.parametrize("entry", ["rte", "=x", "rte=", "a/b:rte=x"])
def test_invalid_tasks(entry):
    with pytest.raises(InputError, match="a task is KIND=PATH or NAME:KIND=PATH"):
        planning.parse_task(entry)
    with pytest.raises(InputError, match="unknown task topics; use cola, "):
        planning.parse_task("topics=x")
    with pytest.raises(InputError, match="the studies compare heads, and generation has none"):
        planning.parse_task("generation=x")


def test_tasks_must_be_there_and_have_different_names(tmp_path):
    with pytest.raises(InputError, match=r"--tasks: none: no such file or folder \(task rte\)"):
        planning._user_tasks(["rte=none"])
    with pytest.raises(InputError, match="two tasks are named rte; use NAME:KIND=PATH"):
        planning._user_tasks([f"rte={tmp_path}"] * 2)


@pytest.mark.parametrize("hours", [12, 24, 200])
def test_pretraining_takes_seven_tenths_of_the_budget(hours):
    found = _fit(hours)
    models = [job for job in jobs_of(found, found.studies) if isinstance(job, PretrainingJob)]
    trained = found.steps * sum(_measure(found.size).of(job, found) for job in models)
    assert trained == pytest.approx(0.7 * hours * 3600, rel=0.01)
    assert trained >= 0.7 * hours * 3600 and found.sees_enough
    read = planning._TUNING_COST * planning._tuning_tokens(found)  # in tokens of pre-training
    assert found.max_examples == 300 or read <= 3 / 7 * found.tokens * len(models)
    sizes = [size.layers * size.width**2 for size in found.sizes]
    assert len(sizes) == 4 and sizes == sorted(sizes) and found.size in found.sizes


def test_more_time_makes_more_of_it():
    found = [_fit(hours) for hours in (12, 24, 200)]
    size = [one.size.layers * one.size.width**2 for one in found]
    tokens = [one.tokens for one in found]
    assert size == sorted(size) and size[0] < size[-1]
    assert tokens[-1] > tokens[0]


def test_little_time_makes_a_trial_of_the_smallest_scale():
    found = _fit(1 / 30)
    assert found.size == ModelSize(2, 64) and found.steps >= 30 and found.max_examples == 300
    assert found.studies == NAMES and not found.sees_enough


def test_studies_that_there_is_no_time_for_are_left_out():
    few, more, whole = map(_fit, (0.2, 0.3, 48))
    assert whole.studies == NAMES and set(few.studies) < set(more.studies)
    assert few.studies[0] == "pretraining" and "masking" not in more.studies
    assert all(found.sees_enough for found in (few, more, whole))
    assert _fit(0.2, studies=("masking",)).studies == ("masking",)


def test_models_of_the_first_study_are_trained_several_times():
    plan = [make_plan(model_seeds=seeds) for seeds in ((1,), (1, 2, 3))]
    models = [
        {job.name for job in jobs_of(each, NAMES) if isinstance(job, PretrainingJob)}
        for each in plan
    ]
    # BERT, no NSP and left-to-right, twice more.
    assert len(models[1]) == len(models[0]) + 2 * 3 and models[0] < models[1]


def test_studies_share_their_jobs():
    plan = make_plan()
    found = jobs_of(plan, NAMES)
    models = [job for job in found if isinstance(job, PretrainingJob)]
    # BERT, no NSP, left-to-right, ELMo; three other sizes; five other splits of masks.
    assert len(models) == 4 + 3 + 5
    assert sum(len(jobs_of(plan, [name])) for name in NAMES) > len(found)
    # Jobs have folders of their own, and come after what they need.
    assert len({job.folder(plan) for job in found}) == len(found)
    places = {job.name: place for place, job in enumerate(found)}
    assert all(places[need.name] < places[job.name] for job in found for need in job.needs)


def test_a_cap_holds_for_all_tasks():
    plan = make_plan(max_examples=1000)
    for job in jobs_of(plan, NAMES):
        if isinstance(job, FineTuningJob):
            assert job.examples <= 1000
            assert 3 <= plan.recipe(job.task, job.examples, job.width)["epochs"] <= 30


def test_a_plan_is_read_as_it_was_written(tmp_path):
    plan = make_plan(folder=str(tmp_path), max_examples=300, model_seeds=(1, 2), studies=NAMES[:3])
    plans.write(plan)
    found = plans.read(str(tmp_path))
    assert found == plan
    assert [job.name for job in jobs_of(found, NAMES)] == [job.name for job in jobs_of(plan, NAMES)]
    (tmp_path / "plan.json").write_text('{"studies": 3}')
    with pytest.raises(InputError, match="plan.json: "):
        plans.read(str(tmp_path))


@pytest.mark.parametrize(("asked", "found"), [("auto", "mixed_bfloat16"), ("float32", "float32")])
def test_the_plan_decides_in_what_every_model_is_trained(tmp_path, monkeypatch, asked, found):
    """Measured once: a machine that is busy for a while must not divide models into two kinds."""
    trained = []

    def train(settings, *rest, **options):
        trained.append(settings.precision)
        if settings.phases[0].steps == planning._MEASURED_STEPS:
            return {"sequences_per_second": 1000.0}
        raise TrainingDivergedError("NaN")

    def tune(settings, *rest, **options):
        trained.append(settings.precision)
        raise TrainingDivergedError("NaN")

    monkeypatch.setattr(jobs.run, "pretrain", train)
    monkeypatch.setattr(jobs.sweep, "finetune", tune)
    monkeypatch.setattr(
        planning.hardware,
        "resolve_precision",
        lambda name: "mixed_bfloat16" if name == "auto" else resolve_precision(name),
    )
    corpus = write_corpus(tmp_path / "corpus.txt", documents=60)
    settings = ExperimentSettings(corpus=corpus, budget="10m", vocab_size=200, precision=asked)
    made = planning.make(settings, f"{tmp_path}/out", ["curves"])
    assert made.precision == found and set(trained) == {found}
    assert plans.read(f"{tmp_path}/out") == made
    first = {type(entry.job): entry.job for entry in run._entries(made, ["curves"]).values()}
    for kind in (PretrainingJob, FineTuningJob):
        trained.clear()
        outcome = jobs.perform(first[kind], made)
        assert trained == [found] and not outcome["scores"]
        keys = [""] if kind is PretrainingJob else list(map(str, made.seeds))
        assert outcome["diverged"] == dict.fromkeys(keys, "NaN")
        assert first[kind].outcome(made) == outcome


def test_a_study_without_its_tasks_leaves_time_for_others():
    tasks = (make_plan().tasks[0],)
    found = _fit(1 / 30, studies=("masking", "intermediate"), tasks=tasks)
    assert found.studies == ("masking", "intermediate") and not found.sees_enough


def test_a_study_without_its_tasks_is_refused():
    tasks = (make_plan().tasks[0],)
    with pytest.raises(InputError, match="--only=intermediate: needs two --tasks of the same form"):
        _fit(1, studies=("intermediate",), tasks=tasks)
