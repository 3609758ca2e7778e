"""What a run notes as it goes on: guesses for held-out sentences, and their metrics."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.pretraining import masked_sentences, milestones
from bert_tf.pretraining.milestones import Milestones
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.bert_tf.helpers import CONFIG, report_of

pytestmark = pytest.mark.more

TOKENS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("the", "house", "of", "tree", "##s", "a", ",", "stands", "by", "my"),
    *(f"word{number}" for number in range(15)),
)


@pytest.fixture
def tokenizer():
    return WordPieceTokenizer(WordPieceVocabulary(TOKENS))


def _example(text, masked):
    """A text as an example, of which some pieces are masked; a few of them by other tokens."""
    pieces = ["[CLS]", *text.split(), "[SEP]"]
    ids = np.array([TOKENS.index(piece) for piece in pieces])
    seen = ids.copy()
    seen[masked] = [TOKENS.index(other) for other in ("[MASK]", "by", "[MASK]")[: len(masked)]]
    empty = [0] * (3 - len(masked))
    return seen, masked + empty, [*ids[masked], *empty]


@pytest.fixture
def batch():
    """Three examples of 12 tokens with three masks each, and one with a single one."""
    texts = [
        ("the house ##s of the tree ##s stands by", [2, 3, 8]),
        ("my tree , the tree stands by a house", [3, 5, 6]),
        ("the house stands , the tree stands , my", [4, 5, 9]),
        ("a , ##s", [1]),
    ]
    examples = [_example(*each) for each in texts]
    ids = np.stack([np.pad(seen, (0, 12 - len(seen))) for seen, _, _ in examples]).astype("i4")
    return {
        "input_word_ids": tf.constant(ids),
        "input_mask": tf.constant((ids > 0).astype("i4")),
        "input_type_ids": tf.zeros_like(ids),
        "masked_lm_positions": tf.constant([masked for _, masked, _ in examples], tf.int32),
        "masked_lm_ids": tf.constant(np.stack([right for *_, right in examples]), tf.int32),
        "masked_lm_weights": tf.constant([[1.0] * 3] * 3 + [[1.0, 0.0, 0.0]]),
    }


@pytest.fixture
def questions(batch, tokenizer):
    return masked_sentences.choose(batch, tokenizer)


def test_whole_common_words_are_asked_for_and_all_else_is_shown(questions, batch):
    assert [tuple(sentence.values()) for sentence in questions.sentences] == [
        ("the houses of the trees [?] by", "stands"),
        ("my tree , the [?] stands by a house", "tree"),
        ("the house stands , [?] tree stands , my", "the"),
        ("[?] ,s", "a"),
    ]
    ids, positions = (questions.batch[n].numpy() for n in ("input_word_ids", "masked_lm_positions"))
    for row, ((position,), sentence) in enumerate(zip(positions, questions.sentences, strict=True)):
        assert [TOKENS[index] for index in ids[row]].count("[MASK]") == 1
        assert TOKENS[ids[row, position]] == "[MASK]"
        assert TOKENS[questions.batch["masked_lm_ids"].numpy()[row, 0]] == sentence["original"]
    for name in ("input_mask", "input_type_ids"):
        np.testing.assert_array_equal(questions.batch[name], batch[name])


def test_long_sentences_are_cut_between_words(tokenizer):
    ids = [TOKENS.index(piece) for piece in ["house", "##s"] * 20]
    ids[21] = ids[20]
    batch = {
        "input_word_ids": tf.constant([ids]),
        "masked_lm_positions": tf.constant([[20]]),
        "masked_lm_ids": tf.constant([[ids[20]]]),
        "masked_lm_weights": tf.ones([1, 1]),
    }
    (sentence,) = masked_sentences.choose(batch, tokenizer).sentences
    assert sentence["text"] == f"…{'houses ' * 6}[?] house {'houses ' * 6}".strip() + "…"


def test_nothing_is_asked_where_nothing_is_masked(batch, tokenizer):
    none = batch | {"masked_lm_weights": tf.zeros([4, 3])}
    assert masked_sentences.choose(none, tokenizer) is None


def test_guesses_are_those_of_the_model(questions, tmp_path):
    model = MaskedLM(CONFIG)
    noted = Milestones(str(tmp_path), 0)
    noted.ask(model, questions, TOKENS)
    noted.guess(10)
    sentences, guesses = milestones.read(str(tmp_path))
    shares = tf.nn.softmax(model(questions.batch)["masked_lm"]).numpy()[:, 0]
    reported = masked_sentences.report(model, questions, TOKENS)
    assert guesses["step"] == 10
    originals = questions.batch["masked_lm_ids"].numpy()[:, 0]
    for told, guess, one, row, original in zip(
        sentences["sentences"], guesses["guesses"], reported, shares, originals, strict=True
    ):
        assert told == {"text": one["text"], "original": one["original"]}
        assert guess["right"] == pytest.approx(row[original], abs=1e-6)
        assert guess["tokens"] == pytest.approx(one["guesses"], abs=2e-4)
        best = sorted(row[: len(TOKENS)], reverse=True)[:5]
        assert list(guess["tokens"].values()) == pytest.approx(best, abs=1e-4)


def test_ids_without_tokens_are_not_guessed(questions):
    model = MaskedLM(dataclasses.replace(CONFIG, vocab_size=60))
    bias = next(w for w in model.weights if w.shape == (60,))
    bias.assign([0.0] * 50 + [9.0] * 10)
    for found in masked_sentences.report(model, questions, TOKENS):
        assert len(found["guesses"]) > 1 and set(found["guesses"]) <= set(TOKENS)
        assert sum(found["guesses"].values()) < 0.01


def test_the_file_only_grows_and_steps_are_noted_once(questions, tmp_path):
    folder = str(tmp_path)
    path = tmp_path / milestones.MILESTONES
    assert milestones.read(folder) == []
    model = MaskedLM(CONFIG)

    def note(start, *steps):
        noted = Milestones(folder, start)
        noted.ask(model, questions, TOKENS)
        for step in steps:
            noted.guess(step)
            noted.score(step, {"loss": step / 10, "nothing": float("nan")})

    note(0, 10, 20)
    first = path.read_bytes()
    note(15, 20, 30)
    assert path.read_bytes().startswith(first)
    lines = milestones.read(folder)
    steps = [(line.get("step"), "guesses" in line) for line in lines]
    assert steps == [
        (None, False), (10, True), (10, False), (20, True), (20, False), (30, True), (30, False),
    ]  # fmt: skip
    assert lines[2]["held_out"] == {"loss": 1.0, "nothing": None}
    path.write_bytes(path.read_bytes()[:-20])  # a run that was killed as it wrote
    note(25, 30, 40)
    assert [line["step"] for line in milestones.read(folder) if "held_out" in line] == [
        10, 20, 30, 40,
    ]  # fmt: skip
    # A run that was begun with other settings, and stopped before its first checkpoint.
    others = questions._replace(sentences=questions.sentences[:1])
    Milestones(folder, 0).ask(model, others, TOKENS)
    assert milestones.read(folder) == [{"sentences": others.sentences}]


def test_only_the_chief_writes_and_nothing_is_scored_where_there_is_nothing(questions, tmp_path):
    other = Milestones(str(tmp_path), 0, write=False)
    other.ask(MaskedLM(CONFIG), questions, TOKENS)
    other.guess(10)
    other.score(10, {"loss": 1.0})
    Milestones(str(tmp_path), 0).score(10, {"loss": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_run_notes_its_milestones(finished):
    lines = milestones.read(str(finished))
    report = report_of(finished)
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
