"""The table of studies, and the runs that it expands to."""

import re
from pathlib import Path

import pytest

from bert_tf.experiments import plan
from bert_tf.experiments.plan import Plan, Request
from bert_tf.experiments.studies import PRESETS, STUDIES, StudyTask
from pipelines.common.errors import InputError

TASKS = (
    StudyTask("topic", "classification", "topic.tsv", "text=a b,label=c", False),
    StudyTask("rte", "rte", "glue/RTE", "", False),
    StudyTask("pos", "pos", "ud", "", True),
)


def make_plan(budget="2h", tasks=TASKS, vocab=None, output="out"):
    return Plan(Request(output, "c.txt", "", vocab, budget), tasks, {"corpus": "c.txt"}, "float32")


def flags_of(run):
    return dict(word.removeprefix("--").split("=", 1) for word in run.words[1:] if "=" in word)


@pytest.mark.parametrize("name", STUDIES)
def test_claims_name_rows_and_columns(name):
    study, table = STUDIES[name], make_plan().tables[name]
    assert len({row.label for row in study.rows}) == len(study.rows) == len(table)
    for comparisons in study.claims.values():
        suffix, _, listed = comparisons.rpartition(": ")
        pairs = [re.split(" [<>=] ", each) for each in listed.split("; ")]
        assert {label for pair in pairs for label in pair} <= table.keys()
        assert all(len(pair) == 2 and pair[0] != pair[1] for pair in pairs)
        assert not suffix or suffix in {column.suffix.strip(", ") for column in study.columns}
        assert ("<" not in comparisons) or study.perplexity
    printed = [*study.paper_rows.values(), *(row.paper for row in study.rows if row.paper)]
    assert all(len(row) == len(study.paper_columns) for row in printed)
    assert not study.axis or all(row.x > 0 for row in study.rows)


@pytest.mark.parametrize("budget", PRESETS)
def test_the_guide_has_the_numbers_of_each_preset(budget):
    preset = PRESETS[budget]
    layers = {"debug": 1, "tiny": 2}[preset.size]
    studies = (
        "all"
        if set(preset.studies) == set(STUDIES)
        else ", ".join(f"`{name}`" for name in preset.studies)
    )
    row = [
        f"`{budget}`", f"{layers} layer{'s' * (layers > 1)}, {preset.width} wide",
        f"{preset.steps:,}", f"{preset.examples:,}", str(len(preset.pretraining_seeds)), studies,
    ]  # fmt: skip
    guide = Path(__file__).parents[3] / "docs/guides/experiments.md"
    assert f"| {' | '.join(row)} |" in guide.read_text()


@pytest.mark.parametrize("budget", PRESETS)
def test_runs_have_folders_of_their_own_and_follow_what_they_need(budget):
    runs = make_plan(budget).runs(STUDIES)
    assert len({run.name for run in runs}) == len(runs) == len({run.words for run in runs})
    places = {run.name: place for place, run in enumerate(runs)}
    assert all(places[need.name] < places[run.name] for run in runs if (need := run.need))
    assert all(run.words[-1] == f"--output=out/{run.name}" for run in runs)


def test_studies_share_their_runs():
    made = make_plan()
    names = [run.name for run in made.runs(STUDIES)]
    # The control, BERT, no NSP, left-to-right; two other sizes; ELMo; five other splits of masks.
    assert sum(name.startswith("pretraining/") for name in names) == 4 + 2 + 1 + 5
    bert = made.tables["pretraining"]["BERT"]["pos"]
    assert bert == made.tables["features"]["fine-tuned"]["pos"]
    assert bert == made.tables["masking"]["80/10/10"]["pos, fine-tuned"]
    assert bert == made.tables["size"]["2 x 128"]["pos"]
    (topic,) = made.tables["pretraining"]["BERT"]["topic"]
    assert made.tables["curves"]["BERT, 3000"]["topic"] == (topic,)
    assert made.tables["steps"]["masked LM, 100%"]["topic"] == (topic,)
    assert topic.name == "finetuning/bert-topic" and topic.need.name == "pretraining/bert"


def test_the_control_comes_first_with_the_first_weights_of_bert():
    runs = make_plan().runs(["pretraining"])
    control, bert = [run for run in runs if run.words[0] == "pretrain"][:2]
    assert (control.name, bert.name) == ("pretraining/untrained", "pretraining/bert")
    differing = {"steps", "warmup_steps", "learning_rate", "output"}
    found = flags_of(control), flags_of(bert)
    assert {key for key in found[0] if found[0][key] != found[1][key]} == differing
    assert found[0]["steps"] == "1" and float(found[0]["learning_rate"]) < 1e-9


def test_models_are_taken_from_their_checkpoints():
    (run,) = make_plan().tables["steps"]["left-to-right, 20%"]["topic"]
    path = "out/pretraining/left-to-right/checkpoints/checkpoint-00001600"
    assert flags_of(run)["init"] == path and flags_of(run.need)["keep_at"] == "0.1,0.2,0.5"


def test_flags_of_a_row_win_and_name_the_data():
    (run,) = make_plan().tables["curves"]["BERT, 100"]["topic"]
    assert run.words.count("--train_examples=100") == 1
    found = flags_of(run)
    assert (found["train_examples"], found["epochs"], found["seeds"]) == ("100", "30", "1,2,3")
    assert found["task"] == "topic=classification" and found["columns"] == "text=a b,label=c"
    (mini,) = make_plan().tables["size"]["4 x 256"]["pos"]
    assert flags_of(mini)["learning_rate"] == "3e-4"
    assert flags_of(mini.need)["learning_rate"] == "1e-3"


def test_models_of_the_first_study_are_pretrained_several_times():
    made = make_plan("24h")
    runs = made.tables["pretraining"]["no NSP"]["rte"]
    assert [run.name for run in runs] == [
        "finetuning/no-nsp-rte", "finetuning/no-nsp-rte-seed2", "finetuning/no-nsp-rte-seed3"
    ]  # fmt: skip
    assert [flags_of(run.need)["seed"] for run in runs] == ["1", "2", "3"]
    assert len(made.tables["size"]["2 x 128"]["rte"]) == 1


def test_a_vocabulary_of_the_user_is_taken_but_not_for_an_elmo():
    runs = {run.name: run for run in make_plan(vocab="mine/vocab.txt").runs(STUDIES)}
    assert "vocab.txt" not in runs and "words" in runs
    assert flags_of(runs["examples/mlm"])["vocab"] == "mine/vocab.txt"
    assert flags_of(runs["examples/bidirectional_lm"])["vocab"] == "out/words"


@pytest.mark.parametrize("task", TASKS)
def test_one_task_alone_has_all_studies(task):
    for name, rows in make_plan(tasks=(task,)).tables.items():
        assert all(rows.values()), name


@pytest.mark.parametrize(
    "entry,expected",
    [
        ("rte=glue/RTE", ("rte", "rte", "glue/RTE", "", False)),
        ("imdb:classification=a b/t.tsv", ("imdb", "classification", "a b/t.tsv", "", False)),
        ("r:pos=x?text=q&tags=8", ("r", "pos", "x", "text=q,tags=8", True)),
    ],
)
def test_tasks_are_read(entry, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / expected[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    assert plan.parse_task(entry) == expected


@pytest.mark.parametrize(
    "entry,message",
    [
        *((entry, "a task is KIND=PATH or NAME:KIND=PATH") for entry in ("rte", "=x", "a/b:rte=x")),
        ("topics=x", "unknown task topics; use cola, "),
        ("generation=x", "the studies compare heads, and generation has none"),
        ("rte=none", r"--tasks: none: no such file or folder \(task rte\)"),
    ],
)
def test_invalid_tasks(entry, message):
    with pytest.raises(InputError, match=message):
        plan.parse_task(entry)


def test_tasks_have_different_names(tmp_path):
    (tmp_path / "c.txt").write_text("A.\n")
    request = Request(
        f"{tmp_path}/out", f"{tmp_path}/c.txt", f"rte={tmp_path} rte={tmp_path}", None, "2h"
    )
    with pytest.raises(InputError, match="two tasks are named rte; use NAME:KIND=PATH"):
        plan.make(request)
