"""Formats of published data sets: Parquet, Arrow, Excel, nested JSON, files of texts and labels."""

import decimal
import json
import zipfile

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import splits, tables, user_files
from pipelines.labelled.source import Source
from pipelines.labelled.text_files import TextFile, read_words
from tests.pipelines.labelled.labelled_files import read_rows, write

PATTERNS = splits.of_user((), ("",))


def read(path, columns=None):
    source = Source(path, columns or {})
    return [(e.text_a, e.label) for e in user_files.read_texts(source, None, labelled=True)]


@pytest.fixture
def arrow():
    reason = "pyarrow is not installed (bert-tf[tables])"
    pytest.importorskip("pyarrow.parquet", reason=reason)
    return pytest.importorskip("pyarrow", reason=reason)


def _table(arrow, rows, **features):
    """A table as `datasets` writes it: the names of labels are in the metadata of its schema."""
    info = json.dumps({"info": {"features": features}}).encode()
    return arrow.Table.from_pylist(rows).replace_schema_metadata({"huggingface": info})


def _save(arrow, path, table):
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.suffix == ".parquet":
        arrow.parquet.write_table(table, path)
    else:
        with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_stream(file, table.schema) as out:
            out.write_table(table, max_chunksize=1)
    return str(path)


def test_an_arrow_file_is_read_like_a_stream(tmp_path, arrow):
    table = _table(arrow, [{"text": "a", "label": 1}, {"text": "b", "label": 0}], label=NAMES)
    with arrow.ipc.new_file(str(tmp_path / "train.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=1)
    assert read(f"{tmp_path}/train.arrow") == [("a", "pos"), ("b", "neg")]


NAMES = {"names": ["neg", "pos"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    "layout", ["data/{}-{:05}-of-00002.parquet", "data/{}-{:05}-of-00002-0a1b2c.parquet",
               "{}-{:05}-of-00002.parquet", "{}/data-{:05}-of-00002.arrow"],
)  # fmt: skip
def test_data_sets_of_hugging_face_are_read_with_the_names_of_labels(tmp_path, arrow, layout):
    for split in ("train", "validation", "test"):
        for n in range(2):
            rows = [{"text": f"{split} {n}", "label": n}, {"text": "so so", "label": -1}]
            _save(arrow, tmp_path / layout.format(split, n), _table(arrow, rows, label=NAMES))
    write(tmp_path / "dataset_dict.json", '{"splits": ["train", "validation", "test"]}')
    found = splits.find(str(tmp_path), PATTERNS)
    assert found.keys() == {"train", "dev", "test"}
    expected = [("train 0", "neg"), ("so so", "-"), ("train 1", "pos"), ("so so", "-")]
    assert read(found["train"]) == expected
    assert read(found["dev"])[0][0] == "validation 0"
    before = tables.sha256(found["train"])
    second = tmp_path / layout.format("train", 1)
    _save(arrow, second, _table(arrow, [{"text": "new", "label": 1}], label=NAMES))
    assert tables.sha256(found["train"]) != before
    second.unlink()
    with pytest.raises(InputError, match="is the first of 2 files, but there are 1 of them"):
        read(found["train"])


def test_a_saved_data_set_without_splits_is_one_file(tmp_path, arrow):
    path = _save(
        arrow, tmp_path / "data-00000-of-00001.arrow", arrow.table({"text": ["a"], "label": [1]})
    )
    write(tmp_path / "state.json", "{}")
    info = {"features": {"label": NAMES, "text": {"dtype": "string", "_type": "Value"}}}
    write(tmp_path / "dataset_info.json", json.dumps(info))
    assert splits.find(str(tmp_path), PATTERNS) == {"all": path}
    assert read(path) == [("a", "pos")]
    assert [e.text_a for e in TextFile(path)] == ["a"]


def test_lists_and_objects_of_parquet(tmp_path, arrow):
    tags = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "Sequence"}
    rows = [{"tokens": ["Ann", "ran"], "ner_tags": [1, 0]}]
    path = _save(arrow, tmp_path / "train.parquet", _table(arrow, rows, ner_tags=tags))
    (example,) = read_words(Source(path), True)
    assert (example.words, example.tags) == (("Ann", "ran"), ("B-PER", "O"))
    rows = [
        {"question": "Who?", "context": "Ann", "answers": {"text": ["Ann"], "answer_start": [0]}}
    ]
    path = _save(arrow, tmp_path / "span.parquet", arrow.Table.from_pylist(rows))
    (example,) = user_files.read_spans(Source(path), True)
    assert example.answers == (("Ann", 0),)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_damaged_files_are_named(tmp_path, arrow, name):
    path = _save(arrow, tmp_path / name, arrow.table({"text": ["a" * 999], "label": ["x"]}))
    whole = (tmp_path / name).read_bytes()
    for data in (b"", b"text,label\n", whole[: len(whole) // 2]):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=rf"{name}: (is not \w+ data that can be|has no rows)"):
            read(path)
    _save(arrow, tmp_path / name, arrow.table({"text": ["a", "b"], "label": ["x", None]}))
    with pytest.raises(InputError, match=rf"{name}: row 2: label is None, not a text"):
        read(path)


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pyarrow is not installed.*'bert-tf\[tables\]'"):
        read(write(tmp_path / "a.parquet", ""))


@pytest.fixture
def workbook():
    excel = pytest.importorskip("openpyxl", reason="openpyxl is not installed (bert-tf[tables])")

    def save(path, **sheets):
        book = excel.Workbook()
        for name, rows in sheets.items():
            sheet = book.create_sheet(name)
            for row in rows:
                sheet.append(row)
        book.save(path)  # with its first, empty sheet
        return str(path)

    return save


def test_a_workbook_has_a_table(tmp_path, workbook):
    rows = [
        ["text", "note", "label"],
        ["Gut,\nsehr", None, 1],
        [],
        ["Naja", None, 2.0],
        ["", "x", True],
    ]
    path = workbook(tmp_path / "reviews.xlsx", Tabelle1=rows)
    assert read(path) == [("Gut,\nsehr", "1"), ("Naja", "2"), ("", "true")]
    with pytest.raises(InputError, match=r"reviews\.xlsx: row 2: has no column 'stars'"):
        read(path, {"label": "stars"})
    path = workbook(
        tmp_path / "plain.xlsx", Tabelle1=[[5, "Gut, wie immer in diesem Haus"], [1, "Nie wieder"]]
    )
    assert read(path, {"label": "1", "text": "2"})[1] == ("Nie wieder", "1")


def test_sheets_may_be_splits(tmp_path, workbook):
    head = ["text", "label"]
    sheets = {split: [head, [split, 1]] for split in ("Train", "Test")}
    path = workbook(tmp_path / "all.xlsx", **sheets, Notes=[["ask Ann"]])
    found = splits.find(path, PATTERNS)
    assert found == {"train": f"{path}#Train", "test": f"{path}#Test"}
    assert read(found["test"]) == [("Test", "1")]
    with pytest.raises(
        InputError, match=r"has several sheets with rows; name one: .*all\.xlsx#Train"
    ):
        read(path)
    with pytest.raises(InputError, match=r"has no rows in a sheet 'Sheet'; name one: "):
        read(f"{path}#Sheet")


def test_what_is_not_a_workbook_is_named(tmp_path, workbook):
    for name in ("a.xlsx", "a.xls"):
        with pytest.raises(
            InputError, match=rf"{name}: is not an \.xlsx workbook .* save it as \.xlsx"
        ):
            read(write(tmp_path / name, "text,label\n"))
    with pytest.raises(InputError, match=r"b\.xlsx: has no rows"):
        read(workbook(tmp_path / "b.xlsx"))


def _clinc(path, **lists):
    return write(path, json.dumps(lists, indent=4))


def test_splits_may_be_lists_of_one_object(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    pairs = {
        name: [[f"is it {name}", "yes"], ["or not", "no"]] for name in ("val", "train", "test")
    }
    path = _clinc(tmp_path / "data_full.json", oos_val=[["a tree", "oos"]], **pairs)
    found = splits.find(path, PATTERNS)
    assert found == {"train": f"{path}#train", "dev": f"{path}#val", "test": f"{path}#test"}
    assert "not read: oos_val" in caplog.text
    assert read(found["dev"]) == [("is it val", "yes"), ("or not", "no")]
    assert read(f"{path}#oos_val") == [("a tree", "oos")]
    assert read(found["train"], {"text": "1", "label": "2"})[1] == ("or not", "no")
    assert tables.sha256(found["train"]) != tables.sha256(found["dev"])
    with pytest.raises(
        InputError,
        match=r"data_full\.json: is one JSON object \(oos_val, val, .* name one of its lists: .*full\.json#oos_val",
    ):
        read(path)
    with pytest.raises(InputError, match=r"has no list 'dev' with rows; name one of its lists"):
        read(f"{path}#dev")
    path = _clinc(tmp_path / "objects.json", train=[{"text": "a", "label": 1}], validation=[])
    assert splits.find(path, PATTERNS) == {"train": f"{path}#train"}
    assert read(f"{path}#train") == [("a", "1")]
    bad = _clinc(tmp_path / "bad.json", train=[["a", "b"], "c"])
    with pytest.raises(InputError, match=r"bad\.json#train: item 2: is not a JSON object"):
        read(f"{bad}#train")


def test_one_list_stays_one_file(tmp_path):
    for name, text in (
        ("a.json", '[\n{"text": "a", "label": "x"}\n]'),
        ("b.json", '{"text": "a", "label": "x"}\n' * 2),
        ("c.json", '[["a", "x"],\n["a", "x"]]'),
        ("d.jsonl", '["a", "x"]\n["a", "x"]\n'),
    ):
        path = write(tmp_path / name, text)
        assert splits.find(path, PATTERNS) == {"all": path}
        assert set(read(path)) == {("a", "x")}


def test_texts_and_labels_may_be_in_files_of_their_own(tmp_path):
    write(tmp_path / "train_labels.txt", "1\n0\n2")
    write(tmp_path / "val_labels.txt", "0\n")
    for split, text in (
        ("train", 'good\u2028 one 😀\n\nbad, "one\n'),
        ("val", "it\n"),
        ("test", "a\tb\n"),
    ):
        write(tmp_path / f"{split}_text.txt", text)
    write(tmp_path / "mapping.txt", "0\tneg\n")
    found = splits.find(str(tmp_path), PATTERNS)
    assert found == {
        s: f"{tmp_path}/{n}_text.txt"
        for s, n in (("train", "train"), ("dev", "val"), ("test", "test"))
    }
    assert read(found["train"]) == [("good\u2028 one 😀", "1"), ("", "0"), ('bad, "one', "2")]
    assert read(found["dev"]) == [("it", "0")]
    before = tables.sha256(found["dev"])
    write(tmp_path / "val_labels.txt", "1\n0\n0\n")
    assert tables.sha256(found["dev"]) != before
    with pytest.raises(
        InputError, match=r"val_text\.txt: has 1 line, but .*val_labels\.txt has 3; each"
    ):
        read(found["dev"])
    write(tmp_path / "val_text.txt", "a\n" * 5)
    with pytest.raises(
        InputError, match=r"val_text\.txt: has 5 lines, but .*val_labels\.txt has 3; each"
    ):
        read(found["dev"])


TREC = "DESC:manner How did serfdom develop in and then leave Russia ?\nENTY:cremat What films ?\n"


def test_questions_of_trec(tmp_path):
    path = write(tmp_path / "train.txt", TREC)
    assert read(path)[1] == ("What films ?", "ENTY")
    assert read(path, {"label": "fine_label"})[0] == (
        "How did serfdom develop in and then leave Russia ?", "DESC:manner",
    )  # fmt: skip
    (tmp_path / "TREC_10.label").write_bytes("LOC:city What is in Côte ?\n".encode("latin-1"))
    source = Source(f"{tmp_path}/TREC_10.label", encoding="latin-1")
    (example,) = user_files.read_texts(source, None, True)
    assert (example.text_a, example.label) == ("What is in Côte ?", "LOC")
    table = write(tmp_path / "table.txt", "label\ttext\nDESC:manner How ?\tso\n")
    assert read(table) == [("so", "DESC:manner How ?")]
    path = write(tmp_path / "dev.txt", TREC * 501 + "NUM:count\n")
    with pytest.raises(InputError, match=r"dev\.txt: line 1003: is not LABEL:detail and a text"):
        read(path)


def test_times_are_texts(tmp_path, arrow):
    time = arrow.array([1700000000123456789], arrow.timestamp("ns"))
    far = arrow.array([10**14], arrow.timestamp("s"))
    table = arrow.table({"text": ["a"], "label": ["x"], "at": time, "far": far})
    path = _save(arrow, tmp_path / "train.parquet", table)
    (row,) = read_rows(path)
    assert row.text("at") == "2023-11-14 22:13:20.123456789" and row.text("far")


def test_decimals_are_texts(tmp_path, arrow):
    values = arrow.array([decimal.Decimal("1.50")])
    path = _save(arrow, tmp_path / "train.parquet", arrow.table({"text": ["a"], "label": values}))
    assert read_rows(path)[0].text("label") == "1.50"


def test_two_columns_of_one_name_are_refused(tmp_path, arrow):
    table = arrow.Table.from_arrays([arrow.array(["a"])] * 2, ["text", "text"])
    for name in ("x.parquet", "x.arrow"):
        path = _save(arrow, tmp_path / name, table)
        with pytest.raises(InputError, match=f"{name}: has two columns 'text'"):
            read_rows(path)


def _with_sheet(path, change):
    """Changes the XML of a workbook's second sheet; its first is empty."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(name, change(data) if name.endswith("sheet2.xml") else data)


def test_a_workbook_that_states_a_wrong_size_or_is_cut(tmp_path, workbook):
    rows = [["text", "label"], *([f"text {n}", "x"] for n in range(5))]
    path = workbook(tmp_path / "train.xlsx", Train=rows)
    _with_sheet(path, lambda xml: xml.replace(b'ref="A1:B6"', b'ref="A1:B2"'))
    assert len(read(path)) == 5
    _with_sheet(path, lambda xml: xml[: len(xml) // 2])
    with pytest.raises(InputError, match="is not an .xlsx workbook that can be read"):
        read(path)
