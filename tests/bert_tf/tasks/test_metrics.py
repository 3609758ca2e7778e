"""Metrics and predictions of tasks on cases worked out by hand."""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf import tasks
from bert_tf.tasks.classification import multilabel
from bert_tf.tasks.classification.task import ClassPrediction
from bert_tf.tasks.span import squad_metrics
from bert_tf.tasks.span.task import Candidate, SpanPrediction
from bert_tf.tasks.tagging.task import TagsPrediction
from pipelines.common.errors import InputError
from pipelines.labelled.schema import (
    AnswerSpan,
    ChoiceExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from tests import tokenizers

TOKENS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "##s",
    "sat",
    ".",
    "à",
    "a",
    "who",
]


@pytest.fixture(scope="module")
def tokens():
    return tokenizers.wordpiece(TOKENS)


@pytest.mark.parametrize(
    ("gold", "answer", "exact", "f1"),
    [
        ("The Cat!", "cat", 1, 1),
        ("the black cat", "black cat sat", 0, 0.8),
        ("a b c", "c b", 0, 1),  # "a" is an article
        ("cat", "dog", 0, 0),
        ("", "", 1, 1),
        ("", "cat", 0, 0),
        ("the", "", 1, 1),  # nothing but an article is empty
    ],
)
def test_answers_are_scored_as_by_the_official_script(gold, answer, exact, f1):
    assert squad_metrics.exact(gold, answer) == exact
    assert squad_metrics.f1(gold, answer, allow_null=True) == pytest.approx(f1)


def question(key, answers, context="the cats sat."):
    return SpanExample(
        key, key, "who?", context, tuple(AnswerSpan(a, context.find(a)) for a in answers)
    )


def test_the_best_of_several_answers_counts():
    examples = [question("1", ["cats", "the cats sat"]), question("2", [])]
    scores = squad_metrics.score(examples, {"1": "cats sat", "2": "cats"}, allow_null=True)
    assert scores["exact"] == 0.5  # "the" is an article
    assert scores["answerable_f1"] == 1 and scores["unanswerable_f1"] == 0


@pytest.mark.parametrize(
    ("golds", "answer", "version1", "version2"),
    [
        (["A", "grade A"], "a", (1, 0), (0, 0)),  # exact and F1; "a" is an article
        (["A"], "A", (1, 0), (1, 1)),
        (["A", "the A"], "grade", (0, 0), (0, 0)),
        (["the cats", "cats sat"], "cats sat on", (0, 0.8), (0, 0.8)),
    ],
)
def test_versions_differ_in_answers_that_normalization_makes_empty(
    golds, answer, version1, version2
):
    for allow_null, expected in ((False, version1), (True, version2)):
        scores = squad_metrics.score([question("1", golds)], {"1": answer}, allow_null)
        assert (scores["exact"], scores["f1"]) == (expected[0], pytest.approx(expected[1]))
        assert scores.keys() == {"exact", "f1"}  # an answer that becomes empty is one


def test_what_was_not_answered_counts():
    examples = [question("1", ["cats"]), question("2", ["sat"])]
    for allow_null in (False, True):
        scores = squad_metrics.score(examples, {"1": "cats"}, allow_null)
        assert scores == {"f1": 0.5, "exact": 0.5}


def test_the_task_scores_by_the_rules_of_its_version():
    examples = [question("1", ["the"]), question("2", ["cats"])]
    prediction = SpanPrediction((Candidate("the", 1.0, 2.0, 0, 3),), null_score=0.0)
    scores = [
        tasks.make(kind).metrics(examples, [prediction] * 2)["f1"] for kind in ("squad1", "squad2")
    ]
    assert scores == [0, 0.5]


def test_a_threshold_cannot_part_questions_of_the_same_odds():
    examples = [question("1", ["cats"]), question("2", []), question("3", [])]
    answers = dict.fromkeys("123", "cats")
    assert squad_metrics.best_threshold(examples, answers, dict.fromkeys("123", 0.0)) < 0
    assert squad_metrics.best_threshold(examples, answers, {"1": 0.0, "2": 0.0, "3": 1.0}) < 0
    assert squad_metrics.best_threshold(examples, answers, {"1": 0.0, "2": 1.0, "3": 1.0}) == 0.5


def test_glue_metrics_and_submission():
    task = tasks.make("mrpc")
    examples = [TextExample(str(i), "x", "a", "b", label) for i, label in enumerate("1101")]
    guesses = [ClassPrediction(label, np.array([0.5, 0.5])) for label in "1001"]
    assert task.metrics(examples, guesses) == {"accuracy": 0.75, "f1": pytest.approx(0.8)}
    written = task.files(examples, guesses, "test")
    assert written["MRPC.tsv"] == "index\tprediction\n0\t1\n1\t0\n2\t0\n3\t1\n"
    assert written.keys() == {"MRPC.tsv", "predictions.test.tsv"}
    rte = tasks.make("rte")
    words = [ClassPrediction("not_entailment", np.array([0, 1.0]))]
    assert rte.files(examples[:1], words, "test")["RTE.tsv"].endswith("0\tnot_entailment\n")
    cola = tasks.make("cola")
    assert cola.metrics(examples, guesses)["matthews"] == pytest.approx(1 / np.sqrt(3))
    assert tasks.make("ax").metric_names == ("matthews", "accuracy")
    stsb = tasks.make("stsb")
    scored = [dataclasses.replace(e, label=str(i)) for i, e in enumerate(examples)]
    assert stsb.metrics(scored, [0.0, 1.0, 2.0, 9.0])["spearman"] == pytest.approx(1)


def test_scores_of_a_submission_are_within_bounds():
    stsb = tasks.make("stsb")
    examples = [TextExample("0", "x", "a", "b"), TextExample("1", "x", "a", "b")]
    assert stsb.files(examples, [-1.0, 5.5], "test")["STS-B.tsv"].split("\n")[1:3] == [
        "0\t0.000", "1\t5.000",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("truth", "guess", "types"),
    [
        ("B-X L-X O U-Y B-X I-X L-X", "B-X L-X O O B-X I-X L-X", ["X", "Y"]),  # BILOU
        ("B E S B M E", "B E O B M E", ["_"]),  # BMES
        ("B I O B B I", "B I O O B I", ["_"]),
        ("B-X E-X O S-Y B-X I-X E-X", "B-X E-X O O B-X I-X E-X", ["X", "Y"]),  # IOBES
    ],
)
def test_other_schemes_of_entities_are_counted(truth, guess, types):
    """Two of the three entities are found."""
    truth, guess = tuple(truth.split()), tuple(guess.split())
    task = dataclasses.replace(tasks.make("ner"), labels=tuple(sorted({*truth, "O"})))
    examples = [WordsExample("0", "x", tuple("abcdefgh"[: len(truth)]), truth)]
    found = [TagsPrediction(guess, np.ones(len(guess)))]
    scores = task.metrics(examples, found)
    assert task.main_metric == "f1"
    assert scores["precision"] == 1 and scores["recall"] == pytest.approx(2 / 3)
    assert list(task.by_label(examples, found)) == types


@pytest.mark.parametrize(
    ("truth", "guess", "types"),
    [
        ("PER_B PER_I O LOC_B LOC_I O ORG_B", "PER_B PER_I O LOC_B LOC_I O O", "LOC ORG PER"),
        ("PER-B PER-I O LOC-B LOC-I O ORG-B", "PER-B PER-I O LOC-B LOC-I O O", "LOC ORG PER"),
        ("B_PER I_PER - B_LOC I_LOC - B_ORG", "B_PER I_PER - B_LOC I_LOC - -", "LOC ORG PER"),
        ("PER PER O LOC LOC O PER", "PER PER O LOC LOC O O", "LOC PER"),
        ("PER PER - LOC LOC - LOC", "PER PER - LOC LOC - -", "LOC PER"),
        ("I-PER I-PER B-PER O O O I-LOC", "I-PER I-PER B-PER O O O O", "LOC PER"),  # IOB1
        ("PER PER LOC O O O LOC", "PER PER LOC O O O O", "LOC PER"),
    ],
)
def test_entities_without_hyphens_are_counted_too(truth, guess, types):
    """Two of the three entities are found; six of seven tags are right."""
    truth, guess = tuple(truth.split()), tuple(guess.split())
    examples = [WordsExample("0", "x", tuple("abcdefg"), truth)]
    task = tasks.make("ner").fit(examples)
    found = [TagsPrediction(guess, np.ones(len(guess)))]
    scores = task.metrics(examples, found)
    assert task.main_metric == "f1" and scores["accuracy"] == pytest.approx(6 / 7)
    assert scores["precision"] == 1 and scores["recall"] == pytest.approx(2 / 3)
    assert list(task.by_label(examples, found)) == types.split()


def test_the_reading_of_tags_is_logged(caplog):
    caplog.set_level("INFO", logger="absl")
    for tags, text in (
        (("PER", "O"), "the tags are types of entities: adjacent words of one type are one entity"),
        (("PER_B", "O"), "the tags are parts and types of entities, such as B-PER; scored by f1"),
        (("DET", "NOUN"), "the tags are of single words; scored by accuracy"),
    ):
        tasks.make("tagging").fit([WordsExample("0", "x: line 1", ("a", "b"), tags)])
        assert f"x: {text}" in caplog.text


@pytest.mark.parametrize(
    "labels",
    [("B-X", "NOUN"), ("S", "U"), ("NOUN", "O", "VERB"), ("B_X", "I_X", "NOUN"), ("-", ".")],
)
def test_tags_of_single_words_are_scored_by_accuracy(labels):
    assert dataclasses.replace(tasks.make("ner"), labels=labels).main_metric == "accuracy"


def test_first_pieces_carry_the_tags(tokens):
    task = dataclasses.replace(tasks.make("pos"), labels=("DET", "NOUN", "VERB"))
    words = WordsExample(
        "0", "x", ("the", "cats", "\u200b", "sat"), ("DET", "NOUN", "NOUN", "VERB")
    )
    found = task.features([words], tokens)
    assert found["input_word_ids"].row(0).tolist() == [2, 5, 6, 7, 1, 8, 3]
    batch = task.assemble(found, np.array([0]), 2)
    assert batch["labels"][0, :7].tolist() == [-1, 0, 1, -1, 1, 2, -1]
    assert (batch["labels"][1] == -1).all() and batch["labels"].shape == (2, 16)


def test_document_context_fills_both_sides(tokens):
    task = dataclasses.replace(
        tasks.make("ner"), labels=("A", "B"), max_seq_length=8, document_context=True
    )
    sentences = [
        WordsExample(str(i), "x", (word, word), ("A", "B"), document)
        for i, (word, document) in enumerate([("the", 0), ("cat", 0), ("sat", 0), (".", 1)])
    ]
    found = task.features(sentences, tokens)
    rows = [found["input_word_ids"].row(i).tolist() for i in range(4)]
    assert rows == [
        [2, 5, 5, 6, 6, 8, 8, 3], [2, 5, 5, 6, 6, 8, 8, 3], [2, 5, 5, 6, 6, 8, 8, 3], [2, 9, 9, 3],
    ]  # fmt: skip
    assert [found["firsts"].row(i).tolist() for i in range(4)] == [[1, 2], [3, 4], [5, 6], [1, 2]]


def test_answers_are_found_in_windows_and_back_in_the_context(tokens):
    task = dataclasses.replace(tasks.make("squad1"), max_seq_length=9, stride=2)
    context = "À the cats sat. À the cat"
    example = SpanExample("q", "x", "who", context, (AnswerSpan("cats sat", 6),))
    found = task.features([example], tokens)
    assert len(found) > 1
    for row in range(len(found)):
        start, end = found["labels"].row(row)
        if start:
            assert found["input_word_ids"].row(row)[start : end + 1].tolist() == [6, 7, 8]
        offset = found["offset"].values[row]
        for token, first, last in zip(
            found["input_word_ids"].row(row)[offset:],
            found["starts"].row(row),
            found["ends"].row(row),
            strict=False,
        ):
            text = context.encode()[first:last].decode()
            assert TOKENS[token].replace("##", "") == text.lower().replace("à", "a")
    # Logits that point at the answer in each window give it back, character by character.
    logits = []
    for row in range(len(found)):
        scores = np.zeros((len(found["input_word_ids"].row(row)), 2), "f4")
        start, end = found["labels"].row(row)
        scores[start, 0] += 5
        scores[end, 1] += 5
        logits.append(scores)
    (prediction,) = task.predict([example], found, logits)
    assert task.answer(prediction) == "cats sat"
    best = prediction.candidates[0]
    assert context.encode()[best.start : best.end].decode() == "cats sat"
    assert task.metrics([example], [prediction]) == {"f1": 1.0, "exact": 1.0}


def test_no_answer_is_given_above_the_threshold():
    task = dataclasses.replace(tasks.make("squad2"), null_threshold=0.5)
    prediction = SpanPrediction((Candidate("cats", 1.0, 2.0, 4, 8),), null_score=3.4)
    example = question("1", ["cats"])
    assert task.answer(prediction) == "cats"
    assert dataclasses.replace(task, null_threshold=0.3).answer(prediction) == ""
    files = task.files([example], [prediction], "dev")
    assert files.keys() == {
        "predictions.json",
        "nbest_predictions.json",
        "null_odds.json",
        "predictions.dev.tsv",
    }
    assert json.loads(files["null_odds.json"])["1"] == pytest.approx(0.4)
    rows = json.loads(files["nbest_predictions.json"])["1"]
    assert [row["text"] for row in rows] == ["", "cats"]


def test_an_absent_choice_is_never_chosen(tokens):
    task = tasks.make("choice")
    examples = [
        ChoiceExample("0", "x", "who", ("the cat", "sat"), 0),
        ChoiceExample("1", "x", "who", ("the", "cat", "sat the cats"), 2),
    ]
    found = task.features(examples, tokens)
    batch = task.assemble(found, np.array([0, 1]), 2)
    assert batch["input_word_ids"].shape == (2, 3, 16)
    assert batch["choice_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["input_word_ids"][1, 2, :8].tolist() == [2, 12, 3, 8, 5, 6, 7, 3]
    logits = task.logits(np.array([[1.0], [2.0], [9.0], [1.0], [2.0], [3.0]], "f4"), batch).numpy()
    guesses = task.predict(examples, found, logits)
    assert [guess.choice for guess in guesses] == [1, 2]
    assert [len(guess.probabilities) for guess in guesses] == [2, 3]


def test_options_that_do_not_apply_are_named():
    with pytest.raises(InputError, match="--balanced does not apply to the task squad1"):
        tasks.make("squad1", balanced=True)
    with pytest.raises(InputError, match="the task 'x' is unknown"):
        tasks.make("x")


def test_a_threshold_is_above_the_next_probability():
    """Half of two neighbouring numbers rounds to one of them."""
    below = np.float32(1 - 2**-23)
    probabilities = np.array([np.nextafter(below, np.float32(2)), below, 0.1, 0.1, 0.1], np.float32)
    truth = np.array([1, 0, 0, 0, 0])
    for scores in (probabilities, probabilities - np.float32(0.5)):
        found = multilabel._best_threshold(np.tile(truth, 5), np.tile(scores, 5))
        np.testing.assert_array_equal(scores >= np.float32(found), truth == 1)
