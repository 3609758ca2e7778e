"""Tagging: a tag for each word of a text."""

from bert_tf.tasks.shape import TaskShape, TransformersHead

SHAPE = TaskShape(
    "tagging",
    ("ner", "pos", "tagging"),
    f"{__name__}.task",
    TransformersHead("TokenClassification"),
)
