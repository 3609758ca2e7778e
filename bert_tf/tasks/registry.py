"""The tasks that can be named: those of the paper, and the user's own by shape."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.models.head_config import HeadConfig
from bert_tf.tasks.base import Task, TaskEntry
from bert_tf.tasks.choice import kinds as choice
from bert_tf.tasks.classification import kinds as classification
from bert_tf.tasks.span import kinds as span
from bert_tf.tasks.tagging import kinds as tagging
from pipelines.common import json_files
from pipelines.common.errors import InputError

# One line for each folder of a shape; each kind takes the name of a task and that of the kind.
KINDS: dict[str, Callable[[str, str], Task]] = {
    **classification.KINDS,
    **span.KINDS,
    **tagging.KINDS,
    **choice.KINDS,
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user may choose of a task; None: the task's own."""

    max_length: int | None = None
    balanced: bool = False  # weigh labels by the inverse of their frequency
    document_context: bool = False  # for tagging
    fixed_length: bool = False  # pad every batch to max_length
    head: HeadConfig = HeadConfig()


# Those that some kinds of tasks have only.
SPECIAL_OPTIONS = ("balanced", "document_context")


def make(kind: str, name: str | None = None, options: Options | None = None) -> Task:
    """Makes an untrained task.

    Args:
      kind: a key of KINDS.
      name: of the task; None: as its kind.
      options: see there.

    Raises:
      InputError: the kind is unknown, or an option does not suit it.
    """
    if kind not in KINDS:
        raise InputError(f"the task {kind!r} is unknown; there are {', '.join(KINDS)}.")
    options = options or Options()
    task = KINDS[kind](name or kind, kind)
    options.head.check_task(task.per_token, task.name)
    changes: dict[str, Any] = {"fixed_length": options.fixed_length, "head": options.head}
    if options.max_length:
        changes["max_length"] = options.max_length
    for field in SPECIAL_OPTIONS:
        if not getattr(options, field):
            continue
        if not suits(kind, field):
            raise InputError(f"--{field} does not apply to the task {kind}.")
        changes[field] = True
    return dataclasses.replace(task, **changes)


def suits(kind: str, option: str) -> bool:
    """Whether tasks of a kind have an option, by its name in `Options`."""
    return kind in KINDS and hasattr(KINDS[kind](kind, kind), option)


def load(description: Mapping[str, Any], longest: int | None = None) -> Task:
    """Makes the trained task that `Task.describe` described.

    Args:
      description: where it has no kind, because another program trained it, the
        name decides (such as "mrpc") if it is of the same shape, else the shape.
      longest: the longest sequence that the model takes.

    Raises:
      InputError: its kind is unknown.
    """
    if "kind" not in description:
        name, shape = description["name"], description["shape"]
        known = name in KINDS and make(name).shape == shape
        description = _with_kind(description, make(name if known else shape))
    task = make(description["kind"], description["name"])
    length = description.get("max_length", task.max_length)
    return task.restore({**description, "max_length": min(length, longest or length)})


def check_entry(entry: TaskEntry, place: str) -> None:
    """Checks the description of a task that a file holds.

    Raises:
      InputError: its shape or kind is unknown, a value is not of its type, or two labels have
        one name.
    """
    shapes = {task.shape: task for task in (make(kind) for kind in KINDS)}
    if entry["shape"] not in shapes:
        raise InputError(
            f"{place}: the task {entry['name']} is {entry['shape']!r}; known shapes are "
            f"{', '.join(shapes)}."
        )
    kind = entry.get("kind")
    if kind is not None and kind not in KINDS:
        raise InputError(
            f"{place}: the task {entry['name']} is of the kind {kind!r}; there are "
            f"{', '.join(KINDS)}."
        )
    json_files.check(entry, type(shapes[entry["shape"]]).entry(), f"{place}: {entry['name']}")
    if len(set(entry["labels"])) < len(entry["labels"]):
        raise InputError(f"{place}: two labels of {entry['name']} have one name.")


def of_kind(description: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The description of a task, with a kind where it has none because another program trained it.

    Raises:
      InputError: it has another kind, or another shape or other labels.
    """
    described = _with_kind(description, make(kind))
    if described["kind"] != kind:
        raise InputError(f"the task {described['name']} is {described['kind']}, not {kind}.")
    alike(kind, described)
    return described


def alike(kind: str, description: Mapping[str, Any]) -> Task:
    """The untrained task of a kind, of the same shape and labels as a described one.

    Raises:
      InputError: it is not.
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


def _with_kind(description: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """A description with the kind of a task, if it has none.

    Labels without names, numbers or transformers' LABEL_0, ..., get those of the
    kind: numbers are in the order of google-research/bert, as ours are; LABEL_0
    too, but for MNLI, where programs differ. Tasks of the user's own may be of
    single texts or of pairs; only files tell.
    """
    if "kind" in description:
        return dict(description)
    labels, known = list(description["labels"]), list(task.labels)
    numbers = [str(index) for index in range(len(known))]
    unnamed = [f"LABEL_{number}" for number in numbers]
    if labels == numbers or (labels == unnamed and len(known) == 2):
        labels = known
    open_pair = {"pair": None} if task.kind == task.shape else {}
    return {"kind": task.kind, **open_pair, **description, "labels": labels}
