"""Runs of fine-tuning: choices, stops and resumption, devices and workers, bad requests."""

import dataclasses
import itertools
import json
import os
import re
import signal
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.finetuning import dev_split, run, sweep, task_data, task_report
from bert_tf.finetuning.run import Run
from bert_tf.finetuning.settings import FineTuningSettings, Selection, TaskRequest
from bert_tf.tasks.model import HeadShape, TaskModel
from bert_tf.weights.formats import Format
from pipelines.common import locks, stopping
from pipelines.common.errors import InputError
from pipelines.labelled.schema import MultiLabelExample, SpanExample, TextExample, WordsExample
from pipelines.tokenizers.settings import Keep
from tests import commands
from tests.bert_tf.helpers import cluster_of
from tests.bert_tf.labelled_data import CONFIG, command, make_texts, settings_of, tune

pytestmark = pytest.mark.more


def test_early_stopping_balance_and_layer_decay(tmp_path, init, caplog):
    report, _ = tune(
        tmp_path, init, "classification", make_texts,
        epochs=30.0, patience=2, balanced=True, layer_decay=0.9, evaluations=2,
    )  # fmt: skip
    (run,) = report["grid"]
    scores = [item["score"] for item in run["evaluations"]]
    assert len(scores) < 60 and scores.index(max(scores)) == len(scores) - 3
    assert run["score"] == max(scores)
    data = f"{tmp_path}/data"
    settings = settings_of(init, "classification", data, epochs=2.0, selection=Selection.LAST)
    last = sweep.finetune(settings, f"{tmp_path}/last", f"{tmp_path}/cache")
    assert last["grid"][0]["score"] == last["grid"][0]["evaluations"][-1]["score"]
    late = dataclasses.replace(settings, keep_runs=True, data_source="a book")
    assert sweep.finetune(late, f"{tmp_path}/last", f"{tmp_path}/cache") == last
    assert all(f"--{flag} comes too late" in caplog.text for flag in ("keep_runs", "data_source"))


def kept(output):
    model = weights.read(str(output))
    return model.sha256(), json.load(open(f"{output}/report.json"))["metrics"]


class Killed(BaseException):
    """Stands for SIGKILL: nothing that comes after is done."""


def _tree(folder):
    return sorted(
        os.path.relpath(f"{at}/{n}", folder) for at, _, names in os.walk(folder) for n in names
    )


@pytest.fixture(scope="module")
def short_run(tmp_path_factory, init):
    """A run into a given folder that returns what it leaves, and that of a whole one.

    Each evaluation is better than the one before, so that all weights are kept.
    """
    base = tmp_path_factory.mktemp("short_run")
    data = make_texts(base, train=80, dev=16)
    settings = settings_of(init, "classification", data, epochs=1.5, learning_rates=(1e-4,))
    rising = itertools.count()

    def tune(folder):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Run, "evaluate", lambda _: (float(next(rising)), {"accuracy": 0.5}))
            sweep.finetune(settings, f"{folder}/out", f"{base}/cache", tensorboard=False)
        return kept(folder / "out"), _tree(folder / "out")

    return tune, tune(base)


@pytest.mark.parametrize(
    ("where", "name", "calls"),
    [
        # Before weights are kept: of the first evaluation, and of that after the last step.
        pytest.param(run.Run, "keep", 1, marks=pytest.mark.slow),
        (run.Run, "keep", 2),
        # Between the weights and the note of them; the result and the checkpoints that go; the
        # report and the weights of the runs.
        (run.Scores, "add", 1),
        pytest.param(run.Scores, "add", 2, marks=pytest.mark.slow),
        (run.Run, "_remove_checkpoints", 1),
        (sweep, "_end", 1),
    ],
)
def test_wherever_a_run_is_killed_it_ends_the_same(
    tmp_path, short_run, monkeypatch, where, name, calls
):
    tune, whole = short_run
    done, left = getattr(where, name), itertools.count(1)

    def killed(*arguments):
        if next(left) == calls:
            raise Killed
        return done(*arguments)

    monkeypatch.setattr(where, name, killed)
    with pytest.raises(Killed):
        tune(tmp_path)
    monkeypatch.setattr(where, name, done)
    assert tune(tmp_path) == whole


@pytest.mark.slow
def test_several_steps_in_a_call_of_two_devices_and_joint_tasks(tmp_path, init):
    data = make_texts(tmp_path, train=96, dev=16)
    _, *flags = command(init, data, tmp_path / "1", "--strategy=mirrored", "--epochs=2")
    both = ["--task=a=classification,b=classification", f"--data={data},{data}"]
    for count in (1, 3):
        commands.done(
            "tests.bert_tf.training.two_devices", *flags, *both, f"--output={tmp_path}/{count}",
            f"--steps_per_execution={count}",
        )  # fmt: skip
    assert kept(tmp_path / "1") == kept(tmp_path / "3")


@pytest.mark.slow
def test_a_batch_is_shared_by_devices(tmp_path, init):
    """Two mirrored devices learn what one does."""
    make_texts(tmp_path)
    scores = []
    for name, extra in (("one", []), ("two", ["--strategy=mirrored"])):
        _, *flags = command(init, tmp_path, tmp_path / name, "--dropout=0", "--epochs=2", *extra)
        commands.done("tests.bert_tf.training.two_devices", *flags)
        folder = tmp_path / name / "runs/lr-0.001-seed-1/history.jsonl"
        scores.append([json.loads(line)["loss"] for line in folder.read_text().splitlines()])
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4)


@pytest.mark.slow
def test_two_workers_finish_together(tmp_path, init):
    data = make_texts(tmp_path, train=64, dev=16)
    short = ("--epochs=1", "--dropout=0")
    processes = [
        commands.Running(*command(init, data, tmp_path / "out", *short), env={"TF_CONFIG": worker})
        for worker in cluster_of(2)
    ]
    for process in processes:
        done = process.wait()
        assert done.returncode == 0, done.stderr[-3000:]
    _, metrics = kept(tmp_path / "out")
    commands.done(*command(init, data, tmp_path / "alone", *short))
    assert metrics == kept(tmp_path / "alone")[1]
    assert os.path.exists(tmp_path / "out/predictions.dev.tsv")


def test_a_run_that_diverges_leaves_the_others(tmp_path, init):
    data = make_texts(tmp_path, train=64, dev=16)
    settings = settings_of(
        init, "classification", data, epochs=2.0, learning_rates=(1e30, 2e-3), clip_norm=0.0
    )
    report = sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert report["learning_rate"] == 2e-3
    assert re.fullmatch(
        r"learning rate 1e\+30, seed 1: the (loss|update) of step \d+ is NaN or infinite\.",
        report["grid"][0]["diverged"],
    )
    settings = dataclasses.replace(settings, learning_rates=(1e30,))
    with pytest.raises(InputError, match="is NaN or infinite.*lower --learning_rate"):
        sweep.finetune(settings, f"{tmp_path}/other", f"{tmp_path}/cache")


def test_the_best_of_few_good_runs_is_chosen():
    def result(rate, seed, score):
        diverged = "diverged" if score is None else None
        return {"learning_rate": rate, "seed": seed, "score": score, "diverged": diverged}

    # Half of the seeds diverged, so that no learning rate has a median.
    results = [result(1, 1, None), result(1, 2, None), result(2, 1, None), result(2, 2, 0.5)]
    assert sweep._choose(results, False) == result(2, 2, 0.5)
    results[1] = result(1, 2, 0.7)
    assert sweep._choose(results, False) == result(1, 2, 0.7)
    results[2] = result(2, 1, 0.1)  # a whole rate comes before a better run of another
    assert sweep._choose(results, False) == result(2, 2, 0.5)
    results = [result(1, 1, None), result(1, 2, 0.2), result(1, 3, 0.9)]
    assert sweep._choose(results, True) == result(1, 2, 0.2)  # a fold is scored, not chosen on


def test_a_signal_in_the_last_step_stops_before_the_next_run(tmp_path, init, monkeypatch):
    data = make_texts(tmp_path, train=32, dev=16)
    settings = settings_of(init, "classification", data, epochs=1.0, seeds=(1, 2))
    evaluate = Run.evaluate

    def interrupt(run):
        os.kill(os.getpid(), signal.SIGINT)
        return evaluate(run)

    monkeypatch.setattr(Run, "evaluate", interrupt)
    with pytest.raises(stopping.Stopped):
        sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert not os.path.exists(f"{tmp_path}/out/runs/lr-0.002-seed-2")
    monkeypatch.setattr(Run, "evaluate", evaluate)
    report = sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert report["metrics"]["by_seed"].keys() == {"1", "2"}


def test_a_head_goes_on_for_the_same_task_only(tmp_path, init):
    data = make_texts(tmp_path, train=32, dev=16)
    model = weights.read(init)
    rng = np.random.default_rng(0)
    heads = {
        "heads/classification/kernel": rng.standard_normal((32, 2)).astype("f4"),
        "heads/classification/bias": np.ones(2, "f4"),
    }
    for shape, labels, form, goes_on in (
        ("classification", ["neg", "pos"], {}, True),
        ("classification", ["no", "yes"], {}, False),
        ("classification", ["neg", "pos"], {"both_orders": True}, False),
        ("span", [], {}, False),
    ):
        task = {"name": "classification", "shape": shape, "labels": labels, "head": form}
        brought = dataclasses.replace(model, weights=model.weights | heads, tasks=(task,))
        folder = f"{tmp_path}/{shape}-{len(labels)}-{len(form)}-{goes_on}"
        weights.write(brought, folder, Format.BERT_TF)
        settings = settings_of(folder, "classification", data, epochs=1.0, learning_rates=(1e-12,))
        sweep.finetune(settings, f"{folder}-out", f"{tmp_path}/cache")
        found = weights.read(f"{folder}-out").weights["heads/classification/bias"]
        assert np.allclose(found, 1, atol=1e-3) == goes_on


def test_layers_learn_at_decaying_rates():
    model = TaskModel(CONFIG, [HeadShape("t", 2, False)])
    factors = run._layer_factors(model, 0.5)
    assert factors["encoder/block_1/output_norm/gamma"] == 0.5
    assert factors["encoder/block_0/attention/qkv/kernel"] == 0.25
    assert factors["encoder/embeddings/word_embeddings"] == 0.125
    assert not any(name.startswith(("heads/", "encoder/pooler/")) for name in factors)


def test_balance_weighs_rare_labels_more():
    task = tasks.make("classification", "t", balanced=True)
    labels = ["a"] * 6 + ["b"] * 2
    examples = [
        TextExample(str(i), f"f: line {i}", "x", None, label) for i, label in enumerate(labels)
    ]
    task = task.fit(examples)
    assert task.labels == ("a", "b")
    np.testing.assert_allclose(task.label_weights, [8 / 12, 2])


def test_balance_weighs_rare_tags_more():
    task = tasks.make("tagging", "t", balanced=True)
    task = task.fit([WordsExample("0", "f: line 1", ("w",) * 4, ("O", "O", "O", "B-X"))])
    batch = {"labels": tf.constant([[-1, 1, 0, -1], [1, 1, -1, -1]])}
    np.testing.assert_allclose(
        task.loss_weights(batch), [[0, 4 / 6, 2, 0], [4 / 6, 4 / 6, 0, 0]], rtol=1e-6
    )


def test_dev_shares_no_context_and_no_document_with_training():
    spans = [SpanExample(str(i), "", "q", f"context {i // 5}", ()) for i in range(200)]
    words = [WordsExample(str(i), "", ("w",), ("O",), i // 10) for i in range(200)]
    alone = [dataclasses.replace(example, document=0) for example in words]
    for kind, examples in (("squad2", spans), ("ner", words), ("ner", alone)):
        parts = dev_split.with_dev(tasks.make(kind, kind), {"all": examples}, 0.1)
        dev, train = parts["dev"], parts["train"]
        assert len(dev) == 20 and len(train) == 180
        if examples is not alone:
            assert not set(map(dev_split._group, dev)) & set(map(dev_split._group, train))
    numbers = [int(example.key) for example in dev]  # where there are no documents, neighbours
    assert sum(b - a == 1 for a, b in itertools.pairwise(numbers)) == 19


def test_dev_has_its_share_of_rare_labels():
    def dev_of(task, labels):
        examples = [
            MultiLabelExample(str(i), "", f"text {i}", None, tuple(each))
            for i, each in enumerate(labels)
        ]
        parts = dev_split.with_dev(task, {"all": examples}, 0.1)
        assert len(parts["dev"]) + len(parts["train"]) == len(labels)
        return Counter(label or "none" for e in parts["dev"] for label in e.labels or ("",))

    task = tasks.make("multilabel", "m")
    labels = [["rare"] if i % 40 == 0 else ["often"] * (i % 5 == 0) for i in range(400)]
    assert dev_of(task, labels) == {"rare": 1, "often": 7, "none": 32}
    # Labels of one example stay in training.
    assert dev_of(task, [[f"once {i}"] if i < 50 else ["often"] for i in range(100)]) == {
        "often": 10
    }


def test_options_of_joint_training_go_to_the_tasks_that_have_them(init):
    requests = (TaskRequest("classification", "mood"), TaskRequest("ner", "names"))
    settings = FineTuningSettings(requests, init, balanced=True, document_context=True)
    mood, names = (task_data._options(request, settings) for request in requests)
    assert mood["balanced"] and "document_context" not in mood
    assert names["balanced"] and names["document_context"]
    pairs = (TaskRequest("pair", "a"), TaskRequest("pair", "b"))
    settings = FineTuningSettings((requests[0], *pairs), init, windows=3, keep=Keep.TAIL)
    mood, pair, _ = (task_data._options(request, settings) for request in settings.tasks)
    assert mood["windows"] == 3 == pair["windows"]
    assert mood["keep"] == Keep.TAIL and "keep" not in pair
    # No task takes it; each says so when it reads its examples.
    settings = FineTuningSettings(pairs, init, keep=Keep.TAIL)
    assert task_data._options(pairs[0], settings)["keep"] == Keep.TAIL
    settings = FineTuningSettings(requests[:1], init, document_context=True)
    with pytest.raises(InputError, match="--document_context does not apply"):
        task_data.load(requests[0], settings, None)


def test_one_process_at_a_time_trains_in_a_folder(tmp_path, init):
    output = f"{tmp_path}/out"
    data = make_texts(tmp_path, train=32, dev=16)
    settings = settings_of(init, "classification", data, epochs=1.0, seeds=(1, 2))
    with (
        locks.held(output),
        pytest.raises(InputError, match="out: another process is writing there"),
    ):
        sweep.finetune(settings, output, f"{tmp_path}/cache")
    settings = dataclasses.replace(settings, keep_runs=True)
    sweep.finetune(settings, output, f"{tmp_path}/cache")
    assert os.path.isdir(f"{output}/runs/lr-0.002-seed-1/kept")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: is a file; name a folder"):
        sweep.finetune(settings, f"{tmp_path}/file", f"{tmp_path}/cache")


def test_without_dev_data_the_last_weights_are_kept(tmp_path, init):
    path = tmp_path / "few.csv"
    path.write_text("text,label\ngood film,pos\nbad film,neg\n")
    settings = settings_of(init, "classification", str(path), epochs=1.0, batch_size=2)
    report = sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert task_report.summary(report).startswith("There was no dev data to score with.")
    assert weights.read(f"{tmp_path}/out").has("heads/")
    assert not os.path.exists(f"{tmp_path}/out/runs/lr-0.002-seed-1/kept")
