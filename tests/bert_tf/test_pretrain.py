"""Pre-training as a command: its outputs, kills and resumption, bad input."""

import dataclasses
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the ops of the SavedModel)

from bert_tf import weights
from bert_tf.config import BertConfig
from pipelines import example_writer

MODEL = BertConfig(
    vocab_size=120,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
)


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    """A bert_config.json of a very small model."""
    path = str(tmp_path_factory.mktemp("model") / "bert_config.json")
    MODEL.save(path)
    return path


def command(tfrecords, model, output, *extra):
    return [
        sys.executable, "-m", "bert_tf.pretrain", f"--tfrecords={tfrecords}", f"--model={model}",
        f"--output={output}", "--steps=60", "--batch_size=32", "--learning_rate=2e-3",
        "--warmup_steps=10", "--save_every=10", "--log_every=5", "--precision=float32", *extra,
    ]  # fmt: skip


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True)


@pytest.fixture(scope="module")
def finished(tfrecords, model_path, tmp_path_factory):
    """The output folder of a whole run."""
    output = tmp_path_factory.mktemp("out") / "pretrained"
    process = run(tfrecords, model_path, output)
    assert process.returncode == 0, process.stderr[-3000:]
    return output


def test_the_output_folder_holds_all(finished):
    report = json.loads((finished / "report.json").read_text())
    for key in (
        "masked_lm_accuracy", "unigram_accuracy", "bigram_accuracy", "next_sentence_accuracy",
        "perplexity", "steps", "sequences_per_second", "seconds",
    ):  # fmt: skip
        assert isinstance(report[key], float | int), key
    assert report["steps"] == 60
    assert report["masked_sentences"][0]["guesses"]
    assert BertConfig.load(str(finished / "bert_config.json")) == MODEL
    assert (finished / "vocab.txt").read_text().startswith("[PAD]\n")
    assert (finished / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert len((finished / "history.jsonl").read_text().splitlines()) == 12
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


def test_the_saved_model_holds_each_variable_once(finished):
    stored = tf.train.list_variables(str(finished / "saved_model" / "variables" / "variables"))
    elements = sum(math.prod(shape) for name, shape in stored if name.startswith("weights/"))
    manifest = json.loads((finished / "saved_model" / "manifest.json").read_text())
    width = manifest["models"][0]["config"]["hidden_size"]
    # All but the next-sentence head, which no signature needs.
    trained = json.loads((finished / "report.json").read_text())["parameters"] - 2 * (width + 1)
    assert elements == trained == manifest["parameters"]
    others = {name for name, _ in stored if not name.startswith("weights/")}
    assert others == {"_CHECKPOINTABLE_OBJECT_GRAPH"}


def test_the_saved_model_runs_outside_python_objects(finished):
    """saved_model_cli takes the loader that fails on what only Python can restore."""
    code = (
        "import tensorflow_text; from tensorflow.python.tools import saved_model_cli as c; c.main()"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "run", f"--dir={finished}/saved_model", "--tag_set=serve",
         "--signature_def=embed", "--input_exprs=text=['The model.', 'A token.']"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    assert "Result for output key pooled_output" in process.stdout


def test_a_finished_run_is_left_alone(finished, tfrecords, model_path):
    before = (finished / "report.json").stat().st_mtime_ns
    assert run(tfrecords, model_path, finished).returncode == 0
    assert (finished / "report.json").stat().st_mtime_ns == before


def test_a_run_killed_at_any_time_ends_with_the_same_bits(
    finished, tfrecords, model_path, tmp_path
):
    output = tmp_path / "killed"
    killed = 0
    for points in (3, 7):  # killed twice, at no step in particular
        process = subprocess.Popen(
            command(tfrecords, model_path, output), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip
        history = output / "history.jsonl"
        while process.poll() is None:
            if history.exists() and history.read_text().count("\n") >= points:
                process.kill()
                killed += 1
                break
            time.sleep(0.002)
        process.wait()
    assert killed == 2
    assert not (output / "report.json").exists()
    process = run(tfrecords, model_path, output)
    assert process.returncode == 0, process.stderr[-3000:]
    whole, resumed = (json.loads((o / "report.json").read_text()) for o in (finished, output))
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["masked_lm_accuracy"] == whole["masked_lm_accuracy"]
    assert (output / "history.jsonl").read_text().count("\n") == 12


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves_within_seconds(tfrecords, model_path, tmp_path, number):
    process = subprocess.Popen(
        command(tfrecords, model_path, tmp_path / "o", "--save_every=1000", "--steps=100000"),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    history = tmp_path / "o" / "history.jsonl"
    while not (history.exists() and history.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    start = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 10
    assert process.returncode == 128 + number
    step = int(re.search(r"stopped at step (\d+); run the same command", err).group(1))
    assert (tmp_path / "o" / "checkpoints" / f"checkpoint-{step:08d}").exists()


def _error(process):
    assert process.returncode == 2, process.stderr[-2000:]
    return process.stderr.strip().splitlines()[-1]


def test_other_settings_in_the_same_folder_are_refused(finished, tfrecords, model_path):
    message = _error(run(tfrecords, model_path, finished, "--seed=3"))
    assert "is of a run with other settings: seed (12345 there, 3 asked for)" in message


def test_examples_that_do_not_fit_the_model_are_refused_before_the_first_step(tfrecords, tmp_path):
    for changes, message in (
        ({"vocab_size": 50}, "vocab_size is 50, but the examples in"),
        ({"max_position_embeddings": 16}, "records of 32 tokens exceed the model's max_position"),
    ):
        path = str(tmp_path / "bert_config.json")
        BertConfig.from_dict(MODEL.to_dict() | changes).save(path)
        assert message in _error(run(tfrecords, path, tmp_path / "o"))
        assert not (tmp_path / "o").exists()


def test_a_vocabulary_of_other_examples_is_refused(tfrecords, model_path, tmp_path):
    copy = shutil.copytree(tfrecords, tmp_path / "copy")
    with open(copy / example_writer.VOCABULARY, "a") as file:
        file.write("another\n")
    message = _error(run(copy, model_path, tmp_path / "o"))
    assert "vocab.txt: is not the vocabulary that the examples were made with" in message


def test_damaged_examples_are_named(tfrecords, model_path, tmp_path):
    copy = shutil.copytree(tfrecords, tmp_path / "copy")
    shard = next(copy.glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    message = _error(run(copy, model_path, tmp_path / "o", "--steps=400", "--save_every=1000"))
    assert re.search(r"train-.*tfrecord: record \d+ is damaged", message)


@pytest.mark.parametrize("objective", ["mlm", "left_to_right"])
def test_other_objectives_train(corpus_path, vocab_path, model_path, tmp_path, objective):
    subprocess.run(
        [sys.executable, "-m", "pipelines.write_examples", f"--input={corpus_path}",
         f"--vocab={vocab_path}", f"--output={tmp_path}/t", f"--objective={objective}",
         "--max_seq_length=32", "--max_predictions_per_seq=5", "--held_out_fraction=0.1",
         "--dupe_factor=1", "--workers=1"],
        check=True, capture_output=True,
    )  # fmt: skip
    process = run(tmp_path / "t", model_path, tmp_path / "o", "--steps=10")
    assert process.returncode == 0, process.stderr[-3000:]
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert report["next_sentence_accuracy"] is None
    assert report["objective"] == objective


def test_two_phases_of_two_lengths(corpus_path, vocab_path, tfrecords, model_path, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pipelines.write_examples", f"--input={corpus_path}",
         f"--vocab={vocab_path}", f"--output={tmp_path}/long", "--max_seq_length=64",
         "--max_predictions_per_seq=10", "--held_out_fraction=0.1", "--dupe_factor=1",
         "--workers=1"],
        check=True, capture_output=True,
    )  # fmt: skip
    both = f"{tfrecords},{tmp_path}/long"
    process = run(both, model_path, tmp_path / "o", "--steps=12,8", "--batch_size=32,16")
    assert process.returncode == 0, process.stderr[-3000:]
    points = [
        json.loads(line) for line in (tmp_path / "o" / "history.jsonl").read_text().splitlines()
    ]
    assert [point["phase"] for point in points] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--save_every=0", "--save_every=0: it must be 1 or more"),
        ("--accumulation=0", "--accumulation=0 is out of range"),
        ("--accumulation=3", "a batch of 32 cannot be cut into 3 equal parts"),
        ("--seed=-1", "--seed=-1 is out of range"),
        ("--dropout=1.0", "--dropout=1.0 is out of range"),
        ("--steps=1,2", "--tfrecords names 1 phases, --steps 2"),
        ("--model=huge", "model 'huge' is unknown"),
    ],
)
def test_flags_out_of_range_are_named(tfrecords, model_path, tmp_path, flag, message):
    arguments = [*command(tfrecords, model_path, tmp_path / "o"), flag]
    process = subprocess.run(arguments, capture_output=True, text=True)
    assert message in _error(process)


def test_a_run_can_begin_with_the_weights_of_another(finished, tfrecords, model_path, tmp_path):
    checkpoint = finished / "checkpoints" / "checkpoint-00000060"
    process = run(
        tfrecords, model_path, tmp_path / "o", "--steps=5", f"--init_checkpoint={checkpoint}"
    )
    assert process.returncode == 0, process.stderr[-3000:]
    first = json.loads((tmp_path / "o" / "history.jsonl").read_text().splitlines()[0])
    fresh = json.loads((finished / "history.jsonl").read_text().splitlines()[0])
    assert first["loss"] < fresh["loss"] - 0.2
    # A run too short to have a speed can be asked for its report again.
    assert (
        run(
            tfrecords, model_path, tmp_path / "o", "--steps=5", f"--init_checkpoint={checkpoint}"
        ).returncode
        == 0
    )


def test_first_weights_must_be_of_the_same_computation(finished, tfrecords, model_path, tmp_path):
    model = weights.read(str(finished))
    other = dataclasses.replace(model.config, hidden_act="gelu_erf")
    weights.write(
        dataclasses.replace(model, config=other),
        f"{tmp_path}/hf",
        weights.formats.Format.HUGGINGFACE,
    )
    process = run(
        tfrecords, model_path, tmp_path / "o", "--steps=5", f"--init_checkpoint={tmp_path}/hf"
    )
    assert "hidden_act is gelu_erf, that of the run gelu; use --model with" in _error(process)


def test_without_held_out_examples_there_is_a_model_but_no_score(
    corpus_path, vocab_path, model_path, tmp_path
):
    subprocess.run(
        [sys.executable, "-m", "pipelines.write_examples", f"--input={corpus_path}",
         f"--vocab={vocab_path}", f"--output={tmp_path}/t", "--max_seq_length=32",
         "--max_predictions_per_seq=5", "--dupe_factor=1", "--workers=1"],
        check=True, capture_output=True,
    )  # fmt: skip
    process = run(tmp_path / "t", model_path, tmp_path / "o", "--steps=10")
    assert process.returncode == 0, process.stderr[-3000:]
    assert "nan" not in process.stdout
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert report["masked_lm_accuracy"] is None
    assert (tmp_path / "o" / "saved_model" / "saved_model.pb").exists()
