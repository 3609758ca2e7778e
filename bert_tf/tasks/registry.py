"""Task shapes and their kinds: those of this package, and those that other packages register."""

import dataclasses
import functools
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from bert_tf.tasks import choice, classification, embedding, generation, span, tagging
from bert_tf.tasks.shape import TaskShape
from pipelines.common.errors import InputError

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task, TaskEntry

# Separates the names of jointly trained tasks in the name of their folder.
JOINT = "+"
# Packages whose entry points in this group are `TaskShape`s are registered on first use.
ENTRY_POINTS = "bert_tf.tasks"
_SHAPES: dict[str, TaskShape] = {}


def register(shape: TaskShape) -> None:
    """Makes a shape known, so that its kinds can be trained, predicted, exported and served.

    Raises:
      ValueError: a shape of its name, or one of its kinds, is registered already.
    """
    known = {kind for other in _SHAPES.values() for kind in other.kinds}
    taken = known.intersection(shape.kinds) | {shape.name} & _SHAPES.keys()
    if taken:
        raise ValueError(f"{', '.join(sorted(taken))}: registered by another task shape")
    _SHAPES[shape.name] = shape


# A new shape of this package is a folder and its name here.
for _shape in (
    *(*classification.SHAPES, span.SHAPE, tagging.SHAPE, choice.SHAPE),
    *(generation.SHAPE, embedding.SHAPE),
):
    register(_shape)


@functools.cache
def _register_installed() -> None:
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        register(entry.load())


def shapes() -> Mapping[str, TaskShape]:
    """All shapes by name."""
    _register_installed()
    return _SHAPES


def kinds() -> tuple[str, ...]:
    """The names of all kinds of task, such as "mrpc"; nothing is loaded."""
    return tuple(kind for shape in shapes().values() for kind in shape.kinds)


def _of_kind(kind: str) -> "Task":
    for shape in shapes().values():
        if kind in shape.kinds:
            return shape.tasks[kind]
    raise InputError(f"the task {kind!r} is unknown; there are {', '.join(kinds())}.")


def make(kind: str, name: str | None = None, **options: Any) -> "Task":
    """Makes an untrained task.

    Args:
      kind: one of `kinds()`.
      name: name of the task; None: that of its kind.
      **options: fields of the task that the user may set, such as max_seq_length. None and False
        leave the default.

    Raises:
      InputError: the kind is unknown, or lacks one of the options.
    """
    task = _of_kind(kind)
    changes = {field: value for field, value in options.items() if value not in (None, False)}
    for field in changes:
        if not hasattr(task, field):
            raise InputError(f"--{field} does not apply to the task {kind}.")
    task = dataclasses.replace(task, name=name or kind, **changes)
    task.head.check_task(task.per_token, task.name)
    if not task.own_head and not task.head.is_plain:
        raise InputError(f"{task.name}: its head has no weights, and no layers or BiLSTM.")
    if task.head.crf and not task.has_chain:
        raise InputError(f"--crf does not apply to the task {kind}; it is for tags of words.")
    return task


def has_option(kind: str, option: str) -> bool:
    """Whether tasks of a kind have an option of `make`."""
    return hasattr(_of_kind(kind), option)


def load(description: Mapping[str, Any], longest: int | None = None) -> "Task":
    """Makes the trained task that `Task.describe` described.

    Args:
      description: the description. Without a kind, as other programs write it, the name decides
        (such as "mrpc") if it is a kind of the same shape, else the shape does.
      longest: maximum sequence length of the model.

    Raises:
      InputError: its kind is unknown.
    """
    if "kind" not in description:
        name, shape = description["name"], shapes()[description["shape"]]
        kind = name if name in shape.kinds else shape.default_kind
        description = _with_kind(description, make(kind))
    task = make(description["kind"], description["name"])
    length = description.get("max_seq_length", task.max_seq_length)
    return task.restore({**description, "max_seq_length": min(length, longest or length)})


def check_entry(entry: "TaskEntry", place: str) -> None:
    """Checks the description of a task in a file.

    Raises:
      InputError: its shape or kind is unknown, a value has a wrong type, or two labels have the
        same name.
    """
    from pipelines.common import json_files  # starts TensorFlow

    name, shape = entry["name"], shapes().get(entry["shape"])
    if shape is None:
        raise InputError(
            f"{place}: the task {name} is {entry['shape']!r}; known shapes are "
            f"{', '.join(shapes())}."
        )
    kind = entry.get("kind", shape.default_kind)
    if kind not in shape.kinds:
        raise InputError(
            f"{place}: the task {name} is of the kind {kind!r}; of {entry['shape']} there are "
            f"{', '.join(shape.kinds)}."
        )
    json_files.check(entry, type(make(shape.default_kind)).entry(), f"{place}: {name}")
    if len(set(entry["labels"])) < len(entry["labels"]):
        raise InputError(f"{place}: two labels of {name} have one name.")


def of_kind(description: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The description of a task, with the kind that those of other programs lack.

    Raises:
      InputError: it has another kind, or another shape or other labels.
    """
    described = _with_kind(description, make(kind))
    if described["kind"] != kind:
        raise InputError(f"the task {described['name']} is {described['kind']}, not {kind}.")
    alike(kind, described)
    return described


def alike(kind: str, description: Mapping[str, Any]) -> "Task":
    """The untrained task of a kind, which must have the shape and labels of a description.

    Raises:
      InputError: it has others.
    """
    task = make(kind)
    shape, labels = description["shape"], description["labels"]
    if task.shape != shape or (task.labels and set(task.labels) != set(labels)):
        raise InputError(
            f"the task {description['name']} is {shape} with the labels "
            f"{', '.join(labels) or 'none'}; {kind} is {task.shape} with "
            f"{', '.join(task.labels) or 'any'}."
        )
    return task


def _with_kind(description: Mapping[str, Any], task: "Task") -> dict[str, Any]:
    """A description with the kind of a task, if it has none.

    Labels without names (numbers, or LABEL_0, ... of transformers) get the names of the kind:
    numbers are in the order of google-research/bert, as ours are. So is LABEL_0 except for MNLI,
    where programs differ.
    """
    if "kind" in description:
        return dict(description)
    labels, known = list(description["labels"]), list(task.labels)
    numbers = [str(index) for index in range(len(known))]
    unnamed = [f"LABEL_{number}" for number in numbers]
    if labels == numbers or (labels == unnamed and len(known) == 2):
        labels = known
    unknown = task.unknown_elsewhere if task.kind == task.shape else {}
    return {"kind": task.kind, **unknown, **description, "labels": labels}
