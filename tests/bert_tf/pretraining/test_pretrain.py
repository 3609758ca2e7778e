"""Pre-training as a command: its outputs, kills and resumption, bad input."""

import dataclasses
import json
import math
import os
import re
import shutil
import signal
import time

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the ops of the SavedModel)

from bert_tf import weights
from bert_tf.models import configs
from bert_tf.models.config import BertConfig
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.helpers import history_of, report_of
from tests.bert_tf.pretraining.runs import MODEL, SHORT, command, done, run, write_examples


def test_the_output_folder_holds_all(finished):
    report = report_of(finished)
    for key in (
        "masked_lm_accuracy", "unigram_accuracy", "bigram_accuracy", "next_sentence_accuracy",
        "perplexity", "steps", "sequences_per_second", "seconds",
    ):  # fmt: skip
        assert isinstance(report[key], float | int), key
    assert report["steps"] == 60
    assert report["masked_sentences"][0]["guesses"]
    assert configs.load(str(finished / "bert_config.json")) == MODEL
    assert (finished / "vocab.txt").read_text().startswith("[PAD]\n")
    assert (finished / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert len(history_of(finished)) == 12
    assert sorted(os.listdir(finished / "checkpoints"))[-1] == "checkpoint-00000060"
    assert os.listdir(finished / "tensorboard")


def test_the_saved_model_takes_raw_text(finished):
    loaded = tf.saved_model.load(str(finished / "saved_model"))
    texts = tf.constant(["The [MASK] model reads every [MASK] of the token.", "no mask", ""])
    guesses = loaded.signatures["fill_mask"](texts)
    assert guesses["tokens"].shape == guesses["probabilities"].shape == [3, 2, 5]
    assert (guesses["probabilities"][0].numpy() > 0).all()
    assert (guesses["tokens"][1:].numpy() == b"").all()
    embedded = loaded.signatures["embed"](texts)
    assert embedded["pooled_output"].shape == embedded["mean_output"].shape == [3, 32]
    names = {variable.name for variable in loaded.weights}
    assert len(loaded.weights) == len(names) or len(loaded.weights) > 30
    assert "serving_default" in loaded.signatures


def test_a_finished_run_is_left_alone(finished, tfrecords, model_path):
    before = (finished / "report.json").stat().st_mtime_ns
    done(tfrecords, model_path, finished)
    assert (finished / "report.json").stat().st_mtime_ns == before


@pytest.mark.more
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_a_signal_saves_and_leaves(tfrecords, model_path, tmp_path, number):
    process = commands.Running(
        *command(tfrecords, model_path, tmp_path / "o", "--save_every=1000", "--steps=100000")
    )
    history = tmp_path / "o" / "history.jsonl"
    while not (history.exists() and history.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    stopped = process.wait()
    assert stopped.returncode == 128 + number
    step = int(re.search(r"stopped at step (\d+); run the same", stopped.stderr).group(1))
    assert step < 100_000
    assert (tmp_path / "o" / "checkpoints" / f"checkpoint-{step:08d}").exists()


_error = commands.error_of


def test_other_settings_in_the_same_folder_are_refused(finished, tfrecords, model_path):
    message = _error(run(tfrecords, model_path, finished, "--seed=3"))
    assert "is of a run with other settings: seed (was 12345, now 3)" in message


def test_examples_that_do_not_fit_the_model_are_refused_before_the_first_step(tfrecords, tmp_path):
    for changes, message in (
        ({"vocab_size": 50}, "ids up to 99, but the model's vocab_size is 50"),
        ({"max_position_embeddings": 16}, "records of 32 tokens exceed the model's 16 positions"),
    ):
        path = str(tmp_path / "bert_config.json")
        BertConfig.from_dict(MODEL.to_dict() | changes).save(path)
        assert message in _error(run(tfrecords, path, tmp_path / "o"))
        assert not (tmp_path / "o").exists()


def test_a_vocabulary_of_other_examples_is_refused(tfrecords, model_path, tmp_path):
    copy = shutil.copytree(tfrecords, tmp_path / "copy")
    with open(copy / "vocab.txt", "a") as file:
        file.write("another\n")
    message = _error(run(copy, model_path, tmp_path / "o"))
    assert "vocab.txt: is not the vocabulary that the examples were made with" in message


@pytest.mark.more
def test_damaged_examples_are_named(tfrecords, model_path, tmp_path):
    copy = shutil.copytree(tfrecords, tmp_path / "copy")
    shard = next(copy.glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    message = _error(run(copy, model_path, tmp_path / "o", "--steps=400", "--save_every=1000"))
    assert re.search(r"train-.*tfrecord: record \d+ is damaged", message)


@pytest.mark.slow
def test_left_to_right_trains(corpus_path, vocab_path, model_path, tmp_path):
    write_examples(corpus_path, vocab_path, tmp_path / "t", "--objective=left_to_right", *SHORT)
    done(tmp_path / "t", model_path, tmp_path / "o", "--steps=10")
    report = report_of(tmp_path / "o")
    assert report.get("next_sentence_accuracy") is None
    assert report["objective"] == "left_to_right"


@pytest.mark.more
def test_masks_can_be_drawn_on_the_device(corpus_path, vocab_path, model_path, tmp_path):
    write_examples(corpus_path, vocab_path, tmp_path / "t", "--objective=left_to_right", *SHORT)
    path = tmp_path / "t" / "manifest.json"
    changed = json.loads(path.read_text())
    changed["settings"]["objective"] = "mlm"
    del changed["sha256"]
    path.write_text(json.dumps(changed))
    done(tmp_path / "t", model_path, tmp_path / "o", "--accumulation=2")
    report = report_of(tmp_path / "o")
    assert report["masked_sentences"][0]["guesses"]
    assert 0 < report["unigram_accuracy"] < report["masked_lm_accuracy"]
    points = history_of(tmp_path / "o")
    assert points[-1]["loss"] < points[0]["loss"] - 0.2
    assert points[0]["next_sentence_accuracy"] is None


@pytest.mark.more
def test_two_phases_of_two_lengths(corpus_path, vocab_path, tfrecords, model_path, tmp_path):
    write_examples(
        corpus_path, vocab_path, tmp_path / "long", "--max_seq_length=64",
        "--max_predictions_per_seq=10", "--held_out_fraction=0.1",
    )  # fmt: skip
    both = f"{tfrecords},{tmp_path}/long"
    process = done(
        both, model_path, tmp_path / "o", "--steps=12,8", "--batch_size=32,16",
        "--learning_rate=2e-3,1e-3", "--warmup_steps=3,2",
    )  # fmt: skip
    points = history_of(tmp_path / "o")
    assert [point["phase"] for point in points] == [0, 0, 1, 1]
    # Each phase has a cycle of its own.
    rates = [2e-3 * 7 / 9, 2e-3 * 2 / 9, 1e-3 * 5 / 6, 0]
    assert [point["learning_rate"] for point in points] == pytest.approx(rates, rel=1e-5)
    report = report_of(tmp_path / "o")
    assert 0 < report["input_wait_fraction"] < 1
    assert "of the time waiting for input" in process.stdout


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--accumulation=3", "a batch of 32 cannot be split into 3 equal parts"),
        ("--steps=1,2", "--steps has 2 numbers, and --tfrecords names 1 phase; give one for each"),
        ("--learning_rate=1e-3,1e-4", "has 2 rates and --warmup_steps 1; give one of each, or one"),
        ("--model=huge", "model 'huge' is unknown"),
    ],
)
def test_flags_that_do_not_fit_are_named(tfrecords, model_path, tmp_path, flag, message):
    assert message in _error(run(tfrecords, model_path, tmp_path / "o", flag))


@pytest.mark.slow
def test_without_held_out_examples_there_is_a_model_but_no_score(
    corpus_path, vocab_path, model_path, tmp_path
):
    write_examples(
        corpus_path, vocab_path, tmp_path / "t", "--max_seq_length=32",
        "--max_predictions_per_seq=5",
    )  # fmt: skip
    process = done(tmp_path / "t", model_path, tmp_path / "o", "--steps=10", "--saved_model")
    assert "nan" not in process.stdout
    report = report_of(tmp_path / "o")
    assert report["masked_lm_accuracy"] is None
    assert (tmp_path / "o" / "saved_model" / "saved_model.pb").exists()


def test_a_folder_of_another_model_is_left_as_it_is(finished, tfrecords, model_path, tmp_path):
    other = tmp_path / "mine"
    weights.write(weights.read(str(finished)), str(other), weights.formats.Format.BERT_TF)
    (other / "report.json").write_text("{}")  # alone, it does not make a finished run
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    message = _error(run(tfrecords, model_path, other))
    assert "mine: is not empty and is not of a training run: it has bert_config.json" in message
    assert before == {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}


@pytest.mark.more
def test_segments_beyond_the_table_are_refused_before_the_first_step(
    tfrecords, corpus_path, vocab_path, tmp_path
):
    path = str(tmp_path / "bert_config.json")
    BertConfig.from_dict(MODEL.to_dict() | {"type_vocab_size": 1}).save(path)
    message = _error(run(tfrecords, path, tmp_path / "o"))
    assert "has sequences of 2 segments, but the model's type_vocab_size is 1" in message
    assert not (tmp_path / "o").exists()
    write_examples(corpus_path, vocab_path, tmp_path / "t", "--objective=mlm")
    assert run(tmp_path / "t", path, tmp_path / "o", "--steps=0").returncode == 2
    longer = f"{tmp_path}/longer.json"
    changes = {"type_vocab_size": 1, "max_position_embeddings": 128}
    BertConfig.from_dict(MODEL.to_dict() | changes).save(longer)
    commands.done(*command(tmp_path / "t", longer, tmp_path / "o", "--steps=2"))


def test_every_file_that_decides_the_answers_has_its_checksum(finished, tmp_path):
    weights.read(str(finished))
    for name in ("vocab.txt", "bert_config.json", "tokenizer_config.json"):
        copy = shutil.copytree(finished, tmp_path / name, ignore=shutil.ignore_patterns("saved*"))
        data = bytearray((copy / name).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / name).write_bytes(data)
        with pytest.raises(InputError, match=f"{name}: is damaged, or was changed"):
            weights.read(str(copy))
        (copy / "checksums.json").unlink()  # as older runs are, and those that the user changes
        (copy / name).write_bytes((finished / name).read_bytes())
        weights.read(str(copy))


def test_a_model_of_a_diverged_run_is_named(finished, tmp_path):
    model = weights.read(str(finished))
    name = "encoder/block_0/attention/qkv/kernel"
    for value in (math.nan, math.inf):
        array = model.weights[name].copy()
        array[1, 2] = value
        with pytest.raises(InputError, match=f"{name} has values that are not finite"):
            dataclasses.replace(model, weights=model.weights | {name: array})


def test_cleaning_removes_what_was_made_and_nothing_else(corpus_path, vocab_path, tmp_path):
    mine = tmp_path / "notes.txt"
    mine.write_text("mine")
    examples, output, cache = tmp_path / "an example", tmp_path / "a model", tmp_path / "cache"
    write_examples(corpus_path, vocab_path, examples)
    for folder in (output, cache):
        folder.mkdir()
        (folder / "vocab.txt").write_text("mine")
    flags = (f"--tfrecords={examples}", f"--output={output}", f"--cache={cache}")
    said = commands.done("clean", *flags).stdout
    assert f"{examples}: removed.\n" in said and not examples.exists()
    assert f"{output}: is not a pre-training run (see its run.json); not removed." in said
    (output / "run.json").write_text('{"phases": []}')
    (output / "checkpoints").mkdir()
    (output / "report.json").write_text("{}")
    (output / "notes.txt").write_text("mine")
    write_examples(corpus_path, vocab_path, examples)
    changed = json.loads((examples / "manifest.json").read_text())
    del changed["text"], changed["sha256"]
    (examples / "manifest.json").write_text(json.dumps(changed))
    said = commands.done("clean", *flags).stdout
    assert f"{output}: removed 4 of our files; left notes.txt." in said
    assert os.listdir(output) == ["notes.txt"]
    assert (
        f"{examples}: removed 1 of our files; left train-00000-of-00001.tfrecord, vocab.txt" in said
    )
    assert (cache / "vocab.txt").exists() and mine.exists()
