"""Tasks to fine-tune for: one folder for each shape."""

from typing import TYPE_CHECKING, Any

from bert_tf.tasks.registry import (
    JOINT,
    alike,
    check_entry,
    has_option,
    kinds,
    load,
    make,
    of_kind,
    register,
    shapes,
)
from bert_tf.tasks.shape import TaskShape

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task, TaskEntry

__all__ = [
    "JOINT",
    "Task",
    "TaskEntry",
    "TaskShape",
    "alike",
    "check_entry",
    "has_option",
    "kinds",
    "load",
    "make",
    "of_kind",
    "register",
    "shapes",
]


def __getattr__(name: str) -> Any:
    """Loads `Task` and `TaskEntry` on first use, as they start TensorFlow."""
    if name not in ("Task", "TaskEntry"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bert_tf.tasks import base

    return getattr(base, name)
