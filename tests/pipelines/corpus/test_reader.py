"""Corpus readers: formats, splits and bad input."""

import bz2
import gzip
import html
import json
import lzma
import os

import pyarrow as pa
import pyarrow.parquet
import pytest

from pipelines.common.errors import InputError
from pipelines.corpus import reader
from tests.conftest import make_documents, write_documents

STRICT = reader.ReadOptions()


def read(path, split_bytes=1 << 20, file_format="auto", options=STRICT):
    found = reader.open_corpus(str(path), file_format)
    sections = [
        section
        for split in reader.plan_ranges(found, split_bytes)
        for section in reader.read_sections(split, options)
    ]
    documents = {}
    for section in sections:
        documents.setdefault(section.document, []).extend(section.sentences)
    return list(documents.values())


def test_without_blank_lines_each_range_is_read_once(tmp_path, monkeypatch):
    read_lines = []
    original = reader._Lines.__iter__

    def counted(lines):
        for line in original(lines):
            read_lines.append(line)
            yield line

    monkeypatch.setattr(reader._Lines, "__iter__", counted)
    path = tmp_path / "a.txt"
    sentences = [f"This is sentence {number} of all." for number in range(2000)]
    path.write_text("\n".join(sentences) + "\n")
    assert read(path, 1000, "sentences") == [sentences]
    assert len(read_lines) < 2.2 * len(sentences)  # the first range, and all others together


def test_a_pipe_beside_a_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("Text.\n")
    os.mkfifo(tmp_path / "b.txt")
    with pytest.raises(InputError, match=r"b\.txt: is not a regular file"):
        reader.open_corpus(f"{tmp_path}/*.txt")


def test_gzip_and_plain_are_alike(tmp_path):
    documents = make_documents(5)
    plain = write_documents(tmp_path / "a.txt", documents)
    with open(plain, "rb") as file, gzip.open(tmp_path / "b.gz", "wb") as packed:
        packed.write(file.read())
    assert read(tmp_path / "b.gz") == documents


def test_prose_is_one_document_a_file(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(
            f"This is file {name}, whose prose was wrapped at some\nwidth. It goes on, and the "
            "lines are wrapped\nas they come. The end of it.\n" * 3
        )
    documents = read(tmp_path / "*.txt")
    assert [len(document) for document in documents] == [9, 9]
    assert documents[1][0] == "This is file b, whose prose was wrapped at some width."
    assert documents[1][1] == " It goes on, and the lines are wrapped as they come."


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_prose_keeps_what_parts_sentences_and_paragraphs(tmp_path, line_end):
    lines = ["", "HEADING", "A line. Two.", " \t", "", "  Indented.  Four.", ""]
    (tmp_path / "a.txt").write_bytes(line_end.join(lines).encode())
    assert read(tmp_path / "a.txt", file_format="prose") == [
        ["HEADING", "\nA line.", " Two.", "\n\nIndented.", "  Four."]
    ]


def test_characters_are_counted_without_the_white_space_between_sentences(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"One. Two.\n\nThis was \r\n wrapped.")
    corpus = reader.open_corpus(f"{tmp_path}/a.txt", "prose")
    (file_range,) = reader.plan_ranges(corpus, 1 << 20)
    (section,) = reader.read_sections(file_range, reader.ReadOptions())
    assert section.sentences[:2] == ["One.", " Two."]
    assert section.characters == len("One.Two.This was wrapped.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One sentence a line.\nAnother one here.\n\nA new document.\n", "sentences"),
        ("No full stop at all\nNone here\n\nNor here\n", "sentences"),
        ('{"text": "Some text."}\n', "jsonl"),
        ('{"text": "Some text.", "score": NaN}\n', "jsonl"),
        ('{"text": "' + "Some text. " * 30_000 + '"}\n', "jsonl"),
        ('\n{"text": "' + "Some text. " * 30_000 + '"}\n', "jsonl"),
        ("{brace} " * 40_000, "sentences"),
        ("A title\n" + "Some text. " * 30_000, "prose"),
        ("A paragraph of text. It has two.\n\nAnother one. Also two.\n", "prose"),
        ("the lines of this\nprose are wrapped and\ngo on in lower case\n" * 9, "prose"),
    ],
)
def test_formats_are_detected(tmp_path, text, expected):
    (tmp_path / "a").write_text(text)
    assert reader.open_corpus(str(tmp_path / "a"))[0].format == expected


def test_long_documents_come_in_sections_of_one_document(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "SECTION_CHARACTERS", 100)
    document = make_documents(1)[0]
    path = write_documents(tmp_path / "a.txt", [document])
    split = reader.plan_ranges(reader.open_corpus(path), 1 << 20)[0]
    sections = list(reader.read_sections(split, STRICT))
    assert len(sections) > 1
    assert len({section.document for section in sections}) == 1
    assert [s for section in sections for s in section.sentences] == document


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Good line.\nBad \xff\xfe byte.\n", r"a.txt: line 2, byte 15: byte 0xff is not UTF-8.*replace"),
        ("é".encode() * 9 + b"\n\xff\n", r"line 2, byte 19: .* 9 other letters .* are, so it is damaged"),
        ("é\nDer Bär".encode("latin-1"), r"line 1, byte 0: .*; convert .* iconv -f .*; or, if a few"),
        (b"Good line.\n\nNUL \0 here.\n", r"a.txt: line 3, byte 16: a NUL byte"),
        (
            gzip.compress(b"One. Two.", mtime=0),  # workers of pytest compare the names of tests
            r"the file is compressed, .*name does not say; rename it to \*.gz",
        ),
        (lzma.compress(b"One. Two."), r"the file is compressed, .*name does not say; rename it to \*.xz"),
        (b"One.\n" + b"x" * 11_000_000, r"a.txt: at or after line 2: a line of more than 10 MB"),
        (b"One.\n" + b"x" * 50_000_000 + b"\nTwo.\n", r"a.txt: at or after line 2: a line of"),
        (b'{"text": "a"}\n{"text": \n', r"a.txt: line 2: is not JSON"),
        (b'{"text": "a"}\n' + b"[" * 100_000, r"a.txt: line 2: is not JSON .*nested too deeply"),
        (b'{"text": "a"}\n[1]\n', r"line 2: no field 'text'"),
        (b"One.\rTwo.\r\rThree.\r", r"a.txt: its lines end with a carriage return alone; make"),
        (b'{"text": "a"}\n{"body": "b"}\n', r"line 2: no field 'text'; name it with --text_field"),
        (b'{"text": "a"}\n{"text": 3}\n', r"line 2: field 'text' is not a string"),
    ],
)  # fmt: skip
def test_bad_input_is_named(tmp_path, data, message):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.txt")


def test_a_text_of_null_is_empty(tmp_path):
    (tmp_path / "a.txt").write_text('{"text": "One."}\n{"text": null}\n{"text": "Two."}\n')
    assert [text for text in read(tmp_path / "a.txt") if text] == [["One."], ["Two."]]


def test_bad_bytes_can_be_replaced(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"Bad \xff byte.\nNUL \0here.\n")
    options = reader.ReadOptions(utf8_errors="replace")
    assert read(tmp_path / "a.txt", options=options) == [["Bad \ufffd byte.", "NUL here."]]


def test_nothing_to_read_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        reader.open_corpus(str(tmp_path / "none*"))
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match="the corpus is empty"):
        reader.open_corpus(str(tmp_path / "*.txt"))


@pytest.mark.parametrize(("module", "ending"), [(gzip, "gz"), (bz2, "bz2"), (lzma, "xz")])
def test_compressed_files_are_read_and_damaged_ones_are_named(tmp_path, module, ending):
    path = tmp_path / f"a.{ending}"
    data = module.compress(b"A sentence is here.\n" * 5000)
    path.write_bytes(data)
    assert sum(map(len, read(path))) == 5000
    for damaged in (data[:-20], b"nothing that is compressed"):
        path.write_bytes(damaged)
        with pytest.raises(
            InputError, match=f"a.{ending}: the compressed data is truncated or dam"
        ):
            read(path)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.bz2", "A.TGZ"])
def test_archives_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(InputError, match=f"{name}: is an archive; unpack it"):
        reader.open_corpus(str(tmp_path / name))


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "Some text."}\n')
    assert read(tmp_path / "a.jsonl") == [["Some text."]]
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfSome text.\n\nMore of it.\n")
    for split_bytes in (1, 5, 1 << 20):
        assert read(tmp_path / "b.txt", split_bytes) == [["Some text."], ["More of it."]]


def test_half_a_surrogate_pair_in_json_is_replaced(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Half \\ud800 of it."}\n')
    assert read(tmp_path / "a.jsonl") == [["Half \ufffd of it."]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", json.dumps([{"text": "It rained."}]), "is JSON, but not an object per line"),
        ("a.json", json.dumps({"a": [{"text": "x"}]}, indent=1), "is JSON, but not an object"),
        ("a.csv", "id,text\n1,It rained.\n", "is a table; write its texts as JSON Lines"),
    ],
)
def test_what_is_no_text_is_not_read_as_such(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        reader.open_corpus(f"{tmp_path}/{name}")
    assert reader.open_corpus(f"{tmp_path}/{name}", "sentences")[0].format == "sentences"


def _articles(texts, path):
    """What WikiExtractor writes with and without --json."""
    lines = [json.dumps({"id": str(n), "title": "T", "text": text}) for n, text in enumerate(texts)]
    path.with_suffix(".json").write_text("\n".join(lines))
    articles = (
        f'<doc id="{n}" url="https://a.b?curid={n}" title="A &quot;B&quot;">\n'
        f"{html.escape(text, quote=False)}\n\n</doc>\n"
        for n, text in enumerate(texts)
    )
    path.write_text("".join(articles))


@pytest.mark.parametrize("range_bytes", [1, 150, 1 << 20])
def test_articles_of_wikiextractor(tmp_path, range_bytes):
    path = tmp_path / "wiki_00"
    texts = [f"Title {n}\n\nIs {n} < 3 & so on? It is.\nThe end of it." for n in range(9)]
    _articles(texts, path)
    (file,) = reader.open_corpus(str(path))
    assert file.format == "wikiextractor"
    expected = ["Title 1", "\n\nIs 1 < 3 & so on?", " It is.", "\nThe end of it."]
    found = read(path, range_bytes)
    assert len(found) == 9 and found[1] == expected
    assert found == read(tmp_path / "wiki_00.json")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("", r"wiki_00: line 3: the last article has no </doc>"),
        ('<doc id="2">\n</doc>\n', r"wiki_00: line 4: <doc> in an article; is a </doc> missing"),
        ("</doc>\nwords\n", r"wiki_00: line 5: 'words' is neither <doc> nor in an article"),
        ("words \n" * 2_000_000, r"wiki_00: line \d+: an article above 10 MB"),
    ],
    ids=["no end", "two beginnings", "text between articles", "long"],
)
def test_damaged_articles_are_named(tmp_path, end, message):
    (tmp_path / "wiki_00").write_text(f'<doc id="1" title="T">\nA text.\n\n{end}')
    with pytest.raises(InputError, match=message):
        read(tmp_path / "wiki_00")


def test_files_of_different_fields(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "One.", "body": "no"}\n{"body": "Two."}\n')
    (tmp_path / "b.jsonl").write_text('{"x,y": "Three.", "x": "no"}\n')
    pa.parquet.write_table(pa.table({"body": ["Four."]}), tmp_path / "c.parquet")

    def found(name, text_field):
        return read(tmp_path / name, options=reader.ReadOptions(text_field))

    assert found("a.jsonl", "text,body") == [["One."], ["Two."]]
    assert found("b.jsonl", "x,y") == [["Three."]]  # the name of one field
    assert found("c.parquet", "text,body") == [["Four."]]
    with pytest.raises(InputError, match="no column 'text,content'; name one of body with --text"):
        found("c.parquet", "text,content")
