"""Files whose texts have several labels."""

import json

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import labels, user_files
from pipelines.labelled.source import Source


def read(tmp_path, name, content, labelled=True, **columns):
    path = tmp_path / name
    path.write_text(content, "utf-8")
    return list(user_files.read_multilabel(Source(str(path), columns), labelled))


def labels_of(*arguments, **columns):
    return [example.labels for example in read(*arguments, **columns)]


@pytest.mark.parametrize(
    "cell,wanted",
    [
        ("joy", ("joy",)),
        ("joy, love", ("joy", "love")),
        ("joy|good, clean fun", ("joy", "good, clean fun")),
        ("['joy'; 'love']", ("joy", "love")),
        ("2,27", ("2", "27")),
        ("2 27", ("2", "27")),
        ("good fun", ("good fun",)),
        ("joy,joy", ("joy",)),
        ("", ()),
    ],
)
def test_cells_of_labels(tmp_path, cell, wanted):
    assert labels_of(tmp_path, "x.tsv", f"text\tlabels\na b\t{cell}\nc\tjoy\n")[0] == wanted


def test_one_mark_separates_the_labels_of_all_cells(tmp_path):
    content = "text\tlabels\na\tCrime|Mystery, Thriller\nb\tMystery, Thriller\n"
    assert labels_of(tmp_path, "x.tsv", content) == [
        ("Crime", "Mystery, Thriller"),
        ("Mystery, Thriller",),
    ]


def test_lists_in_json(tmp_path):
    rows = [{"text": "a", "labels": ["x", "y"]}, {"text": "b", "labels": []}]
    content = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert labels_of(tmp_path, "x.jsonl", content) == [("x", "y"), ()]
    content = '{"text": "a", "labels": []}\n{"text": "b", "labels": [{"label": "x"}]}\n'
    assert labels_of(tmp_path, "y.jsonl", content, labels="labels.label") == [(), ("x",)]


TOXIC = 'id,comment_text,toxic,obscene,insult\n0,"You, sir",0,0,0\n1,Fool,1,0,1\n'


def test_columns_of_0_and_1(tmp_path):
    examples = read(tmp_path, "x.csv", TOXIC, text="comment_text")
    assert [example.labels for example in examples] == [(), ("toxic", "insult")]
    assert [example.key for example in examples] == ["0", "1"]
    named = {"text": "comment_text", "labels": "insult+obscene"}
    assert labels_of(tmp_path, "x.csv", TOXIC, **named) == [(), ("insult",)]


def test_a_column_of_labels_that_is_neither_0_nor_1_is_reported(tmp_path):
    with pytest.raises(InputError, match="line 3: insult is '2', not 0 or 1. Name the columns"):
        labels_of(tmp_path, "x.csv", TOXIC.replace("1,0,1", "1,0,2"), text="comment_text")


def test_texts_without_labels_can_be_predicted(tmp_path):
    assert labels_of(tmp_path, "x.csv", "text\na\nb\n", labelled=None) == [None, None]
    assert labels_of(tmp_path, "x.csv", TOXIC, labelled=False, text="comment_text") == [None, None]
    with pytest.raises(InputError, match="has no column for labels"):
        labels_of(tmp_path, "x.csv", "text\na\n", labelled=True)


def test_label_maps_name_each_label(tmp_path):
    examples = read(tmp_path, "x.tsv", "text\tlabels\na\t0,1\nb\t1\n")
    named = labels.rename(examples, labels.number(["joy", "love"], examples))
    assert [example.labels for example in named] == [("joy", "love"), ("love",)]


@pytest.mark.parametrize("vector", [[0, 1, 0], [True, False, False], "0 1 0", "[0. 1. 0.]"])
def test_vectors_need_names_of_their_places(tmp_path, vector):
    content = json.dumps({"text": "a", "labels": vector})
    with pytest.raises(InputError, match=r"of 0 and 1; name its 3 places .*--label_map=FILE"):
        read(tmp_path, "x.jsonl", content)
    path = tmp_path / "x.jsonl"
    source = Source(str(path), label_names=("joy", "anger", "fear"))
    (found,) = user_files.read_multilabel(source, True)
    assert found.labels == (("joy",) if vector == [True, False, False] else ("anger",))


def test_vectors_of_two_labels_are_not_read_as_both(tmp_path):
    content = "text\tlabels\na\t[0, 1]\nb\t[1, 1]\nc\t[0, 0]\n"
    with pytest.raises(
        InputError, match="line 2: labels is '?\\[0, 1\\]'?, of 0 and 1; name its 2"
    ):
        read(tmp_path, "x.tsv", content)
    source = Source(f"{tmp_path}/x.tsv", label_names=("joy", "anger"))
    found = user_files.read_multilabel(source, True)
    assert [example.labels for example in found] == [("anger",), ("joy", "anger"), ()]
    # Lists of numbers differ in length.
    content = "text\tlabels\na\t[0, 1]\nb\t[1]\n"
    assert labels_of(tmp_path, "y.tsv", content) == [("0", "1"), ("1",)]


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("['joy' 'anger']", ("joy", "anger")),
        ("['joy'\n 'anger']", ("joy", "anger")),
        ("['joy, or so', 'anger']", ("joy, or so", "anger")),
        ('["it\'s", "b"]', ("it's", "b")),
        ("[don't, can't]", ("don't", "can't")),
        ("[]", ()),
    ],
)
def test_lists_as_programs_print_them(tmp_path, cell, wanted):
    cell = cell.replace('"', '""')
    assert labels_of(tmp_path, "x.csv", f'text,labels\na b,"{cell}"\nc,joy\n')[0] == wanted


def test_labels_that_get_the_same_name_are_one(tmp_path):
    (found,) = read(tmp_path, "x.tsv", "text\tlabels\na\tjoy,love\n")
    (renamed,) = labels.rename([found], {"joy": "good", "love": "good"})
    assert renamed.labels == ("good",)
