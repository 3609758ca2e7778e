"""Task shapes: what other packages know about a shape before its code is loaded."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task

# Texts by the name of the input that takes them; a list where an input takes several.
Sample = Mapping[str, str | Sequence[str]]


@dataclasses.dataclass(frozen=True)
class TransformersHead:
    """The head of a shape in Hugging Face transformers.

    Attributes:
      name: what follows "For" in the name of its model classes, such as "MultipleChoice".
      layer: name of its output layer.
      labels: whether id2label in config.json names the units of the head.
    """

    name: str
    layer: str = "classifier"
    labels: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class TaskShape:
    """A shape of task: its head, loss, metrics, files and signatures, shared by several kinds.

    Attributes:
      name: name of the shape in descriptions of tasks, such as "choice".
      kinds: names of the kinds of task that have this shape, such as "swag".
      load: returns an untrained task of each kind. It is called when the first one is needed, so
        that listing the kinds does not start TensorFlow.
      transformers: its head in Hugging Face transformers; None if they have none.
      outputs: what the outputs of its signatures are, by name, for the model card.
      samples: texts that the demo page starts with, by kind; those of the other kinds are under
        the name of the shape.
      meanings: names of the labels "0" and "1", by kind, for the demo page.
      package: package whose demo.js shows the answers on the demo page, in
        `SHAPES.<name of the shape>`; None: the page lists the outputs.
    """

    name: str
    kinds: tuple[str, ...]
    load: Callable[[], Sequence["Task[Any, Any]"]]
    transformers: TransformersHead | None = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    samples: Mapping[str, Sample] = dataclasses.field(default_factory=dict)
    meanings: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    package: str | None = None

    @property
    def default_kind(self) -> str:
        """The kind of a task of which only the shape is known."""
        return self.name if self.name in self.kinds else self.kinds[0]

    @property
    def per_token(self) -> bool:
        """Whether its head has logits for every token."""
        return self.load()[0].per_token

    def sample(self, kind: str) -> Sample:
        """The sample of a kind; it may have more inputs than the task takes."""
        return self.samples.get(kind, self.samples.get(self.name, {}))
