"""Tasks to fine-tune for: one folder for each shape."""

from bert_tf.tasks.base import JOINT, Task, TaskEntry
from bert_tf.tasks.registry import (
    KINDS,
    SPECIAL_OPTIONS,
    Options,
    alike,
    check_entry,
    load,
    make,
    of_kind,
    suits,
)

__all__ = [
    "JOINT",
    "KINDS",
    "SPECIAL_OPTIONS",
    "Options",
    "Task",
    "TaskEntry",
    "alike",
    "check_entry",
    "load",
    "make",
    "of_kind",
    "suits",
]
