"""Which column means what: files without a header, numbers, joined and nested columns."""

import json

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import multiple_choice, tables, user_files
from pipelines.labelled.source import Source
from tests.pipelines.labelled.labelled_files import write

NEWS = (
    '"3","Stocks fall","Shares fell on Monday."\n'
    '"4","New phone","It has two screens."\n'
    '"3","Oil rises","A barrel costs more."\n'
)


def read(path, chosen=None, **how):
    return list(user_files.read_texts(Source(path, chosen or {}, **how), None, labelled=True))


def test_columns_by_number_are_of_a_file_without_a_header(tmp_path):
    path = write(tmp_path / "train.csv", NEWS)
    found = read(path, {"text": "2+3", "label": "1"})
    assert [(e.text_a, e.label) for e in found][:2] == [
        ("Stocks fall Shares fell on Monday.", "3"),
        ("New phone It has two screens.", "4"),
    ]
    assert found[0].place == f"{path}: line 1"


def test_the_columns_of_a_file_without_a_header_are_shown(tmp_path):
    path = write(tmp_path / "train.csv", NEWS)
    with pytest.raises(InputError) as error:
        read(path)
    assert "There is no header; the columns are 1 ('3'), 2 ('Stocks fall'), 3" in str(error.value)
    assert "--columns=text=NUMBER" in str(error.value)


@pytest.mark.parametrize(
    "first",
    ["I liked it\tgood", f"{'It went on and on. ' * 5}\tfine", "It was 5 of 5\t5", "Fine\tbad"],
)
def test_data_in_the_first_line_are_told_from_a_header(tmp_path, first):
    path = write(tmp_path / "train.tsv", f"{first}\nI hated it\tbad\nIt was good\tgood\nFine\tbad")
    assert len(read(path, {"text": "1", "label": "2"})) == 4
    assert len(list(tables.read_rows(Source(path)))) == 4


@pytest.mark.parametrize("first", ["so many words in a row\tx", "It\t3,17", "It\t3;17"])
def test_texts_and_lists_of_numbers_are_no_names(tmp_path, first):
    path = write(tmp_path / "train.tsv", f"{first}\nHer\ty\n")
    assert len(list(tables.read_rows(Source(path)))) == 2


def test_a_file_is_read_aloud_once(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    path = write(tmp_path / "train.csv", "id,text,label,stars\n7,It rained.,bad,1\n8,Sun.,good,5\n")
    source = Source(path)
    for _ in range(2):
        list(user_files.read_texts(source, None, labelled=True))
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == (
        f"{path}: comma-separated; text = text, label = label; not read: stars; first row: "
        "text 'It rained.', label 'bad'"
    )


def test_a_header_is_known_by_its_names(tmp_path):
    path = write(tmp_path / "train.tsv", "label\ttext\nbad\ttext\ngood\tlabel\n")
    assert [e.text_a for e in read(path)] == ["text", "label"]
    assert [e.text_a for e in read(path, {"text": "2"})] == ["text", "label"]
    path = write(tmp_path / "other.tsv", "stars\treview\nbad\tIt\ngood\tHer\n")
    assert len(read(path, {"text": "review", "label": "stars"})) == 2
    with pytest.raises(InputError, match=r"it has stars, review.*--no_header"):
        read(path)


def test_the_user_has_the_last_word_on_a_header(tmp_path):
    path = write(tmp_path / "train.tsv", "text\tlabel\nIt\tbad\n")
    assert len(list(tables.read_rows(Source(path, header=False)))) == 2
    path = write(tmp_path / "years.tsv", "2019\t2020\nIt\tbad\n")
    assert len(read(path, {"text": "2019", "label": "2020"}, header=True)) == 1
    assert len(list(tables.read_rows(Source(path, header=None)))) == 2


def test_a_txt_has_a_text_in_each_line(tmp_path):
    lines = ["The film is good", "A bad story"]
    for count in (1, 2):
        path = write(tmp_path / f"{count}.txt", "\n".join(lines[:count]) + "\n")
        found = [row.texts("1") for row in tables.read_rows(Source(str(path)))]
        assert found == [(line,) for line in lines[:count]]
    path = write(tmp_path / "named.txt", "Text\nGood\n")
    assert [row.values for row in tables.read_rows(Source(str(path)))] == [{"Text": "Good"}]
    path = write(tmp_path / "chosen.txt", "news\nGood\n")
    chosen = Source(str(path), {"text": "news"})
    assert [row.values for row in tables.read_rows(chosen)] == [{"news": "Good"}]


def test_a_file_of_texts_needs_no_header(tmp_path):
    path = write(tmp_path / "texts.txt", "It rained.\nIt snowed.\nIt rained.\n")
    source = Source(path)
    found = list(user_files.read_texts(source, None, labelled=False))
    assert [e.text_a for e in found] == ["It rained.", "It snowed.", "It rained."]


def test_columns_are_joined_whether_named_or_numbered(tmp_path):
    path = write(tmp_path / "train.csv", "title,text,label\nOil,It rises.,3\n,Nothing.,4\n")
    for joined in ("title+text", "1+2"):
        assert [e.text_a for e in read(path, {"text": joined})] == ["Oil It rises.", "Nothing."]
    plus = write(tmp_path / "plus.csv", "a+b,label\nIt,3\n")
    assert read(plus, {"text": "a+b"})[0].text_a == "It"


def test_nested_fields_of_json(tmp_path):
    row = {"sentence1": "It rained.", "sentence2": "Rain fell.", "labels": {"label": 4.2}}
    path = write(tmp_path / "train.jsonl", json.dumps(row))
    (example,) = read(path, {"label": "labels.label"})
    assert (example.text_b, example.label) == ("Rain fell.", "4.2")
    with pytest.raises(InputError, match=r"line 1: has no column 'labels.name'"):
        read(path, {"label": "labels.name"})


def test_roles_have_the_names_that_data_sets_use(tmp_path):
    path = write(tmp_path / "train.tsv", "a\tb\tlabel\nIt rained.\tRain fell.\tyes\n")
    for roles in (("sentence1", "sentence2"), ("premise", "hypothesis"), ("text_a", "text_b")):
        (example,) = read(path, dict(zip(roles, "ab", strict=True)))
        assert (example.text_a, example.text_b) == ("It rained.", "Rain fell.")


def test_what_a_model_was_trained_with_is_looked_for_first(tmp_path):
    path = write(tmp_path / "test.csv", NEWS)
    source = Source(path, usual={"text": "2+3", "label": "1"})
    found = list(user_files.read_texts(source, None, labelled=True))
    assert found[2].text_a == "Oil rises A barrel costs more."


def test_choices_in_columns_by_number(tmp_path):
    path = write(tmp_path / "train.tsv", "Why?\tSo\tNot so\t1\nHow?\tThus\tElse\t1\n")
    source = Source(path, {"context": "1", "choices": "2+3", "label": "4"})
    (first, _) = list(multiple_choice.read_choices(source, labelled=True))
    assert (first.choices, first.label) == (("So", "Not so"), 1)


def test_a_label_that_is_a_usual_name_is_data(tmp_path):
    path = write(tmp_path / "train.tsv", "I love it\tpositive\nToo long\tnegative\nFine\tpositive")
    assert next(e.label for e in read(path, {"text": "1", "label": "2"})) == "positive"


@pytest.mark.parametrize(
    ("second", "column"), [({"text": "b", "score": 0.3}, "label"), ({"comment": "b"}, "text")]
)
def test_columns_are_those_of_the_first_row(tmp_path, second, column):
    """Another usual name in a later row is not taken instead."""
    rows = [{"text": "a", "label": "pos", "score": 0.9}, {"label": "neg"} | second]
    if column == "label":
        del rows[1]["label"]
    path = write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=f"line 2: has no column '{column}'"):
        read(path)


def test_a_text_may_be_named_as_the_first_of_a_pair(tmp_path):
    path = write(tmp_path / "x.csv", "text,summary,label\nlong,short,a\n")
    (found,) = user_files.read_texts(Source(path, {"text_a": "summary"}), False, True)
    assert found.text_a == "short"


@pytest.mark.parametrize("chosen", [{"labels": "stars"}, {"text": "text", "context": "nowhere"}])
def test_roles_that_are_not_read_are_refused(tmp_path, chosen):
    path = write(tmp_path / "x.csv", "text,stars,category\nIt rained,5,x\n")
    with pytest.raises(InputError, match="is not a role of a column here; roles are text, label"):
        read(path, chosen)
    assert read(path, chosen, shared=True)


TWEETS = [("you are a fool and more", "hate"), ("what a nice day it is", "normal")] * 8


@pytest.mark.parametrize("chosen", [{}, {"text": "1", "label": "2"}])
def test_a_name_of_a_column_may_be_one_of_its_values(tmp_path, chosen, caplog):
    caplog.set_level("INFO", logger="absl")
    table = "".join(f"{text}\t{label}\n" for text, label in TWEETS)
    path = write(tmp_path / "train.tsv", f"comments\thate\n{table}")
    if chosen:
        assert [(e.text_a, e.label) for e in read(path, chosen)] == TWEETS
        assert "the first line is a header: 'comments' is unlike the rest" in caplog.text
    else:
        with pytest.raises(InputError, match=r"has no column for text and label; .*comments, hate"):
            read(path)
        assert len(read(path, {"text": "comments", "label": "hate"})) == len(TWEETS)
    numbered = "".join(f"{n},{n % 2}\n" for n in range(12))
    rows = tables.read_rows(Source(write(tmp_path / "n.csv", f"name,1\n{numbered}")))
    assert len(list(rows)) == 12


def test_a_first_row_of_data_stays_where_texts_are_short(tmp_path):
    table = "".join(f"{text}\t{label}\n" for text, label in [*TWEETS, ("fine", "hate")] * 2)
    path = write(tmp_path / "train.tsv", f"Idiots\thate\n{table}")
    assert len(list(tables.read_rows(Source(path)))) == 1 + 2 * (len(TWEETS) + 1)
    with pytest.raises(InputError, match="or give --header if the first line is one"):
        read(path)


def test_reviews_with_a_sentiment(tmp_path):
    """Kaggle's IMDB."""
    path = write(
        tmp_path / "IMDB.csv", 'review,sentiment\n"A fine, long film",positive\nBad,negative\n'
    )
    assert [(e.text_a, e.label) for e in read(path)] == [
        ("A fine, long film", "positive"), ("Bad", "negative"),
    ]  # fmt: skip
