"""Windows of long contexts in multiple choice, and of pairs."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf import tasks
from pipelines.labelled.schema import ChoiceExample, TextExample
from tests import tokenizers

WORDS = [f"w{n}" for n in range(40)]
TOKENIZER = tokenizers.wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


def text(first, count):
    return " ".join(WORDS[first : first + count])


def test_scores_of_choices_are_means_over_windows_that_have_question_and_choice():
    task = dataclasses.replace(tasks.make("choice", "c"), max_seq_length=14, windows=3)
    examples = [
        ChoiceExample("", "", text(0, size), choices, 0, "w30 w31")
        for size, choices in (
            (20, ("w32", "w33")),
            (3, ("w34", "w35 w36", "w37")),
            (99, ("w38",) * 2),
        )
    ]
    features = task.features(examples, TOKENIZER)
    assert features.counts == {
        "choices longer than --max_seq_length=14 and --windows=3, cut (raise them)": 2
    }
    assert features["sequence_lengths"].lengths.tolist() == [6, 3, 6]
    for row, example in enumerate(examples):
        ids = np.split(
            features["input_word_ids"].row(row),
            np.cumsum(features["sequence_lengths"].row(row))[:-1],
        )
        windows = len(ids) // len(example.choices)
        for number, sequence in enumerate(TOKENIZER.decode(ids)):
            assert sequence.endswith(f"w30 w31 {example.choices[number // windows]}")
        assert " ".join(TOKENIZER.decode(ids[:1])).startswith(text(0, 3))
    batch = {
        name: tf.constant(value)
        for name, value in task.assemble(features, np.array([1, 0, 2]), 4).items()
    }
    assert batch["choice_mask"].numpy().tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 0], [0, 0, 0]]
    scores = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    found = task.logits(tf.constant(scores.reshape(-1, 1)), batch).numpy()
    np.testing.assert_array_equal(found[0], scores[0, :3])
    for row in (1, 2):
        np.testing.assert_allclose(found[row, :2], scores[row].reshape(2, 3).mean(1), rtol=1e-6)
        assert found[row, 2] < -1e8
    assert np.isfinite(found[3]).all()


def test_a_pair_is_cut_in_its_longer_text():
    task = dataclasses.replace(
        tasks.make("pair", "p"), max_seq_length=14, windows=9, labels=("a", "b")
    )
    long, short = text(0, 30), "w30 w31"
    features = task.features(
        [TextExample("", "", long, short), TextExample("", "", short, long)], TOKENIZER
    )
    assert not any(features.counts.values())
    lengths = features["sequence_lengths"]
    for row in (0, 1):
        ids = np.split(features["input_word_ids"].row(row), np.cumsum(lengths.row(row))[:-1])
        assert len(ids) == 4
        for sequence in TOKENIZER.decode(ids):
            assert sequence.endswith(short) if row == 0 else sequence.startswith(short)
        assert {word for sequence in TOKENIZER.decode(ids) for word in sequence.split()} == {
            *long.split(), *short.split()
        }  # fmt: skip
