"""Kinds of tagging: named entities, parts of speech, and the user's own files."""

from collections.abc import Callable
from typing import Any

from bert_tf.tasks.base import Task, TaskFiles
from bert_tf.tasks.table_files import own_files
from bert_tf.tasks.tagging.task import Tagging
from pipelines.labelled import conll, text_files
from pipelines.labelled.columns import ColumnNames


def _words(path: str, names: ColumnNames, labelled: bool) -> list[Any]:
    return list(text_files.iterate_words(path, names, labelled))


_NER = TaskFiles(
    {
        "train": ("train.txt", "*train*.conll", "*train*.conllu", "eng.train"),
        "dev": ("valid.txt", "dev.txt", "*dev*.conll", "*dev*.conllu", "eng.testa"),
        "test": ("test.txt", "*test*.conll", "*test*.conllu", "eng.testb"),
    },
    lambda path, split, labelled, names, skipped: _words(path, names, labelled),
)
_TAGGED = own_files(_words, ".conllu", ".conll")

KINDS: dict[str, Callable[[str, str], Task]] = {
    "ner": lambda name, kind: Tagging(name, kind, _NER),
    "pos": lambda name, kind: Tagging(name, kind, _NER, tag_set=conll.UPOS),
    "tagging": lambda name, kind: Tagging(name, kind, _TAGGED),
}
