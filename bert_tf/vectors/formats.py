"""Formats of vectors and of features, and how a block of texts is written in each.

| vectors | |
|---|---|
| npy | a NumPy array, float32 [rows, width]; the texts are in <file>.texts.jsonl |
| jsonl | JSON Lines: `id`, `text` (or `text_a` and `text_b`), `vector` |
| tfrecord | tf.train.Example messages with the same features |

| features | |
|---|---|
| npz | a folder of shards, each a NumPy archive of `values`, `row_splits`, places and `rows` |
| jsonl | JSON Lines in the layout of extract_features of google-research/bert, with more fields |
| tfrecord | tf.train.Example messages, one for each text |

`rows` of an archive are lines of JSON (uint8), one for each text: `id`, `text`, `tokens`, labels.
"""

import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.vectors import tokenized
from bert_tf.vectors.extractor import FeatureBlock, TextFeatures
from bert_tf.vectors.settings import FeatureFormat, VectorFormat
from bert_tf.vectors.tokenized import Example, Units
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample, WordsExample

_DECIMALS = 6  # of numbers in JSON features, as in extract_features
_PLACES = ("starts", "ends", "segments", "words")


FormatT = TypeVar("FormatT", VectorFormat, FeatureFormat)


def format_of(formats: type[FormatT], path: str, chosen: str | None) -> FormatT:
    """The chosen format, or else that of a path.

    Raises:
      InputError: the path has no ending of a format.
    """
    name = chosen or os.path.splitext(path)[1].removeprefix(".")
    folders = formats is FeatureFormat
    if folders and not name:
        return formats("npz")
    if name not in list(formats):
        endings = [f".{known}" for known in formats if known != "npz"]
        listed = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise InputError(
            f"{path}: the ending of the name is not that of a format; end it with {listed}"
            f"{', name a folder' if folders else ''}, or give --format."
        )
    return formats(name)


def vector_paths(kind: VectorFormat, path: str) -> tuple[str, ...]:
    """All files of vectors that are written to a path; the last one has the texts."""
    return (path, f"{path}.texts.jsonl") if kind is VectorFormat.NPY else (path,)


def vector_heads(kind: VectorFormat, rows: int, width: int) -> tuple[bytes, ...]:
    """The first bytes of each of the files."""
    if kind is not VectorFormat.NPY:
        return (b"",)
    header = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, shape)
    return header.getvalue(), b""


def encode_vectors(
    kind: VectorFormat, examples: Sequence[Example], vectors: np.ndarray
) -> tuple[bytes, ...]:
    """The bytes that a block of texts and their vectors, [texts, width], adds to each file."""
    texts = [_texts(example) for example in examples]
    if kind is VectorFormat.NPY:
        return vectors.astype("<f4").tobytes(), _json_lines(texts)
    rows = zip(texts, vectors, strict=True)
    if kind is VectorFormat.JSONL:
        return (_json_lines(row | {"vector": vector.tolist()} for row, vector in rows),)
    return (_records(_message(row, {}, "vector", vector) for row, vector in rows),)


def encode_features(
    kind: FeatureFormat,
    examples: Sequence[Example],
    block: FeatureBlock,
    number: int,
    layers: Sequence[Any],
) -> bytes:
    """The bytes of a block of texts and their features.

    Args:
      kind: the format.
      examples: the texts.
      block: their features.
      number: the number of the first text, from 0.
      layers: names of the layers in JSON: numbers, or one list of numbers if they are combined.
    """
    features = [block.row(index) for index in range(len(block))]
    rows = [_described(example, row.units) for example, row in zip(examples, features, strict=True)]
    if kind is FeatureFormat.NPZ:
        return _archive(block, rows)
    if kind is FeatureFormat.TFRECORD:
        return _records(
            _message(row, _places(units) | {"shape": values.shape}, "features", values)
            for row, (values, units) in zip(rows, features, strict=True)
        )
    return _json_lines(_feature_lines(rows, features, number, layers))


def _texts(example: Example) -> dict[str, Any]:
    """The id of a row, and its text or two texts."""
    text, second = tokenized.text_of(example)
    named = {"text": text} if second is None else {"text_a": text, "text_b": second}
    return {"id": example.key, **named}


def _described(example: Example, units: Units | None) -> dict[str, Any]:
    """The text fields of a row of features: id, texts, tokens and labels."""
    found = _texts(example) | ({} if units is None else {"tokens": units.tokens})
    if isinstance(example, TextExample):
        return found | ({} if example.label is None else {"label": example.label})
    return found | ({"labels": _labels(example, units)} if example.tags else {})


def _labels(example: WordsExample, units: Units | None) -> list[str]:
    """The tag of each unit, "" for special tokens; of a text as a whole, the tags of its words."""
    tags = list(example.tags or ())
    if units is None:
        return tags
    if units.words is None:
        return tags[: len(units.tokens)]
    return ["" if word < 0 else tags[word] for word in units.words.tolist()]


def _archive(block: FeatureBlock, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A NumPy archive, not compressed, so that `shards.map_shard` can map it."""
    arrays: dict[str, Any] = {"values": block.values, "row_splits": block.row_splits}
    arrays |= _places(block.units)
    file = io.BytesIO()
    np.savez(file, **arrays, rows=np.frombuffer(_json_lines(rows), np.uint8))
    return file.getvalue()


def _places(units: Units | None) -> dict[str, Any]:
    """The numbers of units, by name."""
    found = {name: getattr(units, name, None) for name in _PLACES}
    return {name: values for name, values in found.items() if values is not None}


def _json_lines(values: Iterable[Any]) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


def _records(messages: Iterable[bytes]) -> bytes:
    """Messages as a part of a TFRecord file."""
    with tempfile.NamedTemporaryFile() as file:
        with tf.io.TFRecordWriter(file.name) as writer:
            for message in messages:
                writer.write(message)
        return file.read()


def _message(
    texts: Mapping[str, Any], integers: Mapping[str, Any], name: str, values: np.ndarray
) -> bytes:
    """A tf.train.Example of texts, integers, and float32 values."""
    example = tf.train.Example()
    feature = example.features.feature
    for key, value in texts.items():
        several = [value] if isinstance(value, str) else value
        feature[key].bytes_list.value.extend(text.encode() for text in several)
    for key, numbers in integers.items():
        feature[key].int64_list.value.extend(np.asarray(numbers).tolist())
    # The field as it is stored (tag, length, little-endian data), without a Python float for each.
    data = values.astype("<f4").tobytes()
    feature[name].float_list.MergeFromString(b"\x0a" + _varint(len(data)) + data)
    return example.SerializeToString(deterministic=True)


def _varint(value: int) -> bytes:
    """A number as protocol buffers store it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _feature_lines(
    rows: Sequence[dict[str, Any]],
    features: Sequence[TextFeatures],
    number: int,
    layers: Sequence[Any],
) -> Iterator[dict[str, Any]]:
    """Yields the JSON object of each row."""
    for index, (row, (values, units)) in enumerate(zip(rows, features, strict=True), number):
        shape = [-1 if units is None else len(units.tokens), len(layers), values.shape[-1]]
        numbers = np.round(values.astype(np.float64), _DECIMALS).reshape(shape).tolist()
        columns = {} if units is None else {"token": units.tokens}
        columns |= {name[:-1]: part.tolist() for name, part in _places(units).items()}
        cells = zip(*columns.values(), strict=True) if columns else [()]
        parts = [
            dict(zip(columns, about, strict=True))
            | {
                "layers": [
                    {"index": layer, "values": vector}
                    for layer, vector in zip(layers, unit, strict=True)
                ]
            }
            for about, unit in zip(cells, numbers, strict=True)
        ]
        texts = {name: value for name, value in row.items() if name != "tokens"}
        yield {"linex_index": index, **texts, "features": parts}
