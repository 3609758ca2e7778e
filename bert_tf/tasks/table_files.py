"""Where the user's own files of a task are, whatever its shape."""

from collections.abc import Callable
from typing import Any

from bert_tf.tasks.base import TaskFiles
from pipelines.labelled.columns import ColumnNames

ENDINGS = (".jsonl", ".csv", ".tsv", ".json", ".txt")
SPLIT_NAMES = {
    "train": ("train",),
    "dev": ("dev", "valid", "validation", "val"),
    "test": ("test",),
}


def own_files(read: Callable[[str, ColumnNames, bool], list[Any]], *more: str) -> TaskFiles:
    """Of the user's own files: train.*, dev.* and test.* with one of the known endings."""

    def read_split(
        path: str, split: str, labelled: bool, names: ColumnNames, _: list[str]
    ) -> list[Any]:
        return read(path, names, labelled)

    return TaskFiles(_patterns((*more, *ENDINGS)), read_split)


def _patterns(endings: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {
        split: tuple(f"{name}{ending}" for name in names for ending in endings)
        for split, names in SPLIT_NAMES.items()
    }
