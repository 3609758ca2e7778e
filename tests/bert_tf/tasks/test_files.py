"""Which files tasks take, what they refuse of them, and what they write."""

import csv
import dataclasses
import io
import json

import numpy as np
import pytest

from bert_tf import tasks
from bert_tf.tasks import reports
from bert_tf.tasks.choice.task import ChoicePrediction
from bert_tf.tasks.classification.task import ClassPrediction
from bert_tf.tasks.span.task import Candidate, SpanPrediction
from bert_tf.tasks.tagging.task import TagsPrediction
from pipelines.common.errors import InputError
from pipelines.labelled import splits
from pipelines.labelled.schema import (
    AnswerSpan,
    ChoiceExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from tests import tokenizers


@pytest.fixture(scope="module")
def tokens():
    return tokenizers.wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat"])


def question(key, *answers, context="the cat sat", place="f.json: article 'a: b', paragraph 0"):
    found = tuple(AnswerSpan(answer, context.find(answer)) for answer in answers)
    return SpanExample(key, place, "who?", context, found)


def texts(*labels, place="gs://b/train.tsv: line 2"):
    return [TextExample(str(i), place, "the cat", None, label) for i, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("names", "kind", "expected"),
    [
        (["train-v1.1.subset.json", "dev-v2.0.json"], "squad2", {"dev": "dev-v2.0.json"}),
        (["train-v1.1.json", "train-v2.0.json"], "squad1", {"train": "train-v1.1.json"}),
        (["train-v2.0.json", "train.json"], "squad1", {"train": "train.json"}),
        (["train-v1.1.json", "train_mine.json"], "squad2", {"train": "train_mine.json"}),
        (["train-v1.1.json", "train-mine.json"], "squad2", {"train": "train-mine.json"}),
    ],
)
def test_squad_takes_no_file_of_the_other_version(tmp_path, names, kind, expected):
    for name in names:
        (tmp_path / name).touch()
    found = splits.find(str(tmp_path), tasks.make(kind).source.splits)
    assert found == {split: f"{tmp_path}/{name}" for split, name in expected.items()}


def test_squad2_needs_questions_without_an_answer():
    task = tasks.make("squad2")
    with pytest.raises(
        InputError, match=r"^f.json: every question \(2 in all\) has an answer.* train squad1"
    ):
        task.fit([question("1", "cat"), question("2", "sat")])
    assert task.fit([question("1", "cat"), question("2")]).allow_null
    assert not tasks.make("squad1").fit([question("1", "cat")]).allow_null
    unanswered = "the question has no answer; squad2 learns when there is none"
    for kind, problem in (("squad1", unanswered), ("squad2", None), ("span", None)):
        assert tasks.make(kind).problem(question("2")) == problem
    assert not tasks.make("span").fit([question("1", "cat")]).allow_null
    assert tasks.make("span").fit([question("1", "cat"), question("2")]).allow_null


def test_answers_of_users_may_be_as_long_as_in_training(tokens):
    """Those of SQuAD have the limit of the reference, and longer ones are counted."""
    context = " ".join(["the cat sat"] * 20)
    examples = [question("1", "cat", context=context), question("2", context, context=context)]
    kept = {}
    for kind in ("span", "squad1"):
        task = dataclasses.replace(tasks.make(kind), max_seq_length=80).fit(examples)
        features = task.features(examples, tokens)
        kept[kind] = task.fit_features(features).max_answer, features.counts
    assert kept["span"][0] == 60 and kept["squad1"][0] == 30
    unanswerable = "answers of more than 30 tokens, which are never given"
    assert unanswerable not in kept["span"][1] and kept["squad1"][1][unanswerable] == 1
    assert tasks.make("span").fit_features(features).max_answer == 60


def test_what_is_cut_of_questions_and_answers_is_counted(tokens):
    context = " ".join(["the cat sat"] * 20)
    examples = [
        question("1", "cat", context=context),
        question("2", context, context=context),
        dataclasses.replace(question("3", context=context), question="who? " * 70),
    ]
    task = dataclasses.replace(tasks.make("span"), max_seq_length=40).fit(examples)
    counts = task.features(examples, tokens).counts
    assert counts["long questions, cut"] == 1 and counts["answers that are in no window"] == 1


def test_scores_of_any_scale_are_written_with_their_digits():
    examples = texts("0.0001", "0.0003")
    files = {
        kind: dataclasses.replace(tasks.make(kind), pair=False).files(
            examples, [0.00012, 0.00031], "dev"
        )
        for kind in ("stsb", "regression")
    }
    assert "0.00012\t" in files["regression"]["predictions.dev.tsv"]
    assert "0.000\t" in files["stsb"]["predictions.dev.tsv"]


@pytest.mark.parametrize("kind", ["stsb", "regression"])
@pytest.mark.parametrize("score", ["", "high", "nan"])
def test_scores_that_are_no_numbers_are_named(kind, score):
    task = dataclasses.replace(tasks.make(kind), pair=False)
    for read in (task.fit, task.check):
        with pytest.raises(InputError, match=rf"train.tsv: line 2: the score {score!r} is not a n"):
            read(texts("1.5", score))
    task.check(texts(None, "2"))


def test_labels_that_look_like_numbers_are_ordered():
    labels = ["b", "10", "--1", "9", "-2", "-", "09", "1-"]
    assert tasks.make("classification").fit(texts(*labels)).labels == (
        "-2", "09", "9", "10", "-", "--1", "1-", "b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("gs://b/train.tsv: line 2", "gs://b/train.tsv"),
        ("a: b/train.tsv: line 2", "a: b/train.tsv"),
        ("f.json: article 'x: y', paragraph 1, question 2", "f.json"),
    ],
)
def test_the_file_of_a_place(place, path):
    assert reports.file_of(place) == path


def test_errors_about_files_name_their_whole_paths():
    words = WordsExample("0", "gs://b/train.txt: line 1", ("a", "b"), ("O", "O"))
    for kind, examples in (
        ("classification", texts("a", "a")),
        ("regression", texts("1", "1")),
        ("tagging", [words]),
    ):
        with pytest.raises(InputError, match=r"^gs://b/train.t[sx][vt]: (all|every) .*; "):
            tasks.make(kind).fit(examples)


def test_cells_stay_in_their_columns():
    choices = [ChoiceExample('a,"b"', "x", "c", ("d", "e")), ChoiceExample("1", "x", "c", ("d",))]
    guesses = [ChoicePrediction(0, np.array([0.6, 0.4])), ChoicePrediction(0, np.array([1.0]))]
    text = tasks.make("choice").files(choices, guesses, "dev")["predictions.dev.csv"]
    assert list(csv.reader(io.StringIO(text))) == [
        ["id", "pred", "probability", "context", "chosen"],
        ['a,"b"', "0", "0.600000", "c", "d"],
        ["1", "0", "1.000000", "c", "d"],
    ]
    assert text.endswith("\n1,0,1.000000,c,d\n")

    example = dataclasses.replace(texts(None)[0], key="a\tb\nc")
    task = dataclasses.replace(tasks.make("classification"), labels=("no\tway", "a b"))
    guess = ClassPrediction("no\tway", np.array([0.75, 0.25]))
    text = task.files([example], [guess], "dev")["predictions.dev.tsv"]
    head, row = text.splitlines()
    assert head == "id\tlabel\tp(no way)\tp(a b)\ttext"
    assert row == f"a b c\tno way\t0.750000\t0.250000\t{example.text_a}"
    text = tasks.make("regression").files([example], [2.0], "dev")["predictions.dev.tsv"]
    assert text == f"id\tscore\ttext\na b c\t2\t{example.text_a}\n"

    sentence = WordsExample("0", "x", ("New York", "1\u00a0000", ""), ("B PER", "O", "O"))
    tags = TagsPrediction(("B PER", "O", "O"), np.ones(3))
    text = tasks.make("tagging").files([sentence, sentence], [tags, tags], "dev")
    lines = "New_York B_PER B_PER\n1_000 O O\n_ O O\n\n"
    assert text["predictions.dev.txt"] == lines * 2
    first, _ = text["predictions.dev.jsonl"].splitlines()
    assert json.loads(first) == {
        "id": "0",
        "words": ["New York", "1\u00a0000", ""],
        "tags": ["B PER", "O", "O"],
        "true_tags": ["B PER", "O", "O"],
        "text": "New York 1\u00a0000 ",
        "entities": [
            {"type": "B PER", "start": 0, "end": 8, "probability": 1.0, "text": "New York"}
        ],
    }


def test_the_surest_mistakes_stand_first():
    def prediction(text, other):
        candidates = (Candidate(text, 2.0, 2.0, 0, 3), Candidate("who", other, other, 4, 7))
        return SpanPrediction(candidates, null_score=-50 * other)

    examples = [question(key, "sat") for key in "12345"]
    guesses = [prediction("the cat", other) for other in (1.9, -9.0, 0.5)]
    guesses += [prediction("cat sat", -9.0), prediction("sat", 1.9)]
    task = tasks.make("squad1")
    found = task.mistakes([dataclasses.replace(e, place=e.key) for e in examples], guesses, 9)
    assert [line.split(":")[0] for line in found] == ["2", "3", "1", "4"]  # "sat" is right in 4
    assert found[0].split("\n")[1:] == ["    answered (100% sure): the cat", "    right: sat"]


def test_a_wrong_tag_is_shown_among_its_neighbours():
    words = tuple(f"w{number}" for number in range(40))
    example = WordsExample("1", "p", words, ("O",) * 40)
    guess = TagsPrediction(("A", *("O",) * 38, "A"), np.full(40, 0.5))
    first, last = tasks.make("ner").errors(example, guess)
    assert first[1].split("\n    ")[1].startswith("[w0] w1 w2 ")
    assert last[1].split("\n    ")[1].endswith(" w37 w38 [w39]")


def test_an_exact_answer_is_no_mistake():
    prediction = SpanPrediction((Candidate("A", 2.0, 2.0, 0, 1),), null_score=0.0)
    assert not tasks.make("squad1").mistakes([question("1", "A")], [prediction], 9)


def test_labels_that_only_some_examples_have_serve_for_none(tokens):
    labelled = {
        "classification": texts("a", None),
        "regression": texts("1", None),
        "tagging": [WordsExample("0", "x", ("cat",), t) for t in (("a",), None)],
        "choice": [ChoiceExample("0", "x", "the", ("cat", "sat"), label) for label in (1, None)],
        "span": [question("0", "cat"), dataclasses.replace(question("1"), answers=None)] * 200,
    }
    for kind, examples in labelled.items():
        task = dataclasses.replace(tasks.make(kind), labels=("a", "b"))
        assert "labels" in task.features(examples[:1], tokens)
        assert "labels" not in task.features(examples, tokens)
