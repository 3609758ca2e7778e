"""Kinds of span prediction: SQuAD, and the user's own files."""

from collections.abc import Callable
from typing import Any

from bert_tf.tasks.base import Task, TaskFiles
from bert_tf.tasks.span.task import Spans
from bert_tf.tasks.table_files import own_files
from pipelines.labelled import squad, user_files
from pipelines.labelled.columns import ColumnNames


def _spans(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    if squad.is_squad(path):
        return squad.read(path)
    return user_files.read_spans(path, names, labelled)


def _squad(version: int, allow_null: bool) -> Callable[[str, str], Task]:
    # Files of other names count too, but none of the other version: none with "-v".
    endings = (f"-v{version}*.json", ".json", "[!-]*.json", "-[!v]*.json")
    source = TaskFiles(
        {
            split: tuple(f"{split}{ending}" for ending in endings)
            for split in ("train", "dev", "test")
        },
        lambda path, split, labelled, names, skipped: squad.read(path),
        named_columns=False,
    )
    return lambda name, kind: Spans(name, kind, source, max_length=384, allow_null=allow_null)


KINDS: dict[str, Callable[[str, str], Task]] = {
    "squad1": _squad(1, allow_null=False),
    "squad2": _squad(2, allow_null=True),
    "span": lambda name, kind: Spans(name, kind, own_files(_spans), max_length=384),
}
