"""What a run notes as it goes on: guesses for held-out sentences, and their metrics."""

import dataclasses
import json
import os

import pytest
import tensorflow as tf

from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.pretraining import masked_sentences, milestones
from bert_tf.pretraining.milestones import Milestones
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests import commands
from tests.bert_tf.helpers import CONFIG, make_batch
from tests.bert_tf.pretraining import runs


@pytest.fixture
def vocabulary():
    roles = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    return WordPieceVocabulary((*roles, *(f"w{number}" for number in range(45))))


@pytest.fixture
def batch():
    """Examples with a mask at their second position of those to guess; the first has none."""
    batch = make_batch(rows=9)
    ids = batch["input_word_ids"].numpy()
    for row in range(1, 9):
        ids[row, batch["masked_lm_positions"][row, 1]] = 4
    ids[0][ids[0] == 4] = 5
    return batch | {"input_word_ids": tf.constant(ids)}


def test_sentences_are_of_the_first_examples_that_have_masks(batch, vocabulary):
    found = masked_sentences.choose(batch, vocabulary)
    assert [sentence.row for sentence in found] == [1, 2, 3, 4, 5, 6]
    for sentence in found:
        ids = batch["input_word_ids"].numpy()[sentence.row]
        position = int(batch["masked_lm_positions"][sentence.row, sentence.slot])
        assert ids[position] == 4
        assert sentence.text.split()[position] == masked_sentences.ASKED
        assert sentence.original == int(batch["masked_lm_ids"][sentence.row, sentence.slot])


def test_guesses_are_those_of_the_model(batch, vocabulary, tmp_path):
    model = MaskedLM(CONFIG)
    noted = Milestones(str(tmp_path))
    noted.ask(model, batch, vocabulary)
    noted.guess(10)
    sentences, guesses = milestones.read(str(tmp_path))
    shares = tf.nn.softmax(model(batch)["masked_lm"]).numpy()
    reported = masked_sentences.report(model, batch, vocabulary)
    chosen = masked_sentences.choose(batch, vocabulary)
    assert guesses["step"] == 10
    for told, guess, one, sentence in zip(
        sentences["sentences"], guesses["guesses"], reported, chosen, strict=True
    ):
        assert told == {"text": one["text"], "original": one["original"]}
        row = shares[sentence.row, sentence.slot]
        assert guess["right"] == pytest.approx(row[sentence.original], abs=1e-6)
        assert guess["tokens"] == pytest.approx(one["guesses"], abs=2e-4)
        best = sorted(row, reverse=True)[:5]
        assert list(guess["tokens"].values()) == pytest.approx(best, abs=1e-4)


def test_ids_without_tokens_are_not_guessed(batch, vocabulary):
    model = MaskedLM(dataclasses.replace(CONFIG, vocab_size=60))
    bias = next(w for w in model.weights if w.shape == (60,))
    bias.assign([0.0] * 50 + [9.0] * 10)
    for found in masked_sentences.report(model, batch, vocabulary):
        assert len(found["guesses"]) > 1 and set(found["guesses"]) <= set(vocabulary.tokens)
        assert sum(found["guesses"].values()) < 0.01


def test_the_file_only_grows_and_steps_are_noted_once(batch, vocabulary, tmp_path):
    folder = str(tmp_path)
    path = tmp_path / milestones.MILESTONES
    assert milestones.read(folder) == []

    def note(*steps):
        noted = Milestones(folder)
        noted.ask(MaskedLM(CONFIG), batch, vocabulary)
        for step in steps:
            noted.guess(step)
            noted.score(step, {"loss": step / 10, "nothing": float("nan")})

    note(10, 20)
    first = path.read_bytes()
    note(20, 30)  # a run that goes on from before step 20
    assert path.read_bytes().startswith(first)
    lines = milestones.read(folder)
    steps = [(line.get("step"), "guesses" in line) for line in lines]
    assert steps == [
        (None, False), (10, True), (10, False), (20, True), (20, False), (30, True), (30, False),
    ]  # fmt: skip
    assert lines[2]["held_out"] == {"loss": 1.0, "nothing": None}
    path.write_bytes(path.read_bytes()[:-20])  # a run that was killed as it wrote
    note(30, 40)
    assert [line["step"] for line in milestones.read(folder) if "held_out" in line] == [
        10, 20, 30, 40,
    ]  # fmt: skip


def test_only_the_chief_writes_and_nothing_is_scored_where_there_is_nothing(
    batch, vocabulary, tmp_path
):
    other = Milestones(str(tmp_path), write=False)
    other.ask(MaskedLM(CONFIG), batch, vocabulary)
    other.guess(10)
    other.score(10, {"loss": 1.0})
    Milestones(str(tmp_path)).score(10, {"loss": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_run_notes_its_milestones(finished):
    lines = milestones.read(str(finished))
    report = json.loads((finished / "report.json").read_text())
    assert [line["step"] for line in lines if "guesses" in line] == [10, 20, 30, 40, 50, 60]
    (scored,) = [line for line in lines if "held_out" in line]
    assert scored["step"] == 60
    assert scored["held_out"]["masked_lm_accuracy"] == report["masked_lm_accuracy"]
    last = [line for line in lines if "guesses" in line][-1]["guesses"]
    assert len(lines[0]["sentences"]) == len(last) == len(report["masked_sentences"])
    for told, guess, reported in zip(
        lines[0]["sentences"], last, report["masked_sentences"], strict=True
    ):
        assert told == {"text": reported["text"], "original": reported["original"]}
        assert guess["tokens"] == pytest.approx(reported["guesses"], abs=2e-4)


def test_a_run_that_goes_on_goes_on_noting(finished, tfrecords, model_path, tmp_path):
    output = tmp_path / "killed"
    flags = ("--evaluate_every=20",)
    process = commands.Running(*runs.command(tfrecords, model_path, output, *flags))
    path = output / milestones.MILESTONES
    assert process.kill_when(lambda: path.exists() and path.read_text().count('"guesses"') >= 3)
    before = path.read_bytes()
    resumed = runs.run(tfrecords, model_path, output, *flags)
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert path.read_bytes().startswith(before[: before.rfind(b"\n")])

    def guesses(folder):
        lines = [line for line in milestones.read(str(folder)) if "guesses" in line]
        return [(line["step"], line["guesses"]) for line in lines]

    assert guesses(output) == guesses(finished)
    scored = [line["step"] for line in milestones.read(str(output)) if "held_out" in line]
    assert scored == [20, 40, 60]
    whole, other = (json.loads((f / "report.json").read_text()) for f in (finished, output))
    assert whole["weights_sha256"] == other["weights_sha256"]
