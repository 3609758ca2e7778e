"""Fine-tuning of a model that writes texts: with another task, on two devices, killed."""

import json
import random

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.models.config import BertConfig
from tests import commands
from tests.bert_tf import labelled_data
from tests.bert_tf.labelled_data import BAD, GOOD, TOKENS, make_texts

TASKS = "--task=mood=classification,answer=generation"


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    config = BertConfig.named(
        "bart-debug", vocab_size=len(TOKENS), hidden_size=32, intermediate_size=64,
        num_attention_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return labelled_data.write_init(str(tmp_path_factory.mktemp("bart") / "model"), config)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each task: a mood, and the word that shows it."""
    rng = random.Random(0)
    texts, answers = tmp_path_factory.mktemp("texts"), tmp_path_factory.mktemp("answers")
    make_texts(texts, train=64, dev=16)
    for split, count in (("train", 64), ("dev", 8)):
        words = [rng.choice(GOOD + BAD) for _ in range(count)]
        rows = [[labelled_data.sentence(rng, word, 5), word] for word in words]
        labelled_data.write_rows(answers / f"{split}.tsv", rows, ["source", "target"])
    return f"{texts},{answers}"


def _flags(bart, data, output, *more):
    return [
        TASKS, f"--data={data}", f"--init={bart}", f"--output={output}", "--epochs=1",
        "--batch_size=16", "--learning_rate=1e-3", "--max_length=40", "--max_target_length=8",
        "--precision=float32", *more,
    ]  # fmt: skip


def _losses(output):
    (path,) = output.glob("runs/*/history.jsonl")
    return [json.loads(line)["loss"] for line in path.read_text().splitlines()]


def test_two_devices_learn_jointly_what_one_does(tmp_path, bart, data):
    for name, extra in (("one", []), ("two", ["--strategy=mirrored"])):
        flags = _flags(bart, data, tmp_path / name, "--dropout=0", *extra)
        commands.done("tests.bert_tf.training.two_devices", *flags)
    np.testing.assert_allclose(_losses(tmp_path / "one"), _losses(tmp_path / "two"), rtol=1e-4)
    assert _losses(tmp_path / "one")
    one, two = (
        json.loads((tmp_path / name / "report.json").read_text())["metrics"]["median"]
        for name in ("one", "two")
    )
    assert {name.split("/")[0] for name in one} == {"mood", "answer"}
    assert one.keys() == two.keys()


def test_a_killed_run_of_both_tasks_ends_with_the_same_bits(tmp_path, bart, data):
    commands.done("finetune", *_flags(bart, data, tmp_path / "whole"))
    process = commands.Running("finetune", *_flags(bart, data, tmp_path / "killed"))
    assert process.kill_when(lambda: list((tmp_path / "killed/runs").glob("*/checkpoints/*[0-9]")))
    commands.done("finetune", *_flags(bart, data, tmp_path / "killed"))
    found = [weights.read(f"{tmp_path}/{name}").sha256() for name in ("whole", "killed")]
    assert found[0] == found[1]
