"""Question answering: the span of a context that answers a question."""

from bert_tf.tasks.shape import TaskShape, TransformersHead

SHAPE = TaskShape(
    "span",
    ("squad1", "squad2", "span"),
    f"{__name__}.task",
    TransformersHead("QuestionAnswering", "qa_outputs"),
)
