"""Tables that spreadsheets and older programs write: other encodings and delimiters."""

import codecs
import csv
import io
import json
import re

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import conll, labels, text_lines, user_files
from pipelines.labelled.source import Source
from pipelines.labelled.text_files import TextFile
from tests.pipelines.labelled.labelled_files import write


def read(path, columns=None, **how):
    source = Source(path, columns or {}, **how)
    return [(e.text_a, e.label) for e in user_files.read_texts(source, None, labelled=True)]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("cp1252", "schön €"), ("latin-1", "Größe"), ("utf-16", "Größe"), ("shift_jis", "良い映画")],
)
def test_other_encodings_are_read_as_named(tmp_path, encoding, text):
    path = write(tmp_path / "a.csv", f"text,label\r\n{text},gut\r\n", encoding)
    assert read(path, encoding=encoding) == [(text, "gut")]
    path = write(tmp_path / "a.jsonl", json.dumps({"text": text, "label": "1"}), encoding)
    assert read(path, encoding=encoding) == [(text, "1")]
    path = write(tmp_path / "a.conll", f"{text.split()[0]} X\n\nso Y\n", encoding)
    words = list(conll.read(Source(path, encoding=encoding)))
    assert [example.words for example in words] == [(text.split()[0],), ("so",)]
    path = write(tmp_path / "classes.txt", f"{text}\nx\n", encoding)
    assert labels.read([path], encoding) == ({}, (text, "x"))
    path = write(tmp_path / "a.txt", f"{text}\n\n", encoding)
    assert [e.text_a for e in TextFile(path, encoding=encoding)] == [text, ""]
    assert TextFile(path, encoding=encoding).identity()["encoding"] == encoding


@pytest.mark.parametrize(
    ("data", "likely"),
    [
        ("schön".encode("cp1252"), "cp1252"),
        (b"caf\xe9 \x81", "latin-1"),
        (codecs.BOM_UTF16_LE + "schön".encode("utf-16-le"), "utf-16"),
        (codecs.BOM_UTF16_BE + "schön".encode("utf-16-be"), "utf-16"),
    ],
)
def test_an_unreadable_byte_suggests_an_encoding(tmp_path, data, likely):
    path = tmp_path / "a.csv"
    path.write_bytes(data + b",x\n")
    with pytest.raises(
        InputError, match=rf"a\.csv: line 1: byte \d+ is not UTF-8; .* --encoding={likely}\."
    ):
        read(str(path))


def test_a_damaged_byte_of_utf8_is_not_taken_for_another_encoding(tmp_path, caplog):
    rows = ["Grün ist schön\tgut\n"] * 5
    data = ("text\tlabel\n" + "".join(rows)).encode() + b"Gr\xfcn\tgut\n" + rows[0].encode()
    (tmp_path / "a.tsv").write_bytes(data)
    for name, text in (("a.tsv", data), ("a.json", b'[\n{"text": "' + data + b'", "label": 1}]')):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(InputError) as error:
            read(f"{tmp_path}/{name}")
        message = (
            r"line \d: byte \d+ is not UTF-8, and the rest of the file is \(1 damaged byte in all"
        )
        assert re.search(message, str(error.value)) and "--utf8_errors=replace" in str(error.value)
    found = read(f"{tmp_path}/a.tsv", encoding=text_lines.UTF8_REPLACED)
    assert found[4:] == [("Grün ist schön", "gut"), ("Gr\ufffdn", "gut"), ("Grün ist schön", "gut")]
    assert "a.tsv: 1 line with U+FFFD" in caplog.text
    # Where most is not UTF-8, it is another encoding.
    (tmp_path / "a.tsv").write_bytes("Grün\tgut\n".encode() + b"Gr\xfcn\tgut\n" * 2)
    with pytest.raises(InputError, match="perhaps --encoding=cp1252"):
        read(f"{tmp_path}/a.tsv")


def test_unknown_and_wrong_encodings_are_named(tmp_path):
    for name in ("utf-99", "base64"):
        with pytest.raises(InputError, match=f"--encoding={name}: is not the name of an encoding"):
            Source("a.csv", encoding=name)
    path = write(tmp_path / "a.csv", "text,label\nok,x\n\x81,y\n", "latin-1")
    with pytest.raises(InputError, match=r"line 3: byte 16 is not CP1252; .*--encoding=latin-1"):
        read(path, encoding="cp1252")


@pytest.mark.parametrize("mark", [",", "\t", ";", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
def test_the_delimiter_is_that_of_the_header(tmp_path, caplog, mark, ending):
    caplog.set_level("INFO", logger="absl")
    path = write(tmp_path / f"a.{ending}", f"Text{mark}Klasse\nSehr gut.{mark}5\nNaja.{mark}3\n")
    names = {"text": "Text", "label": "Klasse"}
    assert read(path, names) == [("Sehr gut.", "5"), ("Naja.", "3")]
    format_ = {",": "comma-", "\t": "tab-", ";": "semicolon-", "|": "separated by |"}[mark]
    assert f"a.{ending}: {format_}" in caplog.text
    # Usual names need not be given; and columns by number need no header.
    usual = write(tmp_path / f"b.{ending}", f"label{mark}text\n1{mark}So, so; it is.\n")
    if mark in "\t|":
        assert read(usual) == [("So, so; it is.", "1")]
    path = write(tmp_path / f"c.{ending}", f"5{mark}Sehr gut.\n3{mark}Naja.\n")
    assert read(path, {"label": "1", "text": "2"})[1] == ("Naja.", "3")


def test_cells_may_have_delimiters_in_quotes(tmp_path):
    path = write(tmp_path / "a.csv", 'text;label\n"Gut; ""sehr"" gut,\nja";5\n')
    assert read(path) == [('Gut; "sehr" gut,\nja', "5")]


def test_texts_may_have_the_usual_delimiter(tmp_path):
    rows = "Great, really great;1\n\nBad;2\nSo, so, la la;3\n"
    expected = [("Great, really great", "1"), ("Bad", "2"), ("So, so, la la", "3")]
    assert read(write(tmp_path / "a.csv", rows), {"text": "1", "label": "2"}) == expected
    assert read(
        write(tmp_path / "b.csv", "Text, short;label\n" + rows), {"text": "Text, short"}
    ) == (expected)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("a.tsv", "good, really\t1\nbad, really\t2\nodd, one\n", "line 3: has too few columns"),
        ("a.csv", "good; really,1\nbad; really,2\nodd; one, with,3\n", "line 3: has too many col"),
    ],
)
def test_a_wrong_row_does_not_change_the_delimiter(tmp_path, name, rows, message):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / name, rows), {"text": "1", "label": "2"})


def test_two_delimiters_that_fit_are_not_guessed_among(tmp_path):
    rows = "good stone;0,0\nbad stone;1,3\n"
    for ending in ("csv", "tsv"):
        path = write(tmp_path / f"a.{ending}", rows)
        with pytest.raises(InputError, match="comma-separated or semicolon-separated.*first line"):
            read(path, {"text": "1", "label": "2"})
    path = write(tmp_path / "b.csv", f"text;label\n{rows}")
    assert read(path) == [("good stone", "0,0"), ("bad stone", "1,3")]
    path = write(tmp_path / "c.txt", "3,5;Gut, ja\n1,5;Nein\n")
    assert read(path, {"text": "2", "label": "1"}) == [("Gut, ja", "3,5"), ("Nein", "1,5")]


def test_a_label_is_no_header_of_columns_by_number(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    path = write(tmp_path / "a.csv", "I love it,positive\nI hate it,negative\n")
    assert len(read(path, {"text": "1", "label": "2"})) == 2
    path = write(tmp_path / "b.csv", "text,label\nI love it,positive\n")
    assert len(read(path, {"text": "1", "label": "2"})) == 1
    assert "b.csv: the first line is a header: it has text, label" in caplog.text


def test_tabs_stay_where_cells_have_quotes(tmp_path):
    rows = [("Rome, Italy", "EU"), ('"Lima, Peru', "SA"), ("Oslo, Norway", "EU")]
    path = write(tmp_path / "a.tsv", "".join(f"{text}\t{label}\n" for text, label in rows))
    assert read(path, {"text": "1", "label": "2"}) == rows


def test_a_file_of_blank_lines_has_no_columns(tmp_path):
    with pytest.raises(InputError, match=r"a\.csv: line 1: has one column"):
        read(write(tmp_path / "a.csv", " \n \n"), {"text": "1"})


def test_texts_with_commas_in_one_column_stay_whole(tmp_path):
    path = write(tmp_path / "cities.tsv", "Paris, France\nRome, Italy\nParis, Texas\n")
    found = list(user_files.read_texts(Source(path, header=False), False, False))
    assert [e.text_a for e in found] == ["Paris, France", "Rome, Italy", "Paris, Texas"]
    # Also where a model was trained with columns by number.
    source = Source(path, usual={"label": "1", "text": "2"})
    assert list(user_files.read_texts(source, False, False)) == found


def test_unknown_names_with_another_delimiter_are_reported(tmp_path):
    path = write(tmp_path / "a.csv", "Kommentar;Urteil\nGut.;5\n")
    with pytest.raises(
        InputError, match="has one column, 'Kommentar;Urteil'; name its columns.*--no_header"
    ):
        read(path)
    assert read(path, {"text": "Kommentar", "label": "Urteil"}) == [("Gut.", "5")]


TEXTS = [("So\ngut", "a"), ('"Nie" wieder', "b"), ("Ein\tTab", "a"), ("Es war gut", "b"), ("", "5")]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_of_tables_with_tabs_are_removed_as_programs_write_them(tmp_path, quoting, end):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter="\t", quoting=quoting, lineterminator=end).writerows(
        [("text", "label"), *TEXTS]
    )
    assert read(write(tmp_path / "a.tsv", text.getvalue())) == TEXTS


@pytest.mark.parametrize(
    "rows",
    [
        [('He said "no"', "a"), ("Fine", "b")],
        [('"Great"', "a"), ("Fine", "b")],  # needs no quotes
        [('"Great', "a"), ('so far"', "b")],
        [('"A" and "B"', "a"), ("Fine", "b")],
        [('5" disk', "a"), ('"', "b")],
    ],
)
def test_other_quotes_are_characters(tmp_path, rows):
    table = "".join(f"{text}\t{label}\n" for text, label in rows)
    assert read(write(tmp_path / "a.tsv", f"text\tlabel\n{table}")) == rows


def test_files_for_fast_text(tmp_path):
    for name in ("train.txt", "train.ft.txt", "cooking.train"):
        path = write(tmp_path / name, "__label__2 Good: so, so\n\n__label__1 Bad\n")
        assert read(path) == [("Good: so, so", "2"), ("Bad", "1")]
    path = write(tmp_path / "train.txt", "__label__2 Good\n__label__1 __label__3 Bad\n")
    found = user_files.read_multilabel(Source(path), True)
    assert [each.labels for each in found] == [("2",), ("1", "3")]
    with pytest.raises(InputError, match=r"line 2: label is a list, .*--task=multilabel"):
        read(path)
    with pytest.raises(InputError, match="line 2: does not begin with __label__"):
        read(write(tmp_path / "train.txt", "__label__2 Good\nBad\n"))


def test_lists_of_sentences_are_sources_and_lists_of_targets_are_asked_about(tmp_path):
    """SciTLDR has several references."""
    row = {"source": ["It rained. ", "It snowed."], "target": ["Rain."]}
    path = write(tmp_path / "a.jsonl", json.dumps(row))
    (found,) = user_files.read_generation(Source(path), True)
    assert (found.source, found.target) == ("It rained. It snowed.", "Rain.")
    path = write(tmp_path / "a.jsonl", json.dumps(row | {"target": ["Rain.", "Wet."]}))
    with pytest.raises(InputError, match=r"target has 2 texts; write one. .* jq -c '\.target \|= "):
        list(user_files.read_generation(Source(path), True))
