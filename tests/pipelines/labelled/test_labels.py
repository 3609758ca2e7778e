"""Names for labels that files have as numbers."""

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import labels
from pipelines.labelled.schema import SpanExample, TextExample, WordsExample


def texts(*labels):
    return [TextExample(str(i), f"line {i}", "It.", None, x) for i, x in enumerate(labels, 1)]


def test_names_by_label():
    names, listed = labels.read(["1=World", "2 = Sports"])
    assert (names, listed) == ({"1": "World", "2": "Sports"}, ())
    found = labels.rename(texts("2", "1", "Sports"), names)
    assert [e.label for e in found] == ["Sports", "World", "Sports"]
    with pytest.raises(InputError, match=r"line 2: the label '3' has no name"):
        labels.rename(texts("2", "3"), names)


def test_a_file_of_names_counts_as_the_data_do(tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text("World\nSports\n", "utf-8")
    names, listed = labels.read([str(path)])
    assert (names, listed) == ({}, ("World", "Sports"))
    assert labels.number(listed, texts("2", "1")) == {"1": "World", "2": "Sports"}
    assert labels.number(listed, texts("1", "0")) == {"0": "World", "1": "Sports"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0\tanger\n1\tjoy of life\n", {"0": "anger", "1": "joy of life"}),
        ("anger\t0\njoy of life\t1\n", {"0": "anger", "1": "joy of life"}),
        ("0\t❤\t_red_heart_\t\n1\t😍\t_smiling_face_\t\n", {"0": "❤", "1": "😍"}),
    ],
)
def test_a_file_may_have_labels_and_names(tmp_path, text, names):
    path = tmp_path / "mapping.txt"
    path.write_text(text, "utf-8")
    assert labels.read([str(path)]) == (names, ())


@pytest.mark.parametrize(
    "text", ["0 anger\n1 joy\n", "0: anger\n1: joy\n", '{"0": "anger"}', "x\ty\tz\n", "a\n0\tb\n"]
)
def test_a_file_that_is_neither_names_nor_labels_and_names_is_refused(tmp_path, text):
    path = tmp_path / "mapping.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match="is neither a name nor a label, a tab and its name"):
        labels.read([str(path)])


def test_a_file_next_to_the_data_names_labels(tmp_path, caplog):
    data = str(tmp_path / "train_text.txt")
    assert labels.beside(data) is None
    (tmp_path / "labels.txt").write_text("0 anger\n1 joy\n", "utf-8")
    assert labels.beside(data) is None
    assert "labels.txt: the line '0 anger' is neither a name nor a label, a tab" in caplog.text
    (tmp_path / "mapping.txt").write_text("0\tanger\n1\tjoy\n", "utf-8")
    source, names = labels.beside(data)
    assert (source, names) == (str(tmp_path / "mapping.txt"), {"0": "anger", "1": "joy"})
    assert labels.are_named(texts("2", "1"), names) and not labels.are_named(texts("joy"), names)
    with pytest.raises(
        InputError, match=r"line 2: the label '3' has no name; .*mapping\.txt names .* rename it"
    ):
        labels.rename(texts("1", "3"), names, source)


def pairs(*labels):
    return [TextExample(str(i), f"line {i}", "It.", "So.", x) for i, x in enumerate(labels, 1)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["entailment", "-", "contradiction"], ["entailment", "contradiction"]),
        (["ja", "nein", "-", "offen"], ["ja", "nein", "offen"]),
        (["+", "-", "0"], ["+", "-", "0"]),
        (["yes", "-"], ["yes", "-"]),
        (["-", "-"], ["-", "-"]),
        (["0", "1", "2", "-1"], ["0", "1", "2"]),
        (["0", "1", "-1"], ["0", "1", "-1"]),
        (["0", "1", "2", "-1", "-2"], ["0", "1", "2", "-1", "-2"]),
    ],
)
def test_pairs_without_a_decision_are_left_out(given, kept):
    skipped = []
    assert [e.label for e in labels.without_undecided(pairs(*given), skipped)] == kept
    assert len(skipped) == len(given) - len(kept)
    assert len(labels.without_undecided(texts(*given), [])) == len(given)


def test_names_that_may_count_from_0_or_from_1_are_not_guessed():
    with pytest.raises(InputError, match="does the first of 4 names belong to the label 0 or 1?"):
        labels.number("abcd", texts("2", "1"))
    assert labels.number("ab", texts("a", "b")) == {"1": "a", "2": "b"}


def test_tags_have_names_too():
    example = WordsExample("0", "line 1", ("It",), ("1",))
    assert labels.rename([example], {"1": "PRON"})[0].tags == ("PRON",)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["1=World", "Sports"], "'Sports' is not of the form LABEL=NAME"),
        (["1=World", "1=Sports"], "the label '1' is repeated"),
        (["1="], "not of the form"),
        (["nowhere.txt"], "nowhere.txt: no such file"),
    ],
)
def test_a_bad_map_is_named(entries, message):
    with pytest.raises(InputError, match=message):
        labels.read(entries)


def test_only_labels_and_tags_have_names(tmp_path):
    twice = tmp_path / "twice.txt"
    twice.write_text("a\na\n", "utf-8")
    with pytest.raises(InputError, match="the name 'a' is repeated"):
        labels.read([str(twice)])
    with pytest.raises(InputError, match="line 1: --label_map is for labels and tags"):
        labels.rename([SpanExample("0", "line 1", "Why?", "So.", ())], {"1": "a"})
