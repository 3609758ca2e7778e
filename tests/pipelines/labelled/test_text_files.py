"""Texts without labels: lines, and columns of tables, of which some at a time are in memory."""

import gzip
import itertools
import json
import os
import threading

import pyarrow
import pytest
from pyarrow import parquet

from pipelines.common.errors import InputError
from pipelines.labelled import text_files, text_lines
from pipelines.labelled.schema import TextExample
from pipelines.labelled.text_files import TextFile
from tests.pipelines.labelled.labelled_files import write


def read(path, columns=None, header=None):
    return [(e.key, e.text_a, e.text_b) for e in TextFile(path, columns or {}, header)]


def test_each_line_is_a_text_an_empty_one_too(tmp_path):
    path = write(tmp_path / "a.txt", "\ufefffirst\r\n\n  a,b\tc \n\nlast")
    found = list(TextFile(path))
    assert [(e.key, e.text_a) for e in found] == [
        ("0", "first"), ("1", ""), ("2", "  a,b\tc "), ("3", ""), ("4", "last"),
    ]  # fmt: skip
    assert found[2].place == f"{path}: line 3"
    assert text_files.check(TextFile(path)) == 5


def test_lines_may_end_in_other_ways_and_be_packed(tmp_path):
    wanted = [("0", "a", None), ("1", "", None), ("2", "b", None)]
    for name, text in (("a.txt", "a\n\nb\n"), ("a", "a\r\n\r\nb"), ("a.md", "a\r\rb\r")):
        assert read(write(tmp_path / name, text)) == wanted
    assert read(write(tmp_path / "a.txt.gz", gzip.compress(b"a\n\nb\n", mtime=0))) == wanted


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.tsv", "text\tn\nx y\t1\nz\t2\n", {}),
        ("a.csv", "n,review\n1,x y\n2,z\n", {"text": "review"}),
        ("a.csv", "1,x,y\n2,z,\n", {"text": "2+3"}),
        ("a.jsonl", '{"a": {"text": "x y"}}\n\n{"a": {"text": "z"}}\n', {"text": "a.text"}),
        ("a.json", '[{"text": "x y"}, {"text": "z"}]', {}),
        ("a.txt", "1\tx y\n2\tz\n", {"text": "2"}),
    ],
)
def test_tables_have_their_texts_in_a_column(tmp_path, name, text, columns):
    path = write(tmp_path / name, text)
    assert read(path, columns) == [("0", "x y", None), ("1", "z", None)]
    assert read(write(tmp_path / f"{name}.gz", gzip.compress(text.encode())), columns)


def test_an_id_is_kept(tmp_path):
    path = write(tmp_path / "a.csv", "id,number,text\nx,7,one\ny,8,two\n")
    assert [key for key, *_ in read(path)] == ["x", "y"]
    assert [key for key, *_ in read(path, {"id": "number", "text": "text"})] == ["7", "8"]


def test_pairs_are_named(tmp_path):
    path = write(tmp_path / "a.csv", "question1,question2\nWho?,What?\n")
    chosen = {"text_a": "question1", "text_b": "question2"}
    assert read(path, chosen) == [("0", "Who?", "What?")]
    assert read(path, {"text": "question2"}) == [("0", "What?", None)]
    with pytest.raises(InputError, match=r"two columns of texts, 'question1' and 'question2'; nam"):
        read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text_a": "x"}, "name either text, or both text_a and text_b"),
        ({"text": "x", "text_b": "y"}, "name either text, or both text_a and text_b"),
        ({"label": "x"}, "'label' is not a role of a column here; roles are text, or text_a"),
        ({"words": "x"}, "'words' is not a role of a column here"),
        ({"text": "gone"}, r"a\.csv: line 2: has no column 'gone'; it has x, y"),
    ],
)
def test_other_columns_are_refused(tmp_path, columns, message):
    path = write(tmp_path / "a.csv", "x,y\n1,2\n")
    with pytest.raises(InputError, match=message):
        text_files.check(TextFile(path, columns, True))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"a\nb \xff\nc", r"a\.txt: line 2: byte 4 is not UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xe4"}', r"line 2: byte 24 is not UTF-8"),
        ("a.txt", b"", r"a\.txt: is empty"),
        ("a.tsv", b"text\n", r"a\.tsv: has no rows"),
        (
            "a.txt.gz",
            gzip.compress(b"a\n" * 99, mtime=0)[:-9],
            "the compressed data is truncated or damaged",
        ),
        ("a.jsonl", b'{"text": null}', r"a\.jsonl: line 1: text is None, not a text"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_done(tmp_path, name, data, message):
    with pytest.raises(InputError, match=message):
        text_files.check(TextFile(write(tmp_path / name, data)))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.txt: no such file"):
        text_files.check(TextFile(f"{tmp_path}/gone.txt"))


def test_lines_that_look_like_a_table_are_told(tmp_path, caplog):
    path = write(tmp_path / "a.txt", "good\tfine film\nbad\tdull\n")
    text_files.check(TextFile(path))
    assert "a.txt: its lines have tabs" in caplog.text
    caplog.clear()
    text_files.check(TextFile(path, {"text": "2"}))
    assert "tabs" not in caplog.text


def test_what_was_read_of_a_header_is_said_once(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    source = TextFile(write(tmp_path / "a.csv", "1,good film\n2,bad\n"), {"text": "2"})
    assert text_files.check(source) == text_files.check(source) == 2
    assert caplog.text.count("the first line is data and not a header") == 1


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv", "a.jsonl"])
def test_texts_are_read_one_after_the_other(tmp_path, name):
    """What is wrong far behind is not seen by who reads the first texts alone."""
    line = json.dumps({"text": "a"}) if name == "a.jsonl" else "a"
    head = "" if name in ("a.jsonl", "a.txt") else "text\n"
    path = write(tmp_path / name, (head + (line + "\n") * 5000).encode() + b"\xff")
    first = list(itertools.islice(TextFile(path), 100))
    assert [example.text_a for example in first] == ["a"] * 100
    with pytest.raises(InputError, match="is not UTF-8"):
        text_files.check(TextFile(path))


def test_blocks_are_the_same_from_any_of_their_ends_on():
    examples = [TextExample(str(n), "", "x" * (n % 700)) for n in range(9000)]
    whole = list(text_files.blocks(examples))
    assert list(itertools.chain(*whole)) == examples
    assert max(map(len, whole)) <= 4096 and len(whole) > 2
    done = len(whole[0]) + len(whole[1])
    assert list(text_files.blocks(examples[done:])) == whole[2:]
    (alone, *_) = text_files.blocks([TextExample("1", "", "x" * 2_000_000), *examples])
    assert len(alone) == 1


def test_what_texts_follow_from_names_no_path(tmp_path):
    path = write(tmp_path / "a.csv", "text\na\n")
    one = TextFile(path, {"text": "text"}).identity()
    assert one == TextFile(write(tmp_path / "b.csv", "text\na\n"), {"text": "text"}).identity()
    assert one != TextFile(path).identity()
    assert str(tmp_path) not in json.dumps(one)


def test_lists_of_a_file_are_different_texts(tmp_path):
    parts = {"train": [{"text": "a"}], "dev": [{"text": "b"}]}
    (tmp_path / "x.json").write_text(json.dumps(parts))
    train, dev = (TextFile(f"{tmp_path}/x.json#{part}") for part in parts)
    assert [text.text_a for text in train] == ["a"]
    assert train.identity() != dev.identity()


def test_lines_are_those_of_the_whole_text(tmp_path):
    for number, text in enumerate(("", "a", "a\n", "\ufeffa\r\nb\n\n", "a\rb\r", "é\n\u2028x\n")):
        path = write(tmp_path / f"{number}.txt", text)
        lines = list(text_lines.read_lines(path))
        assert "".join(lines) == text_lines.read_text(path)
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines[:-1])


def test_lines_may_have_pairs(tmp_path):
    path = write(tmp_path / "a.txt", "a ||| b ||| c\nalone\n ||| x\n")
    source = TextFile(path, pair_separator=" ||| ")
    assert [(e.text_a, e.text_b) for e in source] == [
        ("a ||| b", "c"), ("alone", None), ("", "x"),
    ]  # fmt: skip
    assert source.identity() != TextFile(path).identity()
    assert "pair_separator" not in TextFile(path).identity()
    with pytest.raises(InputError, match="is a table; name the columns of its pairs"):
        list(TextFile(write(tmp_path / "a.csv", "text\nx\n"), pair_separator="+"))


def test_labels_are_read_where_they_are_and_wanted(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\nx,1\ny,\n")
    assert [e.label for e in TextFile(path, labelled=True)] == ["1", None]
    assert [e.label for e in TextFile(path)] == [None, None]
    named = write(tmp_path / "b.csv", "text,stars\nx,5\n")
    assert [e.label for e in TextFile(named, {"label": "stars"}, labelled=True)] == ["5"]
    assert [e.label for e in TextFile(named, labelled=True)] == [None]
    with pytest.raises(InputError, match="'label' is not a role of a column here"):
        list(TextFile(named, {"label": "stars"}))
    with pytest.raises(InputError, match="and text_b, and label and id"):
        list(TextFile(named, {"words": "stars"}, labelled=True))


def test_a_table_is_opened_once(tmp_path):
    """So that it may be a pipe."""
    os.mkfifo(tmp_path / "pipe")
    text = "".join(f"{n}\n" for n in range(3000))
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writer.start()
    found = [each.text_a for each in TextFile(f"{tmp_path}/pipe", header=False)]
    writer.join()
    assert found == text.split()


def test_the_names_of_labels_beside_a_file_are_part_of_it(tmp_path):
    table = pyarrow.table({"text": ["a"], "label": [0]})
    parquet.write_table(table, tmp_path / "x.parquet")
    found = set()
    for names in (None, ["bad", "good"], ["neg", "pos"]):
        if names:
            label = {"_type": "ClassLabel", "names": names}
            info = json.dumps({"features": {"label": label}})
            (tmp_path / "dataset_info.json").write_text(info)
        source = TextFile(f"{tmp_path}/x.parquet", {}, labelled=True)
        found.add((json.dumps(source.identity()), next(iter(source)).label))
    assert {label for _, label in found} == {"0", "bad", "neg"}
    assert len({identity for identity, _ in found}) == 3
