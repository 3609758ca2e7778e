"""Every shape of task keeps to the contract of tasks."""

import dataclasses

import pytest

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from bert_tf.models.head_config import HeadConfig
from pipelines.labelled.schema import (
    AnswerSpan,
    ChoiceExample,
    EmbeddingExample,
    GenerationExample,
    MultiLabelExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from tests import tokenizers
from tests.bert_tf.labelled_data import CONFIG, TOKENS
from tests.bert_tf.tasks.contract import TaskCase, run_task_test

_TEXTS = ["good film", "a very bad story with music ?", "the light is fine", "sad and poor", "?"]
_CONTEXT = "the film is a very good story with music and a sad light ?"


def _without(examples, **unknown):
    return [dataclasses.replace(example, **unknown) for example in examples[:3]]


def _of_texts(kind, labels, pair=False, **changes):
    examples = [
        TextExample(f"key{i}", f"x.tsv: line {i}", text, _TEXTS[-i - 1] if pair else None, label)
        for i, (text, label) in enumerate(zip(_TEXTS, labels, strict=True))
    ]
    return TaskCase(kind, examples, _without(examples, label=None), changes)


def _of_labels(pair=False, only=None, **changes):
    labels = [("good",), (), ("bad", "sad"), ("sad",), ("good", "sad")]
    labels = [tuple(name for name in names if only in (None, name)) for names in labels]
    examples = [
        MultiLabelExample(f"key{i}", f"x.tsv: line {i}", text, "a ?" if pair else None, found)
        for i, (text, found) in enumerate(zip(_TEXTS, labels, strict=True))
    ]
    return TaskCase("multilabel", examples, _without(examples, labels=None), changes)


def _of_words(kind, tags, **changes):
    examples = [
        WordsExample(f"key{i}", f"x.txt: line {i}", tuple(text.split()), tuple(tags)[: len(words)])
        for i, (text, words) in enumerate((text, text.split()) for text in _TEXTS)
    ]
    return TaskCase(kind, examples, _without(examples, tags=None), changes)


def _of_questions(kind, null=False):
    answers = [("good", 19), ("music", 34), ("sad light", 46), ("film", 4)]
    examples = [
        SpanExample(f"key{i}", f"x.json: article {i}", "who ?", _CONTEXT, (AnswerSpan(*answer),))
        for i, answer in enumerate(answers)
    ]
    if null:
        examples[1] = dataclasses.replace(examples[1], answers=())
    return TaskCase(kind, examples, _without(examples, answers=None), {"stride": 5})


def _of_embeddings(texts, labels, **changes):
    examples = [
        EmbeddingExample(f"key{i}", f"x.tsv: line {i}", (_TEXTS * 2)[i : i + texts], label)
        for i, label in enumerate(labels)
    ]
    examples = [dataclasses.replace(e, texts=tuple(e.texts)) for e in examples]
    return TaskCase("embedding", examples, _without(examples, label=None), changes)


def _of_choices(kind, **changes):
    examples = [
        ChoiceExample(f"key{i}", f"x.csv: line {i}", text, tuple(_TEXTS[: 2 + i % 3]), i % 2, "so")
        for i, text in enumerate(_TEXTS)
    ]
    return TaskCase(kind, examples, _without(examples, label=None), changes)


def _of_generation():
    examples = [
        GenerationExample(f"key{i}", f"x.tsv: line {i}", text, " ".join(text.split()[::-1]))
        for i, text in enumerate(_TEXTS)
    ]
    config = BertConfig.named(
        "bart-debug", vocab_size=CONFIG.vocab_size, hidden_size=32, intermediate_size=64,
        num_attention_heads=4, max_position_embeddings=CONFIG.max_position_embeddings,
    )  # fmt: skip
    changes = {"max_target_length": 12}
    unlabelled = _without(examples, target=None)
    return TaskCase("generation", examples, unlabelled, changes, config)


CASES = [
    _of_texts("classification", ["yes", "no", "yes", "maybe", "no"]),
    _of_texts("mrpc", ["0", "1", "0", "1", "1"], pair=True, balanced=True),
    _of_texts("classification", ["yes", "no", "yes", "maybe", "no"], max_seq_length=9, windows=3),
    _of_texts("regression", ["0.5", "1", "2", "2.5", "3"], max_seq_length=9, windows=2),
    _of_texts("classification", ["yes", "no", "yes", "maybe", "no"], max_seq_length=9, keep="both"),
    _of_labels(),
    _of_labels(pair=True, balanced=True, thresholds=(0.4, 0.5, 0.6)),
    _of_labels(only="good", max_seq_length=9, windows=2),
    _of_texts("regression", ["0.5", "1", "2", "2.5", "3"]),
    _of_texts(
        "regression", ["0.5 1", "1 3", "2 0", "2.5 1", "3 -1"], columns=(("label", "joy+anger"),)
    ),
    _of_texts("stsb", ["0.5", "1", "2", "2.5", "5"], pair=True),
    _of_texts("pair", ["0", "1", "0", "1", "1"], pair=True, max_seq_length=10, windows=3),
    _of_words("ner", ["B-X", "I-X", "O", "O", "B-Y", "I-Y", "O"]),
    _of_words("ner", ["B-X", "I-X", "O", "O", "B-Y", "I-Y", "O"], head=HeadConfig(crf=True)),
    _of_words("tagging", ["DET", "NOUN", "VERB"] * 3, document_context=True),
    _of_questions("squad1"),
    _of_questions("squad2", null=True),
    _of_choices("choice"),
    _of_choices("choice", max_seq_length=10, windows=3),
    _of_generation(),
    _of_embeddings(2, [""] * 5, dimensions=(16, 8)),
    _of_embeddings(3, [""] * 5),
    _of_embeddings(2, ["0", "0.2", "0.5", "-0.8", "1"]),
    _of_embeddings(1, ["a", "b", "a", "b", "b"]),
    _of_embeddings(1, [""] * 5),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_tasks_keep_to_the_contract(case):
    run_task_test(case, tokenizers.wordpiece(TOKENS), CONFIG)


def test_every_shape_has_a_case():
    assert {tasks.make(case.kind).shape for case in CASES} == set(tasks.shapes())


@pytest.mark.parametrize("kind", tasks.kinds())
def test_every_kind_can_be_described(kind):
    task = dataclasses.replace(tasks.make(kind, "mine"), labels=("a", "b"), max_seq_length=77)
    assert tasks.load(task.describe()) == task
    assert task.source.splits
