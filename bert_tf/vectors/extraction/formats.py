"""Formats of features: what each holds, and how a block of texts is written.

| format | what is written |
|---|---|
| npz | a folder of shards, each a NumPy archive of `values`, `row_splits`, places and `rows` |
| jsonl | JSON Lines in the layout of extract_features of google-research/bert, with more besides |
| tfrecord | tf.train.Example messages, one a text |

`rows` of an archive are lines of JSON (uint8), one a text: `id`, `text`, `tokens`, labels.
"""

import enum
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.vectors.encoding import blocks
from bert_tf.vectors.encoding.block_writer import Storage
from bert_tf.vectors.encoding.growing_files import GrowingFiles
from bert_tf.vectors.encoding.shard_files import ShardFiles
from bert_tf.vectors.extraction.extracted import Extracted, TextFeatures, Units
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample, WordsExample

Example = TextExample | WordsExample
_STEM = "features"
_DECIMALS = 6  # of numbers in JSON, as extract_features writes them
_PLACES = ("starts", "ends", "segments", "words")


class FeatureFormat(enum.StrEnum):
    """Formats of features, by the endings of their names."""

    NPZ = "npz"
    JSONL = "jsonl"
    TFRECORD = "tfrecord"


def format_of(path: str, chosen: str | None) -> FeatureFormat:
    """The format that was chosen, else that of a name; of a name without ending, npz.

    Raises:
      InputError: the name tells none.
    """
    name = chosen or os.path.splitext(path)[1].removeprefix(".") or FeatureFormat.NPZ
    if name not in list(FeatureFormat):
        raise InputError(
            f"{path}: its name does not tell the format; let it end with .jsonl or .tfrecord, name "
            "a folder, or give --format."
        )
    return FeatureFormat(name)


def storage(kind: FeatureFormat, path: str) -> Storage:
    """Where blocks of a format go."""
    if kind is FeatureFormat.NPZ:
        return ShardFiles(path, _STEM, ".npz")
    return GrowingFiles(path, (path,), (b"",))


def encode(
    kind: FeatureFormat,
    examples: Sequence[Example],
    extracted: Extracted,
    number: int,
    layers: Sequence[int],
    separate: bool,
) -> bytes:
    """What a block of texts adds.

    Args:
      kind: the format.
      examples: the texts.
      extracted: their features.
      number: of the first text, from 0.
      layers: the numbers of layers, as the user gave them.
      separate: whether features of several layers are kept apart.
    """
    features = [extracted.row(index) for index in range(len(extracted))]
    rows = [_described(example, row.units) for example, row in zip(examples, features, strict=True)]
    if kind is FeatureFormat.NPZ:
        return _archive(extracted, rows)
    if kind is FeatureFormat.TFRECORD:
        return blocks.records(map(_message, rows, features))
    shown: Sequence[Any] = layers if separate else [list(layers)]
    return blocks.json_lines(_lines(rows, features, number, shown))


def _described(example: Example, units: Units | None) -> dict[str, Any]:
    """What is text of a row: its id, its text or texts, tokens and labels."""
    found: dict[str, Any] = {"id": example.key}
    if isinstance(example, WordsExample):
        found["text"] = " ".join(example.words)
    elif example.text_b is None:
        found["text"] = example.text_a
    else:
        found |= {"text_a": example.text_a, "text_b": example.text_b}
    if units is not None:
        found["tokens"] = units.tokens
    if isinstance(example, WordsExample):
        return found | ({"labels": _labels(example.tags, units)} if example.tags else {})
    return found | ({"label": example.label} if example.label is not None else {})


def _labels(tags: Sequence[str], units: Units | None) -> list[str]:
    """The tag of each unit; special tokens have none (""). Of a text as a whole, those of words."""
    if units is None:
        return list(tags)
    if units.words is None:
        return list(tags[: len(units.tokens)])
    return ["" if word < 0 else tags[word] for word in units.words.tolist()]


def _archive(extracted: Extracted, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A NumPy archive, not compressed, so that it can be mapped (`shards.map_shard`)."""
    arrays: dict[str, Any] = {"values": extracted.values, "row_splits": extracted.row_splits}
    if extracted.units is not None:
        arrays |= _places(extracted.units)
    file = io.BytesIO()
    np.savez(file, **arrays, rows=np.frombuffer(blocks.json_lines(rows), np.uint8))
    return file.getvalue()


def _places(units: Units) -> dict[str, np.ndarray]:
    """Numbers of units by name, those that there are."""
    found = {name: getattr(units, name) for name in _PLACES}
    return {name: values for name, values in found.items() if values is not None}


def _message(row: Mapping[str, Any], features: TextFeatures) -> bytes:
    example = tf.train.Example()
    feature = example.features.feature
    for name, value in row.items():
        texts = [value] if isinstance(value, str) else value
        feature[name].bytes_list.value.extend(text.encode() for text in texts)
    if features.units is not None:
        for name, values in _places(features.units).items():
            feature[name].int64_list.value.extend(values.tolist())
    feature["shape"].int64_list.value.extend(features.values.shape)
    # The field as it is stored, without a number of Python for each: tag, length, little-endian.
    data = features.values.astype("<f4").tobytes()
    feature["features"].float_list.MergeFromString(b"\x0a" + _varint(len(data)) + data)
    return example.SerializeToString(deterministic=True)


def _varint(value: int) -> bytes:
    """A number as protocol buffers store it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _lines(
    rows: Sequence[dict[str, Any]],
    features: Sequence[TextFeatures],
    number: int,
    layers: Sequence[Any],
) -> Iterator[dict[str, Any]]:
    """Yields the JSON object of each row; `layers` are the indices to show."""
    for index, (row, (values, units)) in enumerate(zip(rows, features, strict=True), number):
        shape = [-1 if units is None else len(units.tokens), len(layers), values.shape[-1]]
        numbers = np.round(values.astype(np.float64), _DECIMALS).reshape(shape).tolist()
        parts = [
            {
                "layers": [
                    {"index": layer, "values": vector}
                    for layer, vector in zip(layers, unit, strict=True)
                ]
            }
            for unit in numbers
        ]
        if units is not None:
            columns = {"token": units.tokens}
            columns |= {name[:-1]: part.tolist() for name, part in _places(units).items()}
            told = [
                dict(zip(columns, cells, strict=True))
                for cells in zip(*columns.values(), strict=True)
            ]
            parts = [about | part for about, part in zip(told, parts, strict=True)]
        about = {name: value for name, value in row.items() if name != "tokens"}
        yield {"linex_index": index, **about, "features": parts}
