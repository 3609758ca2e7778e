"""Labelled examples as they are in files, before tokenization.

`place` is the file and the line or record, for errors and reports.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts, with its label or score; None if it is to be predicted."""

    key: str
    place: str
    text_a: str
    text_b: str | None = None
    label: str | None = None

    @property
    def truth(self) -> str:
        """The label of an example that has one."""
        assert self.label is not None, self.place
        return self.label


@dataclasses.dataclass(frozen=True)
class MultiLabelExample:
    """A text or a pair of texts, with any number of labels; None if they are to be predicted."""

    key: str
    place: str
    text_a: str
    text_b: str | None = None
    labels: tuple[str, ...] | None = None

    @property
    def truth(self) -> str:
        """The labels of an example that has them, separated by commas."""
        assert self.labels is not None, self.place
        return ", ".join(self.labels)


@dataclasses.dataclass(frozen=True)
class EmbeddingExample:
    """One text, a pair, or a text with one that is alike and others that are not.

    The label is the similarity of a pair, the class of a text, "" if there is neither, and None if
    it is to be predicted.
    """

    key: str
    place: str
    texts: tuple[str, ...]
    label: str | None = ""


class AnswerSpan(NamedTuple):
    """An answer, and the character of the context at which it starts."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SpanExample:
    """A question about a context; `answers` is empty if there are none, None if unknown."""

    key: str
    place: str
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
class WordsExample:
    """The words of a sentence with a tag each; `document` is the number of its document.

    A text that was split into words has its `text`, the first character of each word (`starts`),
    and the `form` of its file, to write entities in.
    """

    key: str
    place: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0
    text: str | None = None
    starts: tuple[int, ...] = ()
    form: "EntityForm | None" = None

    @property
    def truth(self) -> tuple[str, ...]:
        """The tags of an example that has them."""
        assert self.tags is not None, self.place
        return self.tags


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A context, possible continuations, and the index of the right one."""

    key: str
    place: str
    context: str
    choices: tuple[str, ...]
    label: int | None = None
    stem: str = ""  # the beginning of every choice (SWAG)

    @property
    def truth(self) -> int:
        """The label of an example that has one."""
        assert self.label is not None, self.place
        return self.label


@dataclasses.dataclass(frozen=True)
class GenerationExample:
    """A source text, and the text that it becomes."""

    key: str
    place: str
    source: str
    target: str | None = None

    @property
    def truth(self) -> str:
        """The target of an example that has one."""
        assert self.target is not None, self.place
        return self.target


def text_of(example: Any) -> str:
    """Returns all text of an example of any shape."""
    names = (
        "text_a",
        "text_b",
        "question",
        "words",
        "context",
        "stem",
        "choices",
        "source",
        "texts",
    )
    found = (getattr(example, name, None) or "" for name in names)
    return " ".join(value if isinstance(value, str) else " ".join(value) for value in found)


def label_of(example: Any) -> Any:
    """Returns the label of an example of any shape, or None."""
    names = ("label", "labels", "tags", "answers", "target")
    return next(getattr(example, name) for name in names if hasattr(example, name))


def have_labels(examples: Sequence[Any]) -> bool:
    """Returns whether all examples have labels."""
    return all(label_of(example) is not None for example in examples)
