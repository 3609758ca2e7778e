"""Tagging: a tag for each word of a text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_tf.tasks.shape import TaskShape, TransformersHead

if TYPE_CHECKING:
    from bert_tf.tasks.tagging.task import Tagging


def _load() -> Sequence["Tagging"]:
    from bert_tf.tasks.tagging.task import TASKS

    return TASKS


_NEWS = "Ada Lovelace met Charles Babbage in London in 1833, and wrote about his engine."
_SEA = "The old captain quickly told us three strange stories about the sea."

SHAPE = TaskShape(
    "tagging",
    ("ner", "pos", "tagging"),
    _load,
    TransformersHead("TokenClassification"),
    outputs={
        "tokens": "the words",
        "tags": "the most probable tag of each word (of `_ids`, of each token)",
        "probabilities": "of the tags",
        "starts": "where each word starts, in bytes",
        "ends": "where each word ends, in bytes",
        "start_characters": "`starts` in characters",
        "end_characters": "`ends` in characters",
        "logits": "what the probabilities are the softmax of",
    },
    samples={
        "tagging": {"text": _NEWS, "words": _NEWS},
        "pos": {"text": _SEA, "words": _SEA},
    },
    package=__name__,
)
