"""Task shapes: what other packages know about a shape before its code is loaded."""

import dataclasses
import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task

# Texts by the name of the input that takes them; a list where an input takes several.
Sample = Mapping[str, str | Sequence[str]]


@dataclasses.dataclass(frozen=True)
class TransformersHead:
    """The head of a shape in Hugging Face transformers.

    Attributes:
      name: what follows "For" in the names of its classes, such as "MultipleChoice".
      layer: name of its output layer.
      labels: whether id2label in config.json names the units of the head.
    """

    name: str
    layer: str = "classifier"
    labels: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class TaskShape:
    """A shape of task: head, loss, metrics, files and signatures that several kinds share.

    Attributes:
      name: name of the shape in descriptions of tasks, such as "choice".
      kinds: names of the kinds of task that have this shape, such as "swag".
      module: name of the module whose `TASKS` has an untrained task of each kind. It is imported
        when the first one is needed, so that listing the kinds does not start TensorFlow. Its
        package may have two more files: demo.js, which adds `SHAPES.<name>` to the demo page, and
        texts.json, see `texts`.
      transformers: its head in Hugging Face transformers; None if they have none.
    """

    name: str
    kinds: tuple[str, ...]
    module: str
    transformers: TransformersHead | None = None

    @property
    def default_kind(self) -> str:
        """The kind of a task of which only the shape is known."""
        return self.name if self.name in self.kinds else self.kinds[0]

    @functools.cached_property
    def tasks(self) -> Mapping[str, "Task"]:
        """An untrained task of each kind."""
        found = {task.kind: task for task in importlib.import_module(self.module).TASKS}
        if not found.keys() >= set(self.kinds):
            raise ValueError(f"{self.module}: lacks a task of {set(self.kinds) - found.keys()}")
        return found

    @property
    def package(self) -> str:
        """The package of its module."""
        return self.module.rpartition(".")[0]

    def has_file(self, name: str) -> bool:
        """Whether its package has a file."""
        return bool(self.package) and resources.files(self.package).joinpath(name).is_file()

    @functools.cached_property
    def texts(self) -> Mapping[str, Any]:
        """The content of texts.json; every key is optional.

        `outputs` describes the outputs of signatures by name, for the model card. For the demo
        page, `samples` has inputs to start with, by kind or under the name of the shape; and
        `meanings` names for the labels "0" and "1", by kind.
        """
        if not self.has_file("texts.json"):
            return {}
        return json.loads(resources.files(self.package).joinpath("texts.json").read_text("utf-8"))
