"""Tasks to fine-tune for: one file for each shape."""

from bert_tf.tasks.base import JOINT, Task
from bert_tf.tasks.catalogue import KINDS, Options, load, make

__all__ = ["JOINT", "KINDS", "Options", "Task", "load", "make"]
