"""Labelled examples as they are in files, before tokenization."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol


@dataclasses.dataclass(frozen=True)
class Example:
    """What examples of every shape have.

    Attributes:
      TEXTS: the fields that have text: a string, a sequence of strings, or None.
      LABEL: the field of the label, which is None if it is to be predicted.
      key: what the file calls it.
      place: the file and the line or record, for errors and reports.
    """

    TEXTS: ClassVar[tuple[str, ...]]
    LABEL: ClassVar[str] = "label"

    key: str
    place: str

    @property
    def truth(self) -> Any:
        """The label of an example that has one."""
        found = label_of(self)
        assert found is not None, self.place
        return found


@dataclasses.dataclass(frozen=True)
class TextExample(Example):
    """A text or a pair of texts, with its label or score."""

    TEXTS = ("text_a", "text_b")

    text_a: str
    text_b: str | None = None
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class MultiLabelExample(Example):
    """A text or a pair of texts, with any number of labels."""

    TEXTS = ("text_a", "text_b")
    LABEL = "labels"

    text_a: str
    text_b: str | None = None
    labels: tuple[str, ...] | None = None

    @property
    def truth(self) -> str:
        """The labels of an example that has them, separated by commas."""
        return ", ".join(super().truth)


@dataclasses.dataclass(frozen=True)
class EmbeddingExample(Example):
    """One text, a pair, or a text with one that is alike and others that are not.

    The label is the similarity of a pair, the class of a text, "" if there is neither, and None if
    it is to be predicted.
    """

    TEXTS = ("texts",)

    texts: tuple[str, ...]
    label: str | None = ""


class AnswerSpan(NamedTuple):
    """An answer, and the character of the context at which it starts."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SpanExample(Example):
    """A question about a context; `answers` is empty if there are none."""

    TEXTS = ("question", "context")
    LABEL = "answers"

    question: str
    context: str
    answers: tuple[AnswerSpan, ...] | None = None


class TextEntity(NamedTuple):
    """An entity of a text: its type, its first character, and the one after its last."""

    type: str
    start: int
    end: int
    probability: float = 1.0


class EntityForm(Protocol):
    """How a file has the entities of a text."""

    def written(self, text: str, entities: Sequence[TextEntity]) -> Any:
        """The JSON value of a text with these entities."""


@dataclasses.dataclass(frozen=True)
class WordsExample(Example):
    """The words of a sentence with a tag each; `document` is the number of its document.

    A text that was split into words has its `text`, the first character of each word (`starts`),
    and the `form` of its file, to write entities in.
    """

    TEXTS = ("words",)
    LABEL = "tags"

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0
    text: str | None = None
    starts: tuple[int, ...] = ()
    form: EntityForm | None = None


@dataclasses.dataclass(frozen=True)
class ChoiceExample(Example):
    """A context, possible continuations, and the index of the right one."""

    TEXTS = ("context", "stem", "choices")

    context: str
    choices: tuple[str, ...]
    label: int | None = None
    stem: str = ""  # the beginning of every choice (SWAG)


@dataclasses.dataclass(frozen=True)
class GenerationExample(Example):
    """A source text, and the text that it becomes."""

    TEXTS = ("source",)
    LABEL = "target"

    source: str
    target: str | None = None


def text_of(example: Example) -> str:
    """Returns all text of an example."""
    found = (getattr(example, name) or "" for name in example.TEXTS)
    return " ".join(value if isinstance(value, str) else " ".join(value) for value in found)


def label_of(example: Example) -> Any:
    """Returns the label of an example, or None."""
    return getattr(example, example.LABEL)


def have_labels(examples: Sequence[Example]) -> bool:
    """Returns whether all examples have labels."""
    return all(label_of(example) is not None for example in examples)
