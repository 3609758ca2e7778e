"""Kinds of classification and regression: GLUE, and the user's own files."""

from collections.abc import Callable
from typing import Any

from bert_tf.tasks.base import Task, TaskFiles
from bert_tf.tasks.classification.regression import Regression
from bert_tf.tasks.classification.task import Classification
from bert_tf.tasks.table_files import own_files
from pipelines.labelled import glue, user_files
from pipelines.labelled.columns import ColumnNames


def _glue(kind: str) -> Callable[[str, str], Task]:
    data = glue.SETS[kind]

    def read(
        path: str, split: str, labelled: bool, _: ColumnNames, skipped: list[str]
    ) -> list[Any]:
        return glue.read(kind, path, split, labelled, skipped)

    names = ("train", *data.dev, *data.test) if data.dev else data.test
    patterns = {name: (f"{name}.tsv",) for name in names}
    source = TaskFiles(patterns, read, data.folder, named_columns=False, test_labelled=False)
    submission = tuple(data.submission.items())

    def make_task(name: str, kind: str) -> Task:
        if kind == "stsb":
            return Regression(
                name, kind, source, pair=True, bounds=(0.0, 5.0), submission=submission
            )
        return Classification(
            name,
            kind,
            source,
            pair=data.text_b is not None,
            labels=data.labels,
            metric_names=_GLUE_METRICS.get(kind, ("accuracy",)),
            submission=submission,
            submit_labels=data.words,
        )

    return make_task


_GLUE_METRICS = {
    "ax": ("matthews", "accuracy"),
    "cola": ("matthews", "accuracy"),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
}


def _pairs(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    return user_files.read_texts(path, names, pair=True, labelled=labelled)


def _texts_or_pairs(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    return user_files.read_texts(path, names, pair=None, labelled=labelled)


KINDS: dict[str, Callable[[str, str], Task]] = {
    **{kind: _glue(kind) for kind in glue.SETS},
    "classification": lambda name, kind: Classification(name, kind, own_files(_texts_or_pairs)),
    "pair": lambda name, kind: Classification(name, kind, own_files(_pairs), pair=True),
    "regression": lambda name, kind: Regression(name, kind, own_files(_texts_or_pairs)),
}
