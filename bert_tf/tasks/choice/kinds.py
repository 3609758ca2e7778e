"""Kinds of multiple choice: SWAG and its like, and the user's own files."""

from collections.abc import Callable
from typing import Any

from bert_tf.tasks.base import Task, TaskFiles
from bert_tf.tasks.choice.task import Choice
from bert_tf.tasks.table_files import ENDINGS, SPLIT_NAMES
from pipelines.labelled import multiple_choice, tables, user_files
from pipelines.labelled.columns import ColumnNames


def _read_choices(
    path: str, split: str, labelled: bool, names: ColumnNames, skipped: list[str]
) -> list[Any]:
    if tables.ending(path) == ".csv" and multiple_choice.is_swag(path):
        return multiple_choice.read_swag(path)
    if tables.ending(path) == ".csv" and not names.chosen and multiple_choice.is_keyed(path):
        names.log_once(
            path,
            "no header; context = column 1, label = the last column, a letter or a "
            "number from 1, choices = those between",
        )
        return multiple_choice.read_keyed(path, skipped)
    return user_files.read_choices(path, names, labelled)


_CHOICES = TaskFiles(
    {
        split: tuple(
            f"{prefix}{name}{end}" for prefix in ("", "*") for name in names for end in ENDINGS
        )
        for split, names in SPLIT_NAMES.items()
    },
    _read_choices,
)


KINDS: dict[str, Callable[[str, str], Task]] = {
    "swag": lambda name, kind: Choice(name, kind, _CHOICES),
    "choice": lambda name, kind: Choice(name, kind, _CHOICES),
}
