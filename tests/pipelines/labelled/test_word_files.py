"""Sentences of words, of which some at a time are in memory."""

import gzip
import itertools
import json

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import conll, text_files, text_lines, user_files
from pipelines.labelled.source import Source
from pipelines.labelled.text_files import WordsFile, read_words
from tests.pipelines.labelled.labelled_files import write

CONLLU = "# text = a b\n1\ta\ta\tDET\t_\t_\t0\t_\t_\t_\n2\tb\tb\tNOUN\t_\t_\t0\t_\t_\t_\n"


def read(path, columns=None):
    return [(e.key, e.words, e.tags) for e in WordsFile(path, columns or {})]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.conll", "a DET\nb NOUN\n", {}),
        ("a.txt", "x a DET\nx b NOUN", {"words": "2", "tags": "3"}),
        ("a.conllu", CONLLU, {}),
        ("a.conllu.gz", gzip.compress(CONLLU.encode(), mtime=0), {}),
        ("a.tsv", "a\tDET\nb\tNOUN\n\n-DOCSTART-\n", {}),
        ("a.tsv", "words\ttags\na b\tDET NOUN\n", {}),
        ("a.jsonl", json.dumps({"w": ["a", "b"], "tags": ["DET", "NOUN"]}), {"words": "w"}),
    ],
)
def test_each_layout_gives_words_and_tags(tmp_path, name, text, columns):
    path = write(tmp_path / name, text)
    assert read(path, columns) == [("0", ("a", "b"), ("DET", "NOUN"))]
    assert text_files.check(WordsFile(path, columns)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conll", "a\nb\n"),
        ("a.txt", "-DOCSTART- X\n\na\nb\n"),
        ("a.jsonl", json.dumps({"words": ["a", "b"]})),
        ("a.csv", "n,words\n1,a b\n"),
    ],
)
def test_words_may_have_no_tags(tmp_path, name, text):
    assert read(write(tmp_path / name, text)) == [("0", ("a", "b"), None)]


def test_names_tell_files_of_words():
    assert text_files.is_word_file("a.CONLL") and text_files.is_word_file("b/a.conllu.gz")
    assert not text_files.is_word_file("a.txt")


def test_errors_name_the_place(tmp_path):
    path = write(tmp_path / "a.conll", "a X\nb\n")
    with pytest.raises(
        InputError, match=r"a\.conll: line 2: has 1 column, but the first word has 2"
    ):
        text_files.check(WordsFile(path))
    with pytest.raises(InputError, match=r"a\.conll: has no sentences"):
        text_files.check(WordsFile(write(tmp_path / "a.conll", "\n\n")))
    with pytest.raises(
        InputError, match="--columns: 'label' is not a role of a column here; roles a"
    ):
        text_files.check(WordsFile(path, {"label": "1"}))
    with pytest.raises(InputError, match=r"line 3: has too few columns: 2, not 3"):
        text_files.check(WordsFile(write(tmp_path / "a.conll", "\n\na b"), {"tags": "3"}))


def test_no_more_than_the_first_lines_are_in_memory(tmp_path, monkeypatch):
    path = write(tmp_path / "a.conll", "a X\n\n" * 5)
    taken = []

    def lines(path, encoding):
        for line in itertools.chain.from_iterable(["a X\n", "\n"] for _ in range(10**9)):
            taken.append(line)
            yield line

    monkeypatch.setattr(text_lines, "read_lines", lines)
    sentences = list(itertools.islice(WordsFile(path), 3))
    assert [sentence.key for sentence in sentences] == ["0", "1", "2"] and len(taken) < 5_020


def test_blocks_are_of_about_a_million_characters():
    many = conll.WordsExample("0", "", ("word",) * 100_000)
    assert [len(b) for b in text_files.blocks(itertools.repeat(many, 7))] == [3, 3, 1]


@pytest.mark.parametrize(
    ("text", "by_line"),
    [
        ("a\tX\n\nb\tY\n", True),
        ("a\tX\n \nb\tY\n", True),
        ("## a comment\tx\nAda\tB-PER\n\n in\tO\n", True),
        ("\n\na\tX\nb\tY\n\n\n", True),  # one sentence
        ("Ada Bo\tX\nb\tY\n", False),
        ("sentence\tX\nb\tY\n", False),
        ("words\ttags\na\tX\n\nb\tY\n", False),
        ("words\ttags\nAda in\tB-PER O\n\nin\tO\n", False),
        ("Ada in\tB-PER O\nin\tO\n\n", False),
        ("a\tX", False),
        ("", False),
    ],
)
def test_blank_lines_between_tell_a_word_a_line(tmp_path, text, by_line):
    assert conll.is_read_by_line(Source(write(tmp_path / "a.tsv", text))) is by_line


_KAGGLE = (
    "Sentence #,Word,POS,Tag\n{a},London,NNP,B-geo\n{b},is,VBZ,O\n{c},Go,VB,O\n{d},home,NN,O\n"
)


@pytest.mark.parametrize("filled", [True, False])
def test_tables_with_a_word_per_row(tmp_path, filled):
    path = tmp_path / "ner.csv"
    marks = {"a": "Sentence: 1", "c": "Sentence: 2"}
    marks |= {"b": marks["a"], "d": marks["c"]} if filled else {"b": "", "d": ""}
    path.write_text(_KAGGLE.format(**marks))
    first, second = read_words(Source(str(path)), True)
    assert first.words == ("London", "is") and first.tags == ("B-geo", "O")
    assert second.words == ("Go", "home") and second.place == f"{path}: line 4"
    (tagged, _) = read_words(Source(str(path), {"tags": "POS"}), True)
    assert tagged.tags == ("NNP", "VBZ")
    (bare, _) = read_words(Source(str(path)), False)
    assert bare.words == ("London", "is") and bare.tags is None
    # By other names, also from the columns of training.
    path.write_text(_KAGGLE.format(**marks).replace("Sentence #,Word", "nr,w"))
    for given in (
        {"columns": {"sentence": "nr", "words": "w"}},
        {"usual": {"sentence": "nr", "words": "w"}},
    ):
        assert [e.words for e in read_words(Source(str(path), **given), True)] == [
            ("London", "is"), ("Go", "home")
        ]  # fmt: skip


def test_a_table_of_words_without_sentences_is_refused(tmp_path):
    path = tmp_path / "ner.csv"
    path.write_text("words,tags\n" + "London,B-geo\n" * 30)
    with pytest.raises(InputError, match="--columns=sentence=NAME,words=NAME"):
        list(read_words(Source(str(path)), True))


def test_numbers_of_sentences_do_not_make_words_of_sentences(tmp_path):
    path = tmp_path / "train.tsv"
    rows = ["1\tJohn lives here\tB-PER O O", "2\tHello\tO"]
    path.write_text("\n".join(["sentence_id\twords\ttags", *rows]) + "\n")
    (first, second) = user_files.read_words(Source(str(path)), True)
    assert first.words == ("John", "lives", "here") and second.words == ("Hello",)
    path.write_text("\n".join(["sentence_id\twords\ttags", *rows[::-1]]) + "\n")
    with pytest.raises(
        InputError, match="line 3: has 3 words and as many tags, and the rows before"
    ):
        list(user_files.read_words(Source(str(path)), True))
