"""Labelled examples as they stand in files, before tokenization.

`place` names the file and the line or record, for errors and reports.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple


@dataclasses.dataclass(frozen=True)
class TextExample:
    """One text or a pair of texts, with a label or a score (None where it is to be predicted)."""

    key: str
    place: str
    text_a: str
    text_b: str | None = None
    label: str | None = None

    @property
    def truth(self) -> str:
        """The label, of an example that has one."""
        assert self.label is not None, self.place
        return self.label


class Answer(NamedTuple):
    """An answer, and the character of the context at which it starts."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SpanExample:
    """A question about a context; `answers` is empty where there is none, None where unknown."""

    key: str
    place: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None


@dataclasses.dataclass(frozen=True)
class WordsExample:
    """A sentence of words with a tag each; `document` groups the sentences of a document."""

    key: str
    place: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0

    @property
    def truth(self) -> tuple[str, ...]:
        """The tags, of an example that has them."""
        assert self.tags is not None, self.place
        return self.tags


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A first text, the continuations to choose from, and the index of the right one."""

    key: str
    place: str
    context: str
    choices: tuple[str, ...]
    label: int | None = None
    stem: str = ""  # begins every choice (SWAG)

    @property
    def truth(self) -> int:
        """The label, of an example that has one."""
        assert self.label is not None, self.place
        return self.label


def text_of(example: Any) -> str:
    """All text of an example, whatever its shape."""
    names = ("text_a", "text_b", "question", "words", "context", "stem", "choices")
    found = (getattr(example, name, None) or "" for name in names)
    return " ".join(value if isinstance(value, str) else " ".join(value) for value in found)


def label_of(example: Any) -> Any:
    """What an example is labelled with, whatever its shape; None where it is not."""
    return next(
        getattr(example, name) for name in ("label", "tags", "answers") if hasattr(example, name)
    )


def have_labels(examples: Sequence[Any]) -> bool:
    """Whether all examples have their label; else it serves for none."""
    return all(label_of(example) is not None for example in examples)
