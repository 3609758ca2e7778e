"""Tables, texts from the web, and files compressed by zstd."""

import io
import json

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from warcio.warcwriter import WARCWriter

from pipelines.common.errors import InputError
from pipelines.corpus import reader

TEXTS = [f"Text {number} é. It has two sentences." for number in range(30)]
DOCUMENTS = [[f"Text {number} é.", " It has two sentences."] for number in range(30)]


def read(path, range_bytes=1 << 20, **options):
    """The documents of all ranges of a file."""
    corpus = reader.open_corpus(str(path))
    ranges = reader.plan_ranges(corpus, range_bytes)
    found = [list(reader.read_sections(r, reader.ReadOptions(**options))) for r in ranges]
    assert len({section.document for part in found for section in part}) == sum(map(len, found))
    return [[section.sentences for section in part] for part in found]


def joined(parts):
    return [document for part in parts for document in part]


def zstd(path, data):
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(data)
    return path


@pytest.mark.parametrize("range_bytes, parts", [(1, 5), (500, 3), (1 << 20, 1)])
def test_groups_of_parquet_are_read_independently(tmp_path, range_bytes, parts):
    table = pa.table({"id": range(30), "text": TEXTS})
    pa.parquet.write_table(
        table, tmp_path / "a.parquet", row_group_size=6, compression="none", use_dictionary=False
    )
    found = read(tmp_path / "a.parquet", range_bytes)
    assert len(found) == parts or range_bytes == 500
    assert joined(found) == DOCUMENTS


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_arrow_as_datasets_of_hugging_face_keep_it(tmp_path, kind):
    table = pa.table({"body": pa.array([*TEXTS, None, " "], kind)})
    with pa.ipc.new_stream(str(tmp_path / "data-00000-of-00001.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=7)
    assert joined(read(tmp_path / "*.arrow", text_field="body")) == DOCUMENTS
    with pa.ipc.new_file(str(tmp_path / "data-00000-of-00001.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=7)
    assert joined(read(tmp_path / "*.arrow", text_field="body")) == DOCUMENTS


@pytest.mark.parametrize("name", ["a.wet", "a.wet.gz", "a.warc.wet.gz", "a.txt", "a.gz"])
def test_texts_of_common_crawl(tmp_path, name):
    with open(tmp_path / name, "wb") as file:
        writer = WARCWriter(file, gzip=name.endswith("gz"))
        writer.write_record(writer.create_warcinfo_record(name, {"software": "test"}))
        for number, text in enumerate(TEXTS):
            body = io.BytesIO(text.encode())
            writer.write_record(
                writer.create_warc_record(f"https://a.b/{number}", "conversion", payload=body)
            )
    assert joined(read(tmp_path / name)) == DOCUMENTS


def test_json_lines_compressed_by_zstd(tmp_path):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    path = zstd(tmp_path / "a.jsonl.zst", lines.encode())
    assert joined(read(path, 10)) == DOCUMENTS
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"a\.jsonl\.zst: the compressed data is truncated"):
        read(path)


def _table(path, **columns):
    pa.parquet.write_table(pa.table(columns), path)


_LATIN = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xe9"))


def _cut(path):
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=False)
        body = io.BytesIO(b"some text " * 9)
        writer.write_record(writer.create_warc_record("https://a.b", "conversion", payload=body))
    path.write_bytes(path.read_bytes()[:-30])


def _cut_between_records(path):
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=True)
        for _ in range(2):
            body = io.BytesIO(b"some text " * 9)
            record = writer.create_warc_record("https://a.b", "conversion", payload=body)
            writer.write_record(record)
    path.write_bytes(path.read_bytes()[:-8])  # the checksum of the last record


def _no_length(path):
    path.write_bytes(b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: \r\n\r\ntext")


def _page(path):
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=False)
        body = io.BytesIO(b"HTTP/1.1 200 OK\r\n\r\n<p>x")
        writer.write_record(writer.create_warc_record("https://a.b", "response", payload=body))


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("a.parquet", lambda p: _table(p, words=["a"]), "no column 'text'; name one of words with"),
        ("a.parquet", lambda p: _table(p, text=[1]), "'text' has no texts, but values of type int"),
        ("a.parquet", lambda p: _table(p, text=["a\0"]), "row 1 .*: a NUL character"),
        ("a.parquet", lambda p: p.write_bytes(b"x" * 99), "is not parquet data that can be read"),
        ("a.arrow", lambda p: p.write_bytes(b"x" * 99), "is not arrow data that can be read"),
        ("a.wet", lambda p: p.write_bytes(b"x" * 99), r"record 1: does not begin with WARC/1\.0"),
        ("a.parquet", lambda p: _table(p, text=_LATIN), "row 1 .*: byte 0xe9 is not UTF-8"),
        ("a.wet", _cut, "record 1: the file is truncated"),
        ("a.wet", lambda p: p.write_bytes(b""), "every file has 0 bytes"),
        ("a.wet.gz", _cut_between_records, r"a\.wet\.gz: the compressed data is trunc"),
        ("a.wet", _no_length, "record 1: has no Content-Length"),
        ("a.wet", _page, "record 1: is a page with its markup; use the WET file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, write, message):
    write(tmp_path / name)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)
