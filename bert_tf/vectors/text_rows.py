"""The JSON of a text: what it is next to its features, and the layout of extract_features."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bert_tf.vectors import tokenized
from bert_tf.vectors.extractor import FeatureBlock
from bert_tf.vectors.tokenized import Example, Units
from pipelines.labelled.schema import TextExample, WordsExample

_DECIMALS = 6  # of numbers, as in extract_features
_PLACES = ("starts", "ends", "segments", "words")


class StoredText(msgspec.Struct):
    """The fields of a row that readers of vectors need.

    Attributes:
      id: the id, or the number of the text from 0.
      length: number of tokens, before the text was cut.
      text, text_a, text_b: the text, or the two texts.
      tokens: the units that have features of their own; None for texts as a whole.
    """

    id: str
    length: int
    text: str | None = None
    text_a: str | None = None
    text_b: str | None = None
    tokens: list[str] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or the two texts."""
        texts = (self.text, self.text_a, self.text_b)
        return tuple(text for text in texts if text is not None)

    @property
    def units(self) -> int:
        """The number of units."""
        return 1 if self.tokens is None else len(self.tokens)


def rows(examples: Sequence[Example], block: FeatureBlock) -> Iterator[dict[str, Any]]:
    """Yields what is stored of each text of a block, as JSON values."""
    for index, example in enumerate(examples):
        text, second = tokenized.text_of(example)
        named = {"text": text} if second is None else {"text_a": text, "text_b": second}
        row = {"id": example.key, **named, "length": int(block.uncut[index])}
        units = block.row(index).units
        if units is not None:
            places = ((name, getattr(units, name)) for name in _PLACES)
            row["tokens"] = units.tokens
            row |= {name: values.tolist() for name, values in places if values is not None}
        if isinstance(example, TextExample):
            yield row | ({} if example.label is None else {"label": example.label})
        else:
            yield row | ({"labels": _labels(example, units)} if example.tags else {})


def _labels(example: WordsExample, units: Units | None) -> list[str]:
    """The tag of each unit, "" for special tokens; of a text as a whole, the tags of its words."""
    tags = list(example.tags or ())
    if units is None:
        return tags
    if units.words is None:
        return tags[: len(units.tokens)]
    return ["" if word < 0 else tags[word] for word in units.words.tolist()]


def feature_line(
    row: Mapping[str, Any], values: np.ndarray, number: int, layers: Sequence[Any]
) -> dict[str, Any]:
    """A text and its features in the layout of extract_features of google-research/bert.

    Args:
      row: one of `rows`.
      values: float32 [units, ...].
      number: the number of the text, from 0.
      layers: names of the layers: numbers, or one list of numbers if they are combined.
    """
    numbers = np.round(values.astype(np.float64), _DECIMALS)
    numbers = numbers.reshape(len(values), len(layers), values.shape[-1])
    columns = [name for name in ("tokens", *_PLACES) if name in row]
    units = [
        {name.removesuffix("s"): row[name][unit] for name in columns}
        | {"layers": [{"index": i, "values": x} for i, x in zip(layers, vectors, strict=True)]}
        for unit, vectors in enumerate(numbers.tolist())
    ]
    about = {name: value for name, value in row.items() if name not in columns}
    return {"linex_index": number, **about, "features": units}
