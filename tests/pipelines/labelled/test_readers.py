"""Readers of labelled files: layouts, and errors that name file and line."""

import bz2
import gzip
import json
import lzma

import pyarrow as pa
import pytest

from bert_tf.tasks import make
from pipelines.common.errors import InputError
from pipelines.labelled import conll, glue, multiple_choice, splits, user_files
from pipelines.labelled.schema import AnswerSpan
from pipelines.labelled.source import Source
from tests.pipelines.labelled.labelled_files import read_rows, write


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=lambda module: module.__name__)
def test_a_compressed_file_whose_name_does_not_say_so_is_told(tmp_path, module):
    path = tmp_path / "train.tsv"
    path.write_bytes(module.compress(b"text\tlabel\na\tb\n"))
    with pytest.raises(InputError, match="train.tsv: the file is compressed, .*; rename it to"):
        list(user_files.read_texts(Source(str(path)), None, labelled=True))


def test_tables_of_three_formats_say_the_same(tmp_path):
    rows = [{"text": 'say "a, b"', "label": "x"}, {"text": "c", "label": "y"}]
    tsv = write(tmp_path / "a.tsv", '\ufefftext\tlabel\r\nsay "a, b"\tx\r\nc\ty\r\n')
    csv = write(tmp_path / "a.csv", 'text,label\n"say ""a, b""",x\nc,y\n')
    jsonl = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)) + "\n")
    for path in (tsv, csv, jsonl):
        assert [dict(row.values) for row in read_rows(path)] == rows


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "text\tlabel\na\tb\nc\n", r"a\.tsv: line 3: has too few columns: 1, not 2"),
        ("a.csv", 'text,label\n"a\nb",c\nd,e,f\n', r"a\.csv: line 4: has too many columns: 3"),
        ("a.jsonl", '{"text": "a"}\n{"text"\n', r"a\.jsonl: line 2: is not JSON"),
        ("a.tsv", "text\tlabel\n", "has no rows"),
        (
            "a.csv",
            "texte;urteil\none;1\n",
            "line 1: has one column, 'texte;urteil'; name its columns",
        ),
        ("a.csv", 'text,label\none,1\n"two,2\nthree,3\n', "line 3: unexpected end .* quotes"),
        ("a.jsonl", "\n", r"a\.jsonl: has no rows"),
        ("a.tsv", "text\tlabel\tlabel\na\tb\tc\n", "line 1: has two columns 'label'; rename"),
        (
            "a.tsv",
            "texte,urteil\none,1\n",
            "name its columns, as in --columns=text=NAME, if commas, tabs",
        ),
        (
            "a.csv",
            "texte\turteil\na, b\tc\n",
            r"a\.csv: tabs separate its columns; rename it to .tsv",
        ),
    ],
)
def test_a_damaged_row_is_named(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message):
        read_rows(write(tmp_path / name, text))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_blank_line_is_a_row_except_before_the_header_and_at_the_end(tmp_path, name):
    path = write(tmp_path / name, "\ntext\nfirst\n\nthird\n\n\r\n")
    found = list(user_files.read_texts(Source(path), pair=False, labelled=False))
    assert [(e.key, e.text_a) for e in found] == [("0", "first"), ("1", ""), ("2", "third")]


def test_a_row_of_empty_cells_is_kept(tmp_path):
    path = write(tmp_path / "a.tsv", "text_a\ttext_b\na\tb\n\t\nc\td\n")
    found = list(user_files.read_texts(Source(path), pair=True, labelled=False))
    assert [e.text_a for e in found] == ["a", "", "c"]


def test_names_of_files_may_be_written_in_other_ways(tmp_path):
    text = "Text,Label\na,b\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    write(tmp_path / "B.CSV", text)
    for name in ("a.csv.gz", "B.CSV"):
        (example,) = list(user_files.read_texts(Source(str(tmp_path / name)), None, labelled=True))
        assert (example.text_a, example.label) == ("a", "b")
    assert splits.find(str(tmp_path), {"train": ("a.csv",)}) == {"train": f"{tmp_path}/a.csv.gz"}
    with pa.CompressedOutputStream(str(tmp_path / "c.csv.zst"), "zstd") as file:
        file.write(text.encode())
    for module, ending in ((bz2, "bz2"), (lzma, "xz")):
        (tmp_path / f"c.csv.{ending}").write_bytes(module.compress(text.encode()))
    for ending in ("zst", "bz2", "xz"):
        (example,) = user_files.read_texts(Source(f"{tmp_path}/c.csv.{ending}"), None, True)
        assert (example.text_a, example.label) == ("a", "b")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(InputError, match="cut.csv.gz: the compressed data is truncated or damaged"):
        read_rows(str(tmp_path / "cut.csv.gz"))


def test_json_may_be_one_list(tmp_path):
    path = write(tmp_path / "a.json", '[\n {"text": "a", "label": true},\n {"text": "b"}]')
    rows = read_rows(path)
    assert [row.place for row in rows] == [f"{path}: item 1", f"{path}: item 2"]
    assert rows[0].text("label") == "true"
    path = write(tmp_path / "b.json", '[{"text": "a"},\n {"text"]')
    with pytest.raises(InputError, match="b.json: line 2: is not JSON"):
        read_rows(path)
    for index, text in enumerate(
        (
            json.dumps([{"text": "a"}, {"text": "b"}], indent=2),
            json.dumps({"version": 1, "data": [{"text": "a"}, {"text": "b"}]}, indent=2),
            json.dumps({"data": [{"text": "a"}, {"text": "b"}]}),
            '\n{"data": "x", "text": "a"}\n\n{"text": "b"}',
        )
    ):
        rows = read_rows(write(tmp_path / f"{index}.json", text))
        assert [row.text("text") for row in rows] == ["a", "b"]
    span = {"question": "Who?", "context": "Ann ran.", "answer": "Ann", "answer_start": 0}
    for rows in ([span], {"data": [span]}, [{**span, "answer_start": "0.0"}]):
        path = write(tmp_path / "c.json", json.dumps(rows))
        (example,) = make("span").source.read(Source(path), "all", True, [])
        assert example.answers == (AnswerSpan("Ann", 0),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            json.dumps({"train": [["a", "x"]], "dev": [["b", "y"]]}),
            r"object \(train, dev\), not rows",
        ),
        (
            json.dumps({"text": {"0": "a"}, "label": {"0": "b"}}),
            r"object \(text, label\), not rows",
        ),
        (json.dumps({"text": "a"}, indent=2), r"is one JSON object \(text\), not rows; write one"),
        (json.dumps({"text": "a"}, indent=2) * 2, r"line 3: is not JSON \(Extra data\). Write one"),
        (
            '{"text": "a"\n{"text": "b"}\n',
            r"line 2: is not JSON .* Write one object a line \(jq -c",
        ),
    ],
)
def test_json_that_is_no_rows_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_rows(write(tmp_path / "a.json", text))


def test_names_of_columns_that_a_model_was_trained_with_come_first(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence1\tsentence2\ttext\nx\ty\tz\n")
    (row,) = read_rows(path)
    assert Source(path, usual={"text": "sentence1"}).find("text", row) == "sentence1"
    assert (
        Source(path, {"text": "sentence2"}, usual={"text": "sentence1"}).find("text", row)
        == "sentence2"
    )
    assert Source(path, usual={"text": "gone"}).find("text", row) == "text"
    assert not Source(path, usual={"text": "sentence1"}).is_pair(row)
    assert Source(path, usual={"text_a": "sentence1"}).is_pair(row)


@pytest.mark.parametrize(
    ("header", "chosen", "pair"),
    [
        ("sentence1,sentence2,comment", {}, True),
        ("Premise,Hypothesis,Text", {}, True),
        ("question,sentence", {}, True),
        ("question,answer,text", {}, False),
        ("question,answer,text", {"text_b": "answer"}, True),
        ("sentence1,sentence2", {"text": "sentence1"}, False),
        ("text,answer", {}, False),
        ("sentence", {}, False),
    ],
)
def test_two_texts_are_a_pair(tmp_path, header, chosen, pair):
    text = f"{header}\n{','.join('abc'[: header.count(',') + 1])}\n"
    (row,) = read_rows(write(tmp_path / "a.csv", text))
    assert Source("a.csv", chosen).is_pair(row) == pair


def test_columns_of_choices_may_have_capitals(tmp_path):
    path = write(tmp_path / "a.csv", "Context,Choice0,Choice1,Label\nQ,a,b,1\n")
    assert next(multiple_choice.read_choices(Source(path), True)).choices == ("a", "b")


def test_blank_lines_between_rows_of_several_columns_are_left_out(tmp_path):
    for name, cell in (("a.csv", ","), ("a.tsv", "\t")):
        text = f"text{cell}label\r\r\na{cell}b\r\r\n\r\r\nc{cell}d\r\r\n"
        rows = read_rows(write(tmp_path / name, text))
        assert [row.text("text") for row in rows] == ["a", "c"]
        assert [row.text("label") for row in rows] == ["b", "d"]
    path = write(tmp_path / "arc.csv", "Who?,a,b,A\n\nWhat?,c,d,B\n")
    assert [example.label for example in multiple_choice.read_keyed(path, [])] == [0, 1]


def test_columns_without_names_may_be_several(tmp_path):
    (row,) = read_rows(write(tmp_path / "a.csv", "text,label,,\na,b,,\n"))
    assert (row.text("text"), row.text("label")) == ("a", "b")


def test_text_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\na\tb\n\xff\tc\n")
    with pytest.raises(InputError, match="line 3: byte 15 is not UTF-8; name .* --encoding=cp1252"):
        read_rows(str(tmp_path / "a.tsv"))


def test_cola_has_a_header_in_its_test_file_only(tmp_path):
    train = write(tmp_path / "train.tsv", "gj04\t1\t\tA b c.\ngj04\t0\t*\tC a b.\n")
    test = write(tmp_path / "test.tsv", "index\tsentence\n7\tB c a.\n")
    found = glue.read("cola", Source(train), "train", True, [])
    assert [(e.text_a, e.text_b, e.label) for e in found] == [
        ("A b c.", None, "1"), ("C a b.", None, "0"),
    ]  # fmt: skip
    assert [e.text_a for e in glue.read("cola", Source(train), "train", False, [])] == [
        e.text_a for e in found
    ]
    (example,) = glue.read("cola", Source(test), "test", False, [])
    assert (example.key, example.text_a, example.label) == ("7", "B c a.", None)


@pytest.mark.parametrize(
    ("kind", "header", "row", "expected"),
    [
        ("mrpc", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t5\t6\t"a" b\tc', ('"a" b', "c", "1")),
        ("stsb", "index\tsentence1\tsentence2\tscore", "0\ta\tb\t4.250", ("a", "b", "4.250")),
        ("qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\ta\tb\t0", ("a", "b", "0")),
        ("mnli", "index\tsentence1\tsentence2\tlabel1\tgold_label", "0\ta\tb\tx\tneutral", ("a", "b", "neutral")),
        ("qnli", "index\tquestion\tsentence\tlabel", "0\ta\tb\tentailment", ("a", "b", "entailment")),
        ("wnli", "index\tsentence1\tsentence2\tlabel", "0\ta\tb\t1", ("a", "b", "1")),
        ("sst2", "sentence\tlabel", "a b\t1", ("a b", None, "1")),
    ],
)  # fmt: skip
def test_glue_columns(tmp_path, kind, header, row, expected):
    path = write(tmp_path / "dev.tsv", f"{header}\n{row}\n")
    (example,) = glue.read(kind, Source(path), "dev", True, [])
    assert (example.text_a, example.text_b, example.label) == expected


def test_the_diagnostic_set_is_read_with_and_without_its_analysis(tmp_path):
    plain = write(tmp_path / "diagnostic.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n")
    (example,) = glue.read("ax", Source(plain), "diagnostic", False, [])
    assert (example.key, example.text_a, example.text_b, example.label) == ("0", "a", "b", None)
    header = "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel"
    rows = "\t\tNegation\t\tNews\ta\tb\tcontradiction\n\t\t\t\tNews\tb\ta\tneutral\n"
    full = write(tmp_path / "diagnostic-full.tsv", f"{header}\n{rows}")
    found = glue.read("ax", Source(full), "diagnostic-full", True, [])
    assert [(e.key, e.text_a, e.text_b, e.label) for e in found] == [
        ("0", "a", "b", "contradiction"), ("1", "b", "a", "neutral"),
    ]  # fmt: skip


def test_a_label_that_glue_does_not_have_is_named(tmp_path):
    path = write(tmp_path / "train.tsv", "sentence\tlabel\na\t1\nb\t2\n")
    with pytest.raises(InputError, match=r"train\.tsv: line 3: the label '2' is unknown"):
        glue.read("sst2", Source(path), "train", True, [])


def test_broken_rows_of_qqp_are_counted(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    path = write(tmp_path / "train.tsv", f"{header}\n1\t2\t3\ta\tb\t0\n4\t5\t6\tc\n")
    skipped = []
    assert len(glue.read("qqp", Source(path), "train", True, skipped)) == 1
    assert skipped == [f"{path}: line 3: has too few columns: 4, not 6"]


def test_swag_and_keyed_choices(tmp_path):
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,label"
    swag = write(tmp_path / "train.csv", f"{header}\n0,v,1,s,He sits.,He,gold,eats.,flies.,1\n")
    (example,) = multiple_choice.read_choices(Source(swag), True)
    assert (example.context, example.stem, example.choices, example.label) == (
        "He sits.", "He", ("eats.", "flies."), 1,
    )  # fmt: skip
    keyed = write(tmp_path / "arc.csv", 'Q1,a,a,c,B\n"Q,2",a,b,c,3\nQ3,a,b,c,E\n')
    assert multiple_choice.is_keyed(keyed)
    skipped = []
    found = multiple_choice.read_keyed(keyed, skipped)
    assert [(e.context, e.label) for e in found] == [("Q1", 1), ("Q,2", 2)]
    assert skipped == [f"{keyed}: line 3: the key 'E' names none of the choices"]


@pytest.mark.parametrize(
    ("rows", "keyed"),
    [
        (["Q,a,b,c,2", "Q,a,b,c,E", "Q,a,b,c,B"], True),
        (["Q,a,b,B", "Q,rain,snow,sun", "Q,one,two,three"], False),  # B is a choice
        (["Q,7,12,2", "Q,9,3,81", "Q,1,4,5"], False),
    ],
)
def test_the_keys_of_all_rows_decide(tmp_path, rows, keyed):
    path = write(tmp_path / "arc.csv", "\n".join(rows))
    read = make("choice").source.read
    if keyed:
        skipped = []
        assert [e.label for e in read(Source(path), "test", False, skipped)] == [1, None, 1]
        assert not skipped and len(read(Source(path), "test", True, skipped)) == 2
    else:
        with pytest.raises(InputError, match="--columns="):
            read(Source(path), "test", False, [])


def test_a_header_that_ends_in_a_letter_is_no_key(tmp_path):
    path = write(tmp_path / "x.csv", "question,answer,A,B,C,D\nQ,B,1,2,3,4\n")
    assert not multiple_choice.is_keyed(path)
    path = write(tmp_path / "x.csv", "F,W,X,Y,Z,A\nQ,1,2,3,4,B\n")
    assert multiple_choice.is_keyed(path)
    with pytest.raises(InputError, match="has no column for"):
        make("choice").source.read(Source(path, header=True), "all", True, [])


def test_questions_with_keys_may_differ_in_their_choices(tmp_path):
    text = "Q1,a,b,c,d,D\nQ2,a,b,c,C\nQ3,a,b,c,,C\nQ4,a,b,c,d,e,5\nQ5,a,b,,,D\nQ6,,,,,2\n"
    path = write(tmp_path / "arc.csv", text)
    skipped = []
    found = multiple_choice.read_keyed(path, skipped)
    assert [(e.key, "".join(e.choices), e.label) for e in found] == [
        ("0", "abcd", 3), ("1", "abc", 2), ("2", "abc", 2), ("3", "abcde", 4), ("5", "", 1),
    ]  # fmt: skip
    assert skipped == [f"{path}: line 5: the key 'D' names none of the choices"]
    # Without any choices: left to training, which skips and counts it.
    assert make("choice").problem(found[-1]) == "a choice is empty"
    with pytest.raises(InputError, match=r"arc\.csv: line 2: has too few columns: 2; write"):
        multiple_choice.read_keyed(write(tmp_path / "arc.csv", "Q1,a,b,B\nQ2,A\n"), [])


def test_choices_are_in_the_order_of_their_numbers(tmp_path):
    numbers = [*range(11)][::-1]
    row = ",".join(f"e{number}" for number in numbers)
    for name in ("ending", "choice"):
        header = ",".join(f"{name}{number}" for number in numbers)
        text = f"context,sent1,sent2,{header},label\nc,c,d,{row},2\n"
        path = write(tmp_path / f"{name}.csv", text)
        (example,) = multiple_choice.read_choices(Source(path), True)
        assert example.choices == tuple(f"e{number}" for number in range(11))
        assert example.choices[example.label] == "e2"


def test_fields_may_be_long(tmp_path):
    long = "word " * 60_000
    path = write(tmp_path / "a.csv", f'text,label\n"{long}",x\nb,y\n')
    assert [row.values["text"] for row in read_rows(path)] == [long, "b"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "jsonl"])
def test_lines_may_end_as_on_old_macs(tmp_path, ending):
    text = {
        "csv": "text,label\ra,x\rb,y\r", "tsv": "text\tlabel\ra\tx\rb\ty\r",
        "txt": "text\tlabel\ra\tx\rb\ty", "jsonl": '{"text": "a"}\r{"text": "b"}',
    }[ending]  # fmt: skip
    path = tmp_path / f"a.{ending}"
    path.write_bytes(text.encode())
    assert [row.values["text"] for row in read_rows(str(path))] == ["a", "b"]
    (tmp_path / "ner.conll").write_bytes(b"a X\rb Y\r\rc X\r")
    found = conll.read(Source(f"{tmp_path}/ner.conll"))
    assert [example.words for example in found] == [("a", "b"), ("c",)]


def test_labels_that_json_has_no_number_for_are_named(tmp_path):
    for value in ("NaN", "-Infinity", "1e999"):
        path = write(tmp_path / "a.jsonl", f'{{"text": "a", "label": {value}}}\n')
        with pytest.raises(InputError, match=r"a\.jsonl: line 1: label is (nan|-?inf), not a text"):
            list(user_files.read_texts(Source(path), pair=None, labelled=True))
    # Where nobody asks for it, a missing value is let be.
    path = write(tmp_path / "a.jsonl", '{"text": "a", "label": "x", "score": NaN}\n')
    (example,) = list(user_files.read_texts(Source(path), pair=None, labelled=True))
    assert (example.text_a, example.label) == ("a", "x")
    write(tmp_path / "a.jsonl", '{"text": "a", "label": "x"}\n' + "[" * 100_000)
    with pytest.raises(InputError, match=r"line 2: is not JSON that can be read \(nested too"):
        read_rows(path)
