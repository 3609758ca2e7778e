"""What is guessed without a model, and the scores of single labels."""

import dataclasses

import numpy as np
import pytest
import scipy.special

from bert_tf import tasks
from bert_tf.tasks.classification.task import ClassPrediction
from bert_tf.tasks.tagging.task import TagsPrediction
from pipelines.labelled.schema import (
    AnswerSpan,
    ChoiceExample,
    SpanExample,
    TextExample,
    WordsExample,
)


def _texts(*labels):
    return [TextExample(str(i), "x", "a text", label=label) for i, label in enumerate(labels)]


def test_of_classes_the_most_frequent_one_of_training_is_guessed():
    training = _texts("a", "b", "b")
    task = tasks.make("classification").fit(training)
    dev = _texts("b", "b", "b", "a")
    guesses = task.baseline(training, dev)
    assert task.metrics(dev, guesses)["accuracy"] == 0.75
    assert {answer for guess in guesses for answer in task.answers(guess)} == {"b"}


def test_of_scores_the_mean_of_training_is_guessed():
    task, training = tasks.make("regression"), _texts("1", "4")
    guesses = task.baseline(training, _texts("0", "2"))
    assert guesses == [2.5, 2.5]
    assert task.metrics(_texts("0", "2"), guesses)["pearson"] == 0


def test_of_tags_the_most_frequent_one_of_each_word_is_guessed():
    training = [
        WordsExample("0", "x", ("a", "b", "b", "b"), ("X", "Y", "Y", "Z")),
        WordsExample("1", "x", ("c", "c"), ("Y", "Y")),
    ]
    task = tasks.make("tagging").fit(training)
    (guess,) = task.baseline(training, [WordsExample("2", "x", ("b", "a", "new"))])
    assert guess.tags == ("Y", "X", "Y")


def test_of_choices_the_place_that_is_right_most_often_is_guessed():
    def example(label, count=3):
        return ChoiceExample("0", "x", "c", ("d",) * count, label)

    task = tasks.make("choice")
    guesses = task.baseline([example(2), example(2), example(0)], [example(1), example(0, 2)])
    assert [guess.choice for guess in guesses] == [2, 1]  # there is no third of two


def test_of_answers_none_or_the_whole_context_is_guessed():
    answered = SpanExample("0", "x", "who?", "der Hund l\u00e4uft", (AnswerSpan("Hund", 4),))
    without = SpanExample("1", "x", "who?", "ein Hund", ())
    task = tasks.make("squad2")
    assert task.metrics([answered, without], task.baseline([], [answered, without]))["exact"] == 0.5
    task = tasks.make("squad1")
    (guess,) = task.baseline([], [answered])
    assert task.answers(guess) == [answered.context]
    assert 0 < task.metrics([answered], [guess])["f1"] < 1


def test_labels_have_scores_of_their_own():
    examples = _texts("a", "a", "b", "b")
    task = dataclasses.replace(tasks.make("classification"), labels=("a", "b", "c"))
    guesses = [ClassPrediction(label, np.zeros(3)) for label in "aaab"]
    found = task.by_label(examples, guesses)
    assert found["a"] == {
        "precision": pytest.approx(2 / 3),
        "recall": 1.0,
        "f1": pytest.approx(0.8),
        "count": 2,
    }
    assert found["c"]["count"] == 0


def test_entities_have_scores_by_type():
    words = ("Ada", "Lovelace", "in", "London")
    examples = [WordsExample("0", "x", words, ("B-PER", "I-PER", "O", "B-LOC"))]
    task = tasks.make("tagging").fit(examples)
    guess = TagsPrediction(("B-PER", "O", "O", "B-LOC"), np.ones(4))
    found = task.by_label(examples, [guess])
    assert found["LOC"]["f1"] == 1 and found["PER"]["f1"] == 0
    assert list(found) == ["LOC", "PER"]


def test_plain_tags_have_scores_each():
    examples = [WordsExample("0", "x", ("a", "b", "c"), ("DET", "NOUN", "NOUN"))]
    task = tasks.make("pos").fit(examples)
    found = task.by_label(examples, [TagsPrediction(("DET", "NOUN", "DET"), np.ones(3))])
    assert found["DET"]["precision"] == 0.5 and found["NOUN"]["recall"] == 0.5
    assert found["NOUN"]["count"] == 2


def test_the_probabilities_of_a_guess_are_a_distribution():
    training = _texts("a", "b", "b")
    task = tasks.make("classification").fit(training)
    (guess,) = task.baseline(training, _texts("a"))
    assert guess.probabilities.sum() == 1 and scipy.special.entr(guess.probabilities).sum() == 0
