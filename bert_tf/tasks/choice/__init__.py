"""Multiple choice: the best of several continuations of a text."""

from bert_tf.tasks.shape import TaskShape, TransformersHead

SHAPE = TaskShape(
    "choice",
    ("swag", "choice"),
    f"{__name__}.task",
    TransformersHead("MultipleChoice", labels=False),
)
