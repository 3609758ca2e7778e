"""Generation: a text from a text, such as a summary."""

from bert_tf.tasks.shape import TaskShape

SHAPE = TaskShape("generation", ("generation",), f"{__name__}.task")
