"""The examples of the guide do what it says, with a small model."""

import re
from pathlib import Path

import pytest

from bert_tf.vectors import run
from bert_tf.vectors.settings import FeatureSettings
from pipelines.labelled.text_files import WordsFile

GUIDE = Path(__file__).parents[3] / "docs/guides/features.md"
SENTENCES = [("small", "B-PER"), ("the", "O"), ("model", "B-LOC"), ("reads", "O")]


@pytest.fixture(scope="module")
def examples():
    """The Python of the guide, by the heading that it stands under."""
    found = {}
    for part in GUIDE.read_text().split("\n## ")[1:]:
        codes = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
        found |= {part.split("\n")[0]: codes} if codes else {}
    return found


@pytest.fixture
def features(folders, tmp_path, monkeypatch):
    """Writes features of a file of words under the names given, in a folder that is current."""
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"{word} {tag}\n" for word, tag in SENTENCES)
    (tmp_path / "words.conll").write_text(f"{lines}\n" * 30)

    def write(*outputs, **settings):
        for output in outputs:
            settings = {"unit": "word", **settings}
            run.write(
                folders["tags"], WordsFile("words.conll"), output, FeatureSettings(**settings)
            )

    return write


def test_the_guide_has_these_examples(examples):
    assert {heading: len(codes) for heading, codes in examples.items()} == {
        "Read them": 2, "A probe": 1, "A tagger": 1,
    }  # fmt: skip


def test_features_are_read(examples, features, capsys):
    features("features.jsonl", "features")
    found = {}
    exec(examples["Read them"][0], found)
    assert found["values"].shape == (4, 1, 32) and len(found["vectors"]) == 4
    assert capsys.readouterr().out == "['small', 'the', 'model', 'reads'] (4, 1, 32)\n" * 30


@pytest.fixture
def reader(examples):
    """What the first example defines."""
    found = {}
    exec(examples["Read them"][0].split("\n\n\nfor ")[0], found)
    return found


def test_features_without_files(examples, folders):
    code = examples["Read them"][1].replace("(-4, -3, -2, -1)", "(-2, -1)")
    found = {}
    exec(code.replace("google-bert/bert-base-cased", folders["tags"]), found)
    assert found["found"].units.tokens == ["It", "rained", "."]
    assert found["given"].values.shape == (3, 64)


def test_a_probe_learns(examples, features, reader, capsys):
    features("train_features", "dev_features", layers=(-2, -1))
    exec(examples["A probe"][0], reader)
    assert float(capsys.readouterr().out) == 1


@pytest.mark.slow
def test_a_tagger_learns(examples, features, reader):
    features("train_features", layers=(-2, -1), combine="concat")
    code = examples["A tagger"][0].replace("4 * 768", "64").replace("LSTM(384", "LSTM(16")
    exec(code.replace("epochs=5", "epochs=100, verbose=0"), reader)
    losses = reader["tagger"].history.history["loss"]
    assert losses[-1] < losses[0] / 2
