"""Data sets in the layouts in which they are published: read rightly, or refused with a remedy."""

import itertools
import json

import pytest

from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from pipelines.common.errors import InputError
from pipelines.labelled import labels, multiple_choice
from pipelines.labelled.source import Source
from tests.pipelines.labelled.labelled_files import write

WORDS = itertools.cycle("the film is a good story with music and light".split())


def text(count=5):
    return " ".join(next(WORDS) for _ in range(count))


def write_rows(path, rows):
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def read(kind, path, label_map=(), **columns):
    names, listed = labels.read(label_map) if label_map else ({}, ())
    request = TaskRequest(
        kind, kind, files=(("train", path),), columns=tuple(columns.items()),
        label_map=tuple(names.items()), label_names=listed,
    )  # fmt: skip
    return task_data.read_examples(
        request, FineTuningSettings((request,), "none", dev_fraction=0.0)
    )


def said(caplog):
    return "\n".join(record.getMessage() for record in caplog.records)


def error_of(*arguments, **columns):
    with pytest.raises(InputError) as error:
        read(*arguments, **columns)
    return str(error.value)


CONLL = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nsaid VBD B-VP O\nno DT O O\n\n"


@pytest.mark.parametrize(
    ("content", "columns", "labels"),
    [
        (CONLL, {}, ("B-ORG", "O")),  # the chunks are not outer entities
        (CONLL, {"tags": "2"}, ("DT", "NNP", "VBD")),
        ("EU B-ORG O\nsaid O O\nBonn B-LOC B-LOC\n\n", {}, ("B-LOC", "B-ORG", "O")),  # predicted
        ("Word\tPOS\tNER\nEU\tNNP\tB-ORG\nsaid\tVBD\tO\n\n", {"tags": "ner"}, ("B-ORG", "O")),
        ("Word\tNER\nEU\tB-ORG\nsaid\tO\n\n", {}, ("B-ORG", "O")),
        ("1 O\n2 O\n9 B-X\n4 O\n5 O\n\n", {}, ("B-X", "O")),
    ],
)
def test_columns_of_conll_are_told_apart(tmp_path, content, columns, labels):
    found = read("tagging", write(tmp_path / "train.conll", content), **columns)
    assert found.task.labels == labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 a\n2 b\n3 c\n4 d\n5 e\n\n",
         "column 1 counts lines; which columns have words and tags?"),
        ("".join(f"{n}\tw{n}\t_\tNN\tNN\t_\t0\troot\t_\t_\n" for n in range(1, 7)) + "\n",
         "The first line is 1 (1), 2 (w1), 3 (_), 4 (NN), 5 (NN)"),
        ("Word\tPOS\tNER\nEU\tNNP\tB-ORG\nsaid\tVBD\tO\n\n",
         "which column has the tags, pos or ner? Name it with"),
        ("EU B-ORG B-X\nBonn B-LOC O\n\n", "columns 2 and 3 both have tags; name the one to learn"),
    ],
)  # fmt: skip
def test_columns_of_words_that_leave_doubts_are_asked_for(tmp_path, content, message):
    path = write(tmp_path / "train.conll", content)
    found = error_of("ner", path)
    assert message in found and "--columns=" in found
    assert read("ner", path, words="1", tags="2").parts["train"]


def test_entities_are_no_parts_of_speech(tmp_path):
    path = write(tmp_path / "train.txt", CONLL)
    assert "the tags are of entities, such as 'B-ORG', not parts" in error_of("pos", path)
    assert read("pos", path, tags="2").task.labels == ("DT", "NNP", "VBD")


def test_tags_that_are_numbers_or_two_columns_in_json(tmp_path, caplog):
    rows = [{"tokens": ["EU", "said"], "pos_tags": [1, 2], "ner_tags": [3, 0]}] * 3
    path = write_rows(tmp_path / "train.jsonl", rows)
    assert "--columns=tags=pos_tags or --columns=tags=ner_tags." in error_of("ner", path)
    assert read("ner", path, tags="ner_tags").task.labels == ("0", "3")
    assert "for entities name them: --label_map=0=O,1=B-PER,..." in said(caplog)
    names = ["0=O", "3=B-ORG"]
    assert read("ner", path, names, tags="ner_tags").task.labels == ("B-ORG", "O")


NLI = ("neutral", "entailment", "contradiction", "-")


def test_glue_too_leaves_out_pairs_without_a_common_label(tmp_path):
    rows = "".join(f"{n}\t{text()}\t{text()}\t{label}\n" for n, label in enumerate(NLI))
    path = write(tmp_path / "train.tsv", f"index\tsentence1\tsentence2\tgold_label\n{rows}")
    assert read("mnli", path).notes["rows skipped"] == 1


@pytest.mark.parametrize(
    ("labels", "pair"),
    [("+-", True), ("+-", False), (("-1", "0", "1"), True), (("-1", "0", "1", "2"), False)],
)
def test_signs_are_labels_elsewhere(tmp_path, labels, pair):
    rows = [{"sentence1": text(), "sentence2": text(), "label": label} for label in labels * 2]
    rows = rows if pair else [{"text": row["sentence1"], "label": row["label"]} for row in rows]
    found = read("classification", write_rows(tmp_path / "train.jsonl", rows))
    assert set(found.task.labels) == set(labels)


def test_several_labels_of_a_text_are_refused(tmp_path):
    emotions = ["27", "3", "3,17", "17", "0,3,9"] * 20
    path = write(
        tmp_path / "train.tsv", "".join(f"{text()}\t{x}\teeb{i}\n" for i, x in enumerate(emotions))
    )
    found = error_of("classification", path)
    assert "which columns are text and label? There is no header; the columns are 1 (" in found
    assert "--columns=text=NUMBER,label=NUMBER (with make: ARGS=--columns=text" in found
    names = write(tmp_path / "emotions.txt", "".join(f"emotion{n}\n" for n in range(28)))
    for label_map in ([], [names]):
        found = error_of("classification", path, label_map, text="1", label="2")
        assert "line 3: the label '3,17' is a list, as are those of 40 of 100 rows" in found


@pytest.mark.parametrize(
    "labels",
    [["joy", "love", "joy, love"], ["['joy']", "['love']"], ["a|b", "b", "a"], ["1 2", "1", "3"]],
)
def test_lists_of_labels_in_a_column_are_refused(tmp_path, labels):
    rows = "".join(f'{text()},"{label}"\n' for label in labels * 3)
    path = write(tmp_path / "train.csv", f"text,label\n{rows}")
    assert "If a text may have several labels, give --task=multilabel" in error_of(
        "classification", path
    )


def test_labels_may_have_commas(tmp_path):
    rows = "".join(f'{text()},"{label}"\n' for label in ["Arts, Culture", "Culture", "Sport"])
    found = read("classification", write(tmp_path / "train.csv", f"text,label\n{rows}"))
    assert found.task.labels == ("Arts, Culture", "Culture", "Sport")


def test_labels_as_json_lists_and_columns_of_0_and_1_are_refused(tmp_path):
    path = write_rows(tmp_path / "train.jsonl", [{"text": text(), "labels": [3, 17]}] * 3)
    found = error_of("classification", path, label="labels")
    assert "line 1: labels is a list, [3, 17]. If a text may have several" in found
    header = "text,admiration,joy,neutral"
    path = write(tmp_path / "goemotions_1.csv", f"{header}\n{text()},0,1,0\n")
    found = error_of("classification", path)
    assert "Are joy, neutral and others labels, of which a text may have several?" in found


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([f"label{n}" for n in range(30)] * 2, "60 examples have 30 different labels"),
        ([f"{n}.5" for n in range(30)] * 4, "120 examples have 30 different labels"),
    ],
)
def test_too_many_labels_are_learned_only_if_their_column_is_named(tmp_path, labels, message):
    rows = "".join(f"{text()},{label}\n" for label in labels)
    path = write(tmp_path / "train.csv", f"text,label\n{rows}")
    found = error_of("classification", path)
    assert message in found and "--columns=label=COLUMN" in found and "=regression" in found
    assert len(read("classification", path, label="label").task.labels) == 30


def test_a_label_is_not_read_as_a_text(tmp_path):
    """BoolQ: `answer` is a usual name of a second text."""
    rows = [{"question": text(), "answer": n % 2 == 0, "passage": text()} for n in range(8)]
    path = write_rows(tmp_path / "train.jsonl", rows)
    assert "has no column for text_b; it has" in error_of("pair", path, label="answer")
    found = read("pair", path, label="answer", text_b="passage")
    assert found.parts["train"][0].text_b == rows[0]["passage"]


def test_texts_and_labels_in_two_files_are_refused(tmp_path):
    path = write(tmp_path / "train_text.txt", "".join(f"{text(7)} @user\n" for _ in range(9)))
    assert "and none for label; put tabs between" in error_of("classification", path)
    assert "paste LABELS TEXTS > NEW.tsv" in error_of("classification", path)


QUESTION = {
    "stem": "Who is good?",
    "choices": [{"label": label, "text": f"the {label}"} for label in "1234"],
}


def test_choices_may_be_objects_with_labels_of_their_own(tmp_path):
    rows = [{"question": QUESTION, "answerKey": key} for key in "123"]  # ARC: from 1
    found = read("choice", write_rows(tmp_path / "train.jsonl", rows)).parts["train"]
    assert [(e.context, e.choices[e.label]) for e in found] == [
        ("Who is good?", f"the {key}") for key in "123"
    ]
    row = {"question": text(), "choices": {"text": ["x", "y"], "label": ["A", "B"]}}
    path = write_rows(tmp_path / "other.jsonl", [row | {"answerKey": "B"}])
    (found,) = read("choice", path).parts["train"]
    assert (found.choices, found.label) == (("x", "y"), 1)
    fields = [{"option": letter} for letter in "AB"]
    path = write_rows(tmp_path / "t.jsonl", [{"question": "q", "choices": fields, "label": 0}])
    assert "has no column for choices; it has question, choices.option" in error_of("choice", path)
    assert "is 'x', not a list; name a list" in error_of(
        "choice", write_rows(tmp_path / "t.jsonl", [row | {"choices": "x", "label": 0}])
    )


def test_labels_of_choices_have_one_form(tmp_path):
    rows = [{"context": text(), "choices": ["x", "y", "z"], "label": label} for label in ("A", "1")]
    path = write_rows(tmp_path / "train.jsonl", rows)
    found = error_of("choice", path)
    assert "line 2: the label '1' names none of 3 choices, but others are letters" in found
    path = write(tmp_path / "keys.csv", "Who?,x,y,z,2\nWhat?,x,y,z,0\n")
    found = error_of("choice", path)
    assert "line 2: the key '0' names no choice" in found
    columns = dict(item.split("=") for item in found.rpartition("--columns=")[2][:-1].split(","))
    assert [e.label for e in read("choice", path, **columns).parts["train"]] == [2, 0]


ARTICLE = "It rained for a long time. Then the sun came out."
CHOICES = ["Rain", "Snow", "Sun", "2"]
RACE = {"article": ARTICLE, "question": "What came first?", "options": CHOICES, "answer": "A"}
COSMOS = {"context": ARTICLE, "question": RACE["question"], "label": 0}
COSMOS |= {f"answer{index}": choice for index, choice in enumerate(CHOICES)}
DREAM = [["M: It rains.", "W: So it does."]]
DREAM += [[{"question": RACE["question"], "choice": CHOICES[:3], "answer": "Rain"}] * 2, "5-510"]
SEVERAL = {"article": ARTICLE, "questions": [RACE["question"]] * 2, "options": [CHOICES] * 2}
SEVERAL |= {"answers": ["A", "A"], "id": "high1.txt"}
SOCIAL = {"context": ARTICLE, "question": RACE["question"], "label": "1"}
SOCIAL |= {"answerA": "Rain", "answerB": "Snow", "answerC": "Sun"}


@pytest.mark.parametrize(
    ("row", "context", "stem", "count"),
    [
        (RACE, ARTICLE, RACE["question"], 1),
        (COSMOS, ARTICLE, RACE["question"], 1),
        (DREAM, " ".join(DREAM[0]), RACE["question"], 2),
        (SEVERAL, ARTICLE, RACE["question"], 2),
        (SOCIAL, ARTICLE, RACE["question"], 1),
        ({"goal": "To dry", "sol1": "Rain", "sol2": "Sun", "label": 0}, "To dry", "", 1),
        ({"sentence": "It is _.", "option1": "Rain", "option2": "Sun", "answer": "1"}, "It is _.", "", 1),
        ({"ctx": "It is", "endings": ["Rain", "Sun"], "label": "0"}, "It is", "", 1),
    ],
)  # fmt: skip
def test_published_choices_are_read_at_the_first_try(tmp_path, row, context, stem, count):
    last = json.loads(json.dumps(row).replace('"label": "1"', '"label": "3"'))
    last = json.loads(json.dumps(last).replace('"answer": "1"', '"answer": "2"'))
    rows = [row] * 3 + ([last] if last != row else [])  # these two count from 1
    found = read("choice", write(tmp_path / "train.json", json.dumps(rows))).parts["train"]
    assert len(found) == len(rows) * count
    first = found[0]
    assert (first.context, first.stem, first.choices[first.label]) == (context, stem, "Rain")


def test_all_columns_that_are_missing_are_asked_for_at_once(tmp_path):
    path = write(tmp_path / "train.csv", "v1,v2\nham,Go until\nspam,Free entry\n")
    for kind, roles in (
        ("classification", ["text", "label"]),
        ("regression", ["text", "label"]),
        ("pair", ["text_a", "text_b", "label"]),
        ("tagging", ["words", "tags"]),
        ("span", ["question", "context", "answer", "answer_start"]),
        ("choice", ["context", "choices", "label"]),
    ):
        flag = "--columns=" + ",".join(f"{role}=NAME" for role in roles)
        assert f"it has v1, v2. Name them with {flag} (with make:" in error_of(kind, path)


def test_a_question_about_a_premise_begins_each_choice(tmp_path):
    """COPA's question is "cause" or "effect"."""
    row = {"premise": text(), "choice1": "x", "choice2": "y", "question": "cause", "label": 1}
    (example,) = read("choice", write_rows(tmp_path / "train.jsonl", [row])).parts["train"]
    assert (example.context, example.stem, example.label) == (row["premise"], "cause", 1)


def test_a_model_that_is_not_there_is_noticed_before_the_files_are_read(tmp_path):
    from bert_tf.finetuning import sweep

    request = TaskRequest("classification", "mood", str(tmp_path))
    settings = FineTuningSettings((request,), f"{tmp_path}/no_model")
    with pytest.raises(InputError, match="no_model: no such folder or checkpoint"):
        sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    (tmp_path / "no_model").mkdir()
    (tmp_path / "no_model/config.json").write_text("{}")  # its weights are read last
    with pytest.raises(InputError, match="has no file of a known name"):
        sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")


def test_labels_of_one_name_are_one_class(tmp_path):
    rows = [{"text": text(), "label": str(1 + n % 3)} for n in range(6)]
    path = write_rows(tmp_path / "train.jsonl", rows)
    found = read("classification", path, ["1=bad", "2=bad", "3=good"])
    assert found.task.labels == ("bad", "good")


def test_several_questions_of_a_row_have_options_each(tmp_path):
    uneven = [SEVERAL | {"answers": ["A"]}]
    with pytest.raises(
        InputError, match="item 1: questions, options, answers must be lists of one"
    ):
        read("choice", write(tmp_path / "train.json", json.dumps(uneven)))
    asked = [{name: value for name, value in SEVERAL.items() if name != "answers"}]
    path = write(tmp_path / "test.json", json.dumps(asked))
    found = list(multiple_choice.read_choices(Source(str(path)), labelled=False))
    assert [(e.stem, e.choices) for e in found] == [(RACE["question"], tuple(CHOICES))] * 2
