"""Tasks to fine-tune for: one file for each shape."""

from bert_tf.tasks.base import JOINT, Task
from bert_tf.tasks.registry import (
    KINDS,
    SPECIAL_OPTIONS,
    Options,
    alike,
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
    "alike",
    "load",
    "make",
    "of_kind",
    "suits",
]
