"""What is guessed without a model, and the scores of single labels."""

import dataclasses

import numpy as np
import pytest
import scipy.special
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from bert_tf import tasks
from bert_tf.tasks.classification import bag_of_words
from bert_tf.tasks.classification.task import ClassPrediction
from bert_tf.tasks.tagging.task import TagsPrediction
from pipelines.common.errors import InputError
from pipelines.labelled.schema import (
    AnswerSpan,
    ChoiceExample,
    MultiLabelExample,
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


def _classified(*pairs):
    return [TextExample(str(i), "x", text, label=label) for i, (text, label) in enumerate(pairs)]


def test_words_and_pairs_of_words_are_what_a_model_is_compared_with():
    training = _classified(
        *(("a good film", "pos"), ("a bad film", "neg"), ("not good", "neg"), ("not bad", "pos"))
        * 3
    )
    task = tasks.make("classification").fit(training)
    found = task.bag_of_words(
        training, dev := _classified(("so not bad", "pos"), ("a good one", "pos"))
    )
    assert task.metrics(dev, found)["accuracy"] == 1
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    model = LogisticRegression(C=10).fit(
        vectorizer.fit_transform([e.text_a for e in training]), [e.label for e in training]
    )
    wanted = model.predict_proba(vectorizer.transform([e.text_a for e in dev]))
    assert np.abs(np.stack([each.probabilities for each in found]) - wanted).max() < 0.01
    unspaced = _classified(
        *(("今天天气很好真是好天气我们出去", "pos"), ("今天天气很坏真是坏天气我们回家", "neg")) * 3
    )
    (found, _) = task.bag_of_words(unspaced, _classified(("昨天天气很好", ""), ("?", "")))
    assert found.label == "pos"
    one = _classified(("a", "pos"), ("b", "pos"))
    assert task.bag_of_words(one, dev) == []
    assert tasks.make("regression").bag_of_words(one, dev) == []


def test_labels_that_differ_in_case_alone_are_named(caplog):
    many = ["NEGATIVE"] * 30 + ["negative"] * 12 + ["positive"] * 9
    task = tasks.make("classification").fit(_texts(*many))
    assert len(task.labels) == 3
    assert (
        "the labels 'NEGATIVE' (30) and 'negative' (12) differ only in case, in .0" in caplog.text
    )
    assert "--label_map=NEGATIVE=NEGATIVE,negative=NEGATIVE,positive=positive" in caplog.text
    tasks.make("classification").fit(_texts(*["na\u00efve", "nai\u0308ve", "\u200bok", "ok"] * 9))
    for pair in ("'na\u00efve' (9) and 'nai\u0308ve' (9)", "'\\u200bok' (9) and 'ok' (9)"):
        assert pair in caplog.text
    tasks.make("classification").fit(_texts(*["1", "1.0", "0"] * 9))
    assert "'1' (9) and '1.0' (9)" in caplog.text
    rare = ["NEGATIVE"] * 30 + ["negative"] * 2 + ["positive"] * 9
    for kind in ("classification", "multilabel"):
        examples = _texts(*rare)
        if kind == "multilabel":
            examples = [MultiLabelExample(e.key, e.place, "a", labels=(e.label,)) for e in examples]
        with pytest.raises(
            InputError, match=r"'negative' \(2\) differ only in case, .*same name tw"
        ):
            tasks.make(kind).fit(examples)
        mapped = tuple((label, label) for label in sorted(set(rare)))
        task = dataclasses.replace(tasks.make(kind), label_map=mapped).fit(examples)
        assert task.labels == ("NEGATIVE", "negative", "positive")


def test_words_of_a_rare_label_are_not_lost_where_examples_are_drawn(monkeypatch):
    monkeypatch.setattr(bag_of_words, "_MAX_EXAMPLES", 20)
    for place in range(0, 60, 7):
        training = _texts(*["a"] * 60)
        training[place] = dataclasses.replace(training[place], text_a="rare words", label="b")
        task = tasks.make("classification").fit(training)
        found = task.bag_of_words(training, [training[place], training[place - 1]])
        assert [guess.label for guess in found] == ["b", "a"]
