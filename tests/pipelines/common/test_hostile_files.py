"""Small files that are made to crash, to hang or to fill the memory."""

import csv
import decimal
import gzip
import io
import re
import time
import zipfile

import openpyxl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from benchmarks.soak import samples
from pipelines.common import compressed
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.labelled import tables
from pipelines.labelled.source import Source

# Times the processor's time for 100,000 ordinary rows, several times what the slowest takes; without
# the checks, they took a minute or more, some 200 times as long.
_TIMES = 20
_TOO_LARGE = "its content is more than 200 times as large as the file"


def _rows(path):
    return list(tables.read_rows(Source(str(path), header=True, has_quotes=False)))


def _documents(path):
    corpus = reader.open_corpus(str(path))
    ranges = reader.plan_ranges(corpus, 1 << 20)
    return [section for r in ranges for section in reader.read_sections(r, reader.ReadOptions())]


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The processor's time for an ordinary file, on this machine, in seconds."""
    path = tmp_path_factory.mktemp("usual") / "a.csv"
    path.write_text("text,label\n" + "a,b\n" * 100_000)
    begin = time.process_time()
    _rows(path)
    return time.process_time() - begin


@pytest.fixture(autouse=True)
def _in_time(usual):
    begin = time.process_time()
    yield
    assert time.process_time() - begin < _TIMES * usual


def _arrow_file(path, array):
    with pa.ipc.new_file(str(path), pa.schema([("text", array.type)])) as file:
        file.write_table(pa.table({"text": array}))
    return path.read_bytes()


@pytest.mark.parametrize("read", [_rows, _documents])
@pytest.mark.parametrize("offset", [0x7FFFFFF0, -5])
def test_offsets_of_arrow_that_lead_out_of_their_buffer(tmp_path, read, offset):
    path = tmp_path / "a.arrow"
    data = _arrow_file(path, pa.array(["abc", "defg"]))
    offsets = b"\0\0\0\0\x03\0\0\0\x07\0\0\0"
    assert data.count(offsets) == 1
    lie = offsets[:4] + offset.to_bytes(4, "little", signed=True) + offsets[8:]
    path.write_bytes(data.replace(offsets, lie))
    with pytest.raises(InputError, match=r"a\.arrow: is not arrow data that can be read"):
        try:
            read(path)
        except InputError as error:
            raise InputError(str(error).replace("Arrow", "arrow")) from error


@pytest.mark.parametrize("read", [_rows, _documents])
def test_a_batch_of_arrow_that_claims_as_many_bytes_as_a_number_has(tmp_path, read):
    path = tmp_path / "a.arrow"
    table, data = pa.table({"text": ["abc", "defg"]}), io.BytesIO()
    with pa.ipc.new_stream(data, table.schema) as stream:
        stream.write_table(table)
    refused = 0
    for place in range(0, len(data.getvalue()) - 8, 8):  # one of them is the size of the batch
        lie = bytearray(data.getvalue())
        lie[place : place + 8] = (0x7FFFFFFFFFFFFFF8).to_bytes(8, "little")
        path.write_bytes(lie)
        try:
            read(path)
        except InputError:
            refused += 1
    assert refused > 10


_TEXT = "x" * (1 << 20)


def _dictionary(size):
    indices = pa.array([0] * 20_000, pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["x" * size]))


def _views():
    """One text of which many parts are views."""
    whole = pa.array([_TEXT], pa.string_view())
    views, text = whole.buffers()[1:]
    return pa.Array.from_buffers(
        pa.string_view(), 20_000, [None, pa.py_buffer(views.to_pybytes() * 20_000), text]
    )


@pytest.mark.parametrize("read", [_rows, _documents])
@pytest.mark.parametrize("array", [_dictionary(1 << 20), _views()], ids=["dictionary", "views"])
def test_a_text_that_many_rows_of_arrow_refer_to(tmp_path, read, array):
    _arrow_file(tmp_path / "a.arrow", array)
    with pytest.raises(InputError, match=rf"a\.arrow: {_TOO_LARGE}.*If you trust it, write"):
        read(tmp_path / "a.arrow")


@pytest.mark.parametrize("read", [_rows, _documents])
def test_a_text_that_many_rows_of_parquet_refer_to(tmp_path, read):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(
        pa.table({"text": _dictionary(4_000_000)}), path, compression="zstd", store_schema=False,
        write_statistics=False,
    )  # fmt: skip
    assert path.stat().st_size < 3000
    with pytest.raises(InputError, match=rf"a\.parquet: {_TOO_LARGE}"):
        read(path)


def test_categories_of_usual_tables_are_read(tmp_path):
    column = pa.array(["good", None, "bad"] * 100).dictionary_encode()
    numbers = pa.array([10**6, 10**7] * 150).dictionary_encode()
    nested = pa.array([["a", "b"], None, []] * 100, pa.list_(pa.string_view()))
    table = pa.table({"text": column, "number": numbers, "tags": nested})
    expected = [["good", 10**6, ["a", "b"]], [None, 10**7, None], ["bad", 10**6, []]]
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as file:
        file.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        assert [list(row.values.values()) for row in _rows(tmp_path / name)][:3] == expected
        assert [s.sentences for s in _documents(tmp_path / name)] == [["good"], ["bad"]] * 100


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())),
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
        pa.array([{"a": "x"}, None, {"a": None}]),
        pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("2")]).dictionary_encode(),
        pa.array([b"ab", None, b"cd"], pa.binary(2)).dictionary_encode(),
        pa.array([True, None, False]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["a", "b"], pa.string_view())),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array([["a"], ["b", "c"]])),
        pa.nulls(3),
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[]"])),
    ],
    ids=lambda array: str(array.type)[:20],
)  # fmt: skip
def test_values_of_all_types_are_read(tmp_path, array):
    _arrow_file(tmp_path / "a.arrow", array)
    assert [row.values["text"] for row in _rows(tmp_path / "a.arrow")] == array.to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array(["a"])),
        pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array(["a", "b"])]),
        pa.nulls(1 << 20),
    ],
    ids=["runs", "union", "nulls"],
)
def test_types_that_take_no_bytes_or_are_not_followed(tmp_path, array):
    _arrow_file(tmp_path / "a.arrow", array)
    with pytest.raises(InputError, match=r"a\.arrow: .*(values of type (run|sparse)|200 times)"):
        _rows(tmp_path / "a.arrow")


def _workbook(path, change):
    """A workbook of two rows, of which the XML of the sheet is changed."""
    book = openpyxl.Workbook()
    for row in (["text", "label"], ["a film", "good"]):
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data) if name.endswith("sheet1.xml") else data)


@pytest.mark.parametrize(
    "change",
    [
        lambda xml: xml.replace(b'r="2"', b'r="999999999"'),
        lambda xml: re.sub(
            b'<row r="2".*</row>',
            b"".join(b'<row><c r="XFD%d"><v>1</v></c></row>' % n for n in range(2, 3000)), xml,
        ),
        lambda xml: xml + b" " * 10_000_000,
    ],
    ids=["number of a row", "numbers of columns", "size of the XML"],
)  # fmt: skip
def test_workbooks_that_claim_many_cells(tmp_path, change):
    _workbook(tmp_path / "a.xlsx", change)
    with pytest.raises(InputError, match=rf"a\.xlsx: {_TOO_LARGE}"):
        _rows(tmp_path / "a.xlsx")


def test_each_damage_of_a_workbook_is_reported(tmp_path):
    path = tmp_path / "a.xlsx"
    _workbook(path, bytes)
    data = path.read_bytes()
    assert [row.values for row in _rows(path)] == [{"text": "a film", "label": "good"}]
    for start in range(0, len(data), 37):
        path.write_bytes(data[:start] + b"\xff\0\x7f" + data[start + 3 :])
        try:
            _rows(path)
        except InputError as error:
            assert str(path) in str(error)


def test_blank_lines(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * (1 << 16)))
    with pytest.raises(InputError, match=r"a\.jsonl\.gz: has no rows"):
        _rows(path)
    for name, head in (("a.tsv.gz", b"text\tlabel\nb\tc\n"), ("b.jsonl.gz", b'{"text": "a"}\n')):
        path = tmp_path / name
        path.write_bytes(gzip.compress(head + b"\n" * 50_000_000, 1))
        with pytest.raises(InputError, match=f"{name}: has more than 100,000 blank lines in a row"):
            _rows(path)


@pytest.mark.more
@pytest.mark.parametrize("name", ["a.csv.gz", "a.txt.gz", "a.jsonl.xz", "a.wet.bz2"])
def test_compressed_files_of_much_larger_content(tmp_path, name):
    text = {"a.csv": "text,label\n", "a.txt": "", "a.jsonl": "", "a.wet": ""}
    line = {"a.csv": "a,b\n", "a.txt": "A b.\n", "a.jsonl": '{"text": "a"}\n'}
    record = f"WARC/1.0\nWARC-Type: conversion\nContent-Length: 1000\n\n{'a ' * 500}\n\n"
    plain = compressed.name_unpacked(name)
    content = text[plain] + line.get(plain, record) * (1_200_000 // len(line.get(plain, record)))
    module = samples.COMPRESSIONS[f".{name.rpartition('.')[2]}"]
    (tmp_path / name).write_bytes(module.compress(content.encode()))
    with pytest.raises(InputError, match=f"{name}: {_TOO_LARGE}.*If you trust it, write"):
        (_rows if plain == "a.csv" else _documents)(tmp_path / name)
    (tmp_path / plain).write_bytes(content.encode())
    assert (_rows if plain == "a.csv" else _documents)(tmp_path / plain)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"Content-Length: 3000000000", "record 1: has 3000000000 bytes, and a text .* 67,108,864"),
        (b"Content-Length: " + b"9" * 5000, "record 1: has 99999999999999999999 bytes"),
        (b"Content-Length: -1", "record 1: has no Content-Length"),
        (b"a: b\n" * 2000, "record 1: has more than 1000 header fields"),
    ],
)
def test_records_of_the_web_that_claim_much(tmp_path, header, message):
    content = b"WARC/1.0\nWARC-Type: conversion\n" + header + b"\n\ntext\n\n"
    (tmp_path / "a.wet").write_bytes(content)
    with pytest.raises(InputError, match=message):
        _documents(tmp_path / "a.wet")


def test_the_limit_of_a_csv_cell_is_left_to_the_program(tmp_path):
    limit = csv.field_size_limit()
    text = "long " * 50_000
    (tmp_path / "a.csv").write_text(f"text,label\n{text},a\n")
    rows = tables.read_rows(Source(str(tmp_path / "a.csv"), header=True, has_quotes=False))
    assert next(rows).values["text"] == text
    assert csv.field_size_limit() == limit == 131_072
