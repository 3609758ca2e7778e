"""Texts to extract features of, in whatever form they were given."""

import dataclasses
from collections.abc import Sequence
from typing import Self

from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample, WordsExample


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Texts, pairs of texts, or sentences of words.

    Attributes:
      first: a text of each row; of words these with blanks between them.
      second: the text behind it, or None.
      sentences: the words of each row, where they were given.
    """

    first: Sequence[str]
    second: Sequence[str | None]
    sentences: Sequence[Sequence[str]] | None = None

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def of_texts(cls, texts: Sequence[str], second: Sequence[str | None] | None) -> Self:
        """Texts, each with a second one or without.

        Raises:
          InputError: there are not as many.
        """
        if second is not None and len(second) != len(texts):
            raise InputError(f"{len(texts)} texts have {len(second)} second ones; give each one.")
        return cls(texts, [None] * len(texts) if second is None else second)

    @classmethod
    def of_sentences(cls, sentences: Sequence[Sequence[str]]) -> Self:
        """Sentences of words."""
        return cls([" ".join(words) for words in sentences], [None] * len(sentences), sentences)

    @classmethod
    def of_examples(cls, examples: Sequence[TextExample | WordsExample]) -> Self:
        """The texts of examples, all of one shape."""
        sentences = [example.words for example in examples if isinstance(example, WordsExample)]
        if sentences:
            return cls.of_sentences(sentences)
        texts = [example for example in examples if isinstance(example, TextExample)]
        return cls([text.text_a for text in texts], [text.text_b for text in texts])

    @property
    def has_pairs(self) -> bool:
        """Whether a row has a second text."""
        return any(text is not None for text in self.second)

    def segment(self, row: int, number: int) -> str:
        """The first text of a row (0), or the second one."""
        return (self.second[row] or "") if number else self.first[row]
