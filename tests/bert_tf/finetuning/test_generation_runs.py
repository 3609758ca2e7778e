"""Fine-tuning of a model that writes texts: with another task, on two devices, killed."""

import json

import numpy as np
import pytest

from tests import commands
from tests.bert_tf import labelled_data

TASKS = "--task=mood=classification,answer=generation"


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("bart") / "model")
    return labelled_data.write_init(folder, labelled_data.BART)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each task."""
    texts, answers = tmp_path_factory.mktemp("texts"), tmp_path_factory.mktemp("answers")
    labelled_data.make_texts(texts, train=64, dev=16)
    return f"{texts},{labelled_data.make_answers(answers)}"


def _flags(bart, data, output, *more):
    return [
        TASKS, f"--data={data}", f"--init={bart}", f"--output={output}", "--epochs=1",
        "--batch_size=16", "--learning_rate=1e-3", "--max_seq_length=40", "--max_target_length=8",
        "--precision=float32", *more,
    ]  # fmt: skip


def _losses(output):
    (path,) = output.glob("runs/*/history.jsonl")
    return [json.loads(line)["loss"] for line in path.read_text().splitlines()]


@pytest.mark.slow
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
