"""Small valid files of all formats that come from other programs, and their readers."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import tokenizers

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.vectors import blocks
from bert_tf.vectors.blocks import EMBED, BlockOutput
from bert_tf.vectors.settings import EmbeddingSettings
from bert_tf.vectors.vector_file import VectorFile
from bert_tf.weights.bundle import SENTENCE_ORDER, parameter_shapes
from bert_tf.weights.formats import Format
from pipelines.common import json_files
from pipelines.corpus import reader
from pipelines.labelled import conll, squad, tables
from pipelines.labelled.source import Source
from pipelines.tokenizers import registry
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary

_TEXTS = [f"Text {number} of a film, é. It has “two” sentences, 한국어." for number in range(9)]
_ROWS = [{"id": n, "text": text, "label": "ab"[n % 2]} for n, text in enumerate(_TEXTS)]
_WIDTH = 3
_VECTORS, _MODEL = "vectors.npy", "model"


def _rows(path: str) -> list[Any]:
    return list(tables.read_rows(Source(path, header=True, has_quotes=False)))


def _documents(path: str) -> list[Any]:
    corpus = reader.open_corpus(path)
    ranges = reader.plan_ranges(corpus, corpus[0].size // 3 + 1)
    return [list(reader.read_sections(each, reader.ReadOptions())) for each in ranges]


def _vectors(path: str) -> list[Any]:
    found = VectorFile(path.removesuffix(".texts.jsonl").removesuffix(".json"))
    return [*found.blocks(), found.texts([found.rows - 1])]


class _Zstd:
    """Compression by zstd, as the modules of the standard library have it."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return pa.CompressedInputStream(io.BytesIO(data), "zstd").read()


COMPRESSIONS: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma, ".zst": _Zstd}


class Sample(NamedTuple):
    """A valid file, alone in its folder but for files that it needs, and its reader."""

    path: Path
    read: Callable[[str], object]
    whole_folder: bool = False  # whether its folder is read; errors may name another file there
    weight: int = 8  # relative frequency: reading a model takes as long as reading many tables

    def unpack(self, data: bytes) -> dict[str, bytes]:
        """The contents of an archive or a compressed file, by name."""
        if self.path.suffix == ".xlsx":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return {name: archive.read(name) for name in archive.namelist()}
        module = COMPRESSIONS.get(self.path.suffix)
        return {"": module.decompress(data) if module else data}

    def pack(self, parts: Mapping[str, bytes]) -> bytes:
        """The bytes of the file with these contents."""
        if self.path.suffix != ".xlsx":
            module = COMPRESSIONS.get(self.path.suffix)
            return module.compress(parts[""]) if module else parts[""]
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
        return file.getvalue()


def _delimited(mark: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_ROWS[0]), delimiter=mark, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_ROWS)
    return text.getvalue().encode()


def _arrow(opened: Callable[..., Any]) -> bytes:
    columns: dict[str, Any] = {name: [row[name] for row in _ROWS] for name in _ROWS[0]}
    columns["kind"] = pa.array(["x", "y", "x"] * 3).dictionary_encode()
    columns["tags"] = [["O", "B"]] * 9
    table = pa.table(columns)
    file = io.BytesIO()
    if opened is pa.parquet.write_table:
        opened(table, file, row_group_size=4)
    else:
        with opened(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    return file.getvalue()


def _workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in ([*_ROWS[0]], *(list(row.values()) for row in _ROWS)):
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _web_archive() -> bytes:
    head = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n"
    texts = [text.encode() for text in _TEXTS]
    return b"".join(head.format(len(text)).encode() + text + b"\r\n\r\n" for text in texts)


def _squad() -> bytes:
    answers = [{"text": "film", "answer_start": _TEXTS[0].index("film")}]
    questions = [{"id": "1", "question": "What?", "answers": answers}]
    paragraphs = [{"context": _TEXTS[0], "qas": questions}] * 3
    return json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}).encode()


def _contents() -> dict[str, tuple[bytes, Callable[[str], object]]]:
    """The bytes and the reader of each file, by name; some are also compressed."""
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in _ROWS).encode()
    articles = "".join(f'<doc id="1" url="" title="T">\nT\n\n{text}\n\n</doc>\n' for text in _TEXTS)
    prose = "\n\n".join(_TEXTS).encode()
    words = "".join(f"{word}\tB-X\n" for word in _TEXTS[0].split())
    arrow_file, arrow_stream = _arrow(pa.ipc.new_file), _arrow(pa.ipc.new_stream)
    plain: dict[str, tuple[bytes, Callable[[str], object]]] = {
        "rows.tsv": (_delimited("\t"), _rows),
        "rows.csv": (_delimited(","), _rows),
        "rows.jsonl": (lines, _rows),
        "rows.json": (json.dumps(_ROWS).encode(), _rows),
        "words.txt": (f"{words}\n{words}".encode(), lambda path: list(conll.read(Source(path)))),
        "spans.json": (_squad(), lambda path: list(squad.read(path))),
        "settings.json": (b'{"a": [1, 2.5], "b": {"c": null}}', lambda p: json_files.read(p, dict)),
        "texts.txt": (prose, _documents),
        "lines.jsonl": (lines, _documents),
        "articles.txt": (articles.encode(), _documents),
        "web.wet": (_web_archive(), _documents),
        "vocab.txt": ("\n".join(_vocabulary()).encode(), _tokens),
    }
    found = {
        f"{name}{kind}": (module.compress(data), read)
        for name, (data, read) in plain.items()
        if name.startswith(("rows.", "texts", "web"))
        for kind, module in COMPRESSIONS.items()
    }
    whole: dict[str, tuple[bytes, Callable[[str], object]]] = {
        "rows.xlsx": (_workbook(), _rows),
        "rows.parquet": (_arrow(pa.parquet.write_table), _rows),
        "texts.parquet": (_arrow(pa.parquet.write_table), _documents),
        "rows.arrow": (arrow_file, _rows),
        "texts.arrow": (arrow_file, _documents),
        "stream.arrow": (arrow_stream, _rows),
    }
    return plain | found | whole


def _vocabulary() -> list[str]:
    words = sorted({word for text in _TEXTS for word in re.findall(r"\w", text)})
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{word}" for word in words)]


def _tokens(path: str) -> object:
    return registry.load(path)


def _write_vectors(folder: Path) -> None:
    values = np.arange(len(_TEXTS) * _WIDTH, dtype=np.float32).reshape(-1, _WIDTH)
    place, shape = BlockOutput(f"{folder}/{_VECTORS}", EMBED), [len(_TEXTS), _WIDTH]
    about = {
        "made_by": EMBED,
        "rows": len(_TEXTS),
        "shape": shape[1:],
        "model": {"encoder_sha256": "b", "tokenizer_sha256": "c"},
        "settings": EmbeddingSettings(layers=(1,), max_seq_length=9).describe(),
    }
    with place.begun(about):
        rows = [{"id": str(n), "text": text, "length": 9} for n, text in enumerate(_TEXTS)]
        place.write(0, rows, values)
        checksums = {
            ending: place.publish(ending, blocks.pieces(place.block(0, ending)))
            for ending in (blocks.LINES, blocks.ARRAY)
        }
        place.finish(about, [{"rows": len(rows), "shape": shape, "sha256": checksums}])


def _write_model(folder: Path) -> None:
    """A tiny model with its tokenizer, as Hugging Face's programs leave it."""
    config = BertConfig.named(
        "tiny", vocab_size=len(_vocabulary()), hidden_size=8, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in parameter_shapes(config).items()
        if not name.startswith(SENTENCE_ORDER)
    }
    model = weights.Bundle(config, arrays, WordPieceVocabulary(tuple(_vocabulary())))
    weights.write(model, str(folder), Format.HUGGINGFACE)
    vocabulary = {token: number for number, token in enumerate(_vocabulary())}
    tokenizer = tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def _read_model(path: str) -> object:
    return weights.read(Path(path).parent).tokenizer()(_TEXTS)


def write(folder: Path) -> None:
    """Writes the samples, each to a folder of its own, unless they are complete."""
    if folder.exists():
        return
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name, (content, _) in _contents().items():
        (partial / name).mkdir(parents=True)
        (partial / name / name).write_bytes(content)
    _write_vectors(partial / _VECTORS)
    _write_model(partial / _MODEL)
    partial.rename(folder)


def read(folder: Path) -> list[Sample]:
    """The samples of a folder."""
    found = [Sample(folder / name / name, read) for name, (_, read) in _contents().items()]
    path = folder / _VECTORS / _VECTORS
    found += [Sample(Path(f"{path}{end}"), _vectors) for end in ("", ".json", ".texts.jsonl")]
    model = sorted((folder / _MODEL).iterdir())
    return found + [Sample(path, _read_model, whole_folder=True, weight=1) for path in model]
