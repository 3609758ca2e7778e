"""Formats of files of vectors: what each holds, and how a block of it is written.

| format | file |
|---|---|
| npy | NumPy, float32 [rows, width]; the texts are in a file beside it |
| jsonl | JSON Lines: `id`, `text` (of pairs `text_a` and `text_b`), `vector` |
| tfrecord | tf.train.Example messages with the same features |

All of them grow at their end only, so that a run that was stopped can go on.
"""

import enum
import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.vectors.encoding import blocks
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample

_TEXTS = ".texts.jsonl"


class VectorFormat(enum.StrEnum):
    """Formats of files of vectors, by the endings of their names."""

    NPY = "npy"
    JSONL = "jsonl"
    TFRECORD = "tfrecord"


def format_of(path: str, chosen: str | None) -> VectorFormat:
    """The format that was chosen, else that of a name.

    Raises:
      InputError: the name tells none.
    """
    name = chosen or os.path.splitext(path)[1].removeprefix(".")
    if name not in list(VectorFormat):
        known = ", ".join(f".{known}" for known in VectorFormat)
        raise InputError(
            f"{path}: its name does not tell the format; let it end with one of {known}, or give "
            "--format."
        )
    return VectorFormat(name)


def texts_of(path: str) -> str:
    """The file of the texts of a .npy file."""
    return f"{path}{_TEXTS}"


def paths(kind: VectorFormat, path: str) -> tuple[str, ...]:
    """All files of vectors that are named by one of them."""
    return (path, texts_of(path)) if kind is VectorFormat.NPY else (path,)


def head(kind: VectorFormat, rows: int, width: int) -> tuple[bytes, ...]:
    """What each of the files begins with."""
    if kind is not VectorFormat.NPY:
        return (b"",)
    header = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, shape)
    return header.getvalue(), b""


def encode(
    kind: VectorFormat, examples: Sequence[TextExample], vectors: np.ndarray
) -> tuple[bytes, ...]:
    """What a block of rows adds to each of the files.

    Args:
      kind: the format.
      examples: the texts.
      vectors: float32 [examples, width].
    """
    if kind is VectorFormat.NPY:
        return vectors.astype("<f4").tobytes(), blocks.json_lines(map(_described, examples))
    rows = zip(examples, vectors, strict=True)
    if kind is VectorFormat.JSONL:
        described = (_described(example) | {"vector": row.tolist()} for example, row in rows)
        return (blocks.json_lines(described),)
    return (blocks.records(_message(_described(example), row) for example, row in rows),)


def _described(example: TextExample) -> dict[str, Any]:
    """The id and the text, or the texts, of a row."""
    if example.text_b is None:
        return {"id": example.key, "text": example.text_a}
    return {"id": example.key, "text_a": example.text_a, "text_b": example.text_b}


def _message(texts: dict[str, str], vector: np.ndarray) -> bytes:
    example = tf.train.Example()
    for name, text in texts.items():
        example.features.feature[name].bytes_list.value.append(text.encode())
    example.features.feature["vector"].float_list.value.extend(vector.tolist())
    return example.SerializeToString(deterministic=True)
