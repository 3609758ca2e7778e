"""Embeddings of texts, trained to be near where texts are alike."""

from bert_tf.tasks.shape import TaskShape

SHAPE = TaskShape("embedding", ("embedding",), f"{__name__}.task")
