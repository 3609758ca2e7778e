"""Files to examples to features: what is cached, split, and refused."""

import dataclasses
import itertools
import json
import re
import shutil

import numpy as np
import pytest
from matplotlib import figure

from bert_tf import tasks
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.serving import file_prediction
from bert_tf.tasks.tagging.task import TagsPrediction
from pipelines.common.errors import InputError
from pipelines.labelled.schema import SpanExample, TextExample, WordsExample, label_of
from pipelines.labelled.source import Source
from pipelines.tokenizers import registry


@pytest.fixture(scope="module")
def tokens(vocab_path):
    return registry.load_tokenizer(vocab_path)


def _load_data(path, tokens, kind, columns=()):
    """The data of a folder, or of a file that is split."""
    request = TaskRequest(kind, kind, str(path), columns=columns)
    return task_data.load(request, FineTuningSettings((request,), "none"), tokens)


def _load(tmp_path, tokens, kind, text, columns=(), name="data.tsv"):
    (tmp_path / name).write_text(text)
    return _load_data(tmp_path / name, tokens, kind, columns)


def test_other_columns_are_other_features(tmp_path, tokens):
    rows = "\n".join(f"the layer {i}\tthe deep token of {i}\t{i % 2}" for i in range(30))
    text = f"title\tbody\tlabel\n{rows}\n"
    by_title = _load(tmp_path, tokens, "classification", text, (("text", "title"),))
    by_body = _load(tmp_path, tokens, "classification", text, (("text", "body"),))
    first, second = (found.train.features["input_word_ids"] for found in (by_title, by_body))
    assert not np.array_equal(first.values, second.values)


def test_a_map_next_to_the_data_names_labels(tmp_path, tokens, caplog):
    caplog.set_level("INFO", logger="absl")
    text = "\n".join(["text\tlabel", *(f"the token {i}\t{i % 2}" for i in range(20))])
    (tmp_path / "labels.txt").write_text("0\tsad\n1\tglad\n")
    found = _load(tmp_path, tokens, "classification", text)
    assert found.task.labels == ("sad", "glad") and f"{tmp_path}/labels.txt: names" in caplog.text
    with pytest.raises(
        InputError, match=r"line 22: the label '7' has no name; .*labels\.txt names"
    ):
        _load(tmp_path, tokens, "classification", f"{text}\nit\t7\n")
    named = text.replace("\t0", "\tgood").replace("\t1", "\tbad")
    assert _load(tmp_path, tokens, "classification", named).task.labels == ("bad", "good")
    assert _load(tmp_path, tokens, "regression", text).task.labels == ()


def test_the_part_of_a_file_and_names_beside_it_are_part_of_the_run(tmp_path):
    rows = [{"text": f"the token {i}", "label": str(i % 2)} for i in range(20)]
    (tmp_path / "data.json").write_text(json.dumps({"a": rows, "b": rows[::-1]}))
    found = []

    def inputs(path):
        request = TaskRequest("classification", "classification", path)
        return task_data.read_examples(request, FineTuningSettings((request,), "none")).inputs

    for part, names in (
        ("a", None),
        ("b", None),
        ("a", "0\tbad\n1\tgood\n"),
        ("a", "0\tgood\n1\tbad\n"),
    ):
        if names:
            (tmp_path / "mapping.txt").write_text(names)
        found.append(inputs(f"{tmp_path}/data.json#{part}"))
    assert not [pair for pair in itertools.combinations(found, 2) if pair[0] == pair[1]]
    shutil.copytree(tmp_path, tmp_path / "moved")
    assert inputs(f"{tmp_path}/moved/data.json#a") == found[-1]


def test_a_rare_label_stays_in_training(tmp_path, tokens):
    # Whichever row the split takes, it must not be the only one of its label.
    rows = [f"text {i}\tlabel{i % 2}" for i in range(40)]
    for index in range(0, 40, 3):
        marked = [*rows]
        marked[index] = "the rare one\trare"
        text = "\n".join(["text\tlabel", *marked]) + "\n"
        found = _load(tmp_path, tokens, "classification", text, name=f"data{index}.tsv")
        assert "rare" in {example.label for example in found.train.examples}
        assert found.dev[0].examples


@pytest.mark.parametrize("script", ["the layer", "日本 の"])
def test_a_vocabulary_of_another_script_is_told(tmp_path, tokens, caplog, script):
    text = "\n".join(["text\tlabel", *(f"the token {script}\t{i % 2}" for i in range(20))])
    _load(tmp_path, tokens, "classification", text)
    found = [message for message in caplog.messages if "unknown to the vocabulary" in message]
    assert len(found) == (script != "the layer")
    assert all(f"{tmp_path}/data.tsv: " in message and "'日'" in message for message in found)


def test_regression_of_single_sentences(tmp_path, tokens):
    for header in ("sentence\tscore", "text\tanswer\tscore"):
        row = "the layer\t1" if header.count("\t") == 1 else "the layer\tno\t1"
        other = row[:-1] + "2"
        found = _load(tmp_path, tokens, "regression", "\n".join([header, *[row, other] * 10]))
        assert found.train.examples[0].text_b is None and not found.task.pair
    pairs = "\n".join(["question\tanswer\tscore", *["a layer\ta mask\t1", "a\tb\t2"] * 10])
    assert _load(tmp_path, tokens, "regression", pairs).task.pair


def test_scores_of_few_examples_are_numbers():
    task = tasks.make("regression")
    one = [TextExample("0", "here", "a", None, "1.5")]
    assert task.metrics(one, [0.3])["pearson_spearman"] == 0.0
    assert task.metrics(one * 3, [0.1, 0.2, 0.3])["pearson"] == 0.0


def test_rows_without_labels_are_named(tmp_path):
    task = tasks.make("squad1")
    path = tmp_path / "dev-v1.1.json"
    path.write_text(
        '{"data": [{"paragraphs": [{"context": "the layer", "qas": '
        '[{"id": "1", "question": "what?"}]}]}]}'
    )
    with pytest.raises(InputError, match="dev-v1.1.json.*: has no label"):
        task_data.read(task, Source(str(path)), "dev", {}, labelled=True)


def test_long_questions_leave_room_for_the_context(tokens):
    task = dataclasses.replace(tasks.make("squad2"), max_seq_length=24)
    example = SpanExample("1", "here", "what is it? " * 40, "the layer reads. " * 10)
    features = task.features([example], tokens)
    covered = {
        int(byte) for row in range(len(features)) for byte in features["starts"].row(row).tolist()
    }
    assert len(covered) == len(tokens.tokenize([example.context]).to_list()[0])


def test_tasks_of_other_programs_are_known_by_their_names():
    description = {"name": "mrpc", "shape": "classification", "labels": ["0", "1"]}
    task = tasks.load(description, longest=64)
    assert task.pair and task.max_seq_length == 64 and task.metric_names == ("accuracy", "f1")
    # A name that here means another shape of task is a name only.
    assert tasks.load({"name": "mrpc", "shape": "span", "labels": []}).kind == "span"


@pytest.mark.parametrize(
    ("kind", "train", "test", "reason"),
    [
        ("classification", "text\tlabel\na b\tyes\nc d\tno", "text\tlabel\ne\tno", None),
        ("classification", "text\tlabel\na b\tyes\nc d\tno", "text\ne", "no column for label"),
        ("classification", "text\tlabel\na b\tyes\nc d\tno", "text\tlabel\ne\t-1", "'-1' does not"),
        ("regression", "text\tlabel\na b\t1\nc d\t2", "text\tlabel\ne\t?", "'\\?' is not a number"),
        (
            "regression",
            "text\tlabel\na b\t1\nc d\t2",
            "text\tlabel\ne\t1_0",
            "'1_0' is not a number",
        ),
        ("tagging", "words\ttags\na b\tO X", "words\ttags\na\tX", None),
        ("tagging", "words\ttags\na b\tO X", "words\na", "no column for tags"),
    ],
)
def test_test_files_are_scored_where_they_have_labels(
    tmp_path, tokens, caplog, kind, train, test, reason
):
    for name, text in (("train", train), ("dev", train), ("test", test)):
        (tmp_path / f"{name}.tsv").write_text(text + "\n")
    found = _load_data(tmp_path, tokens, kind)
    assert found.test[0].labelled == (reason is None)
    assert len(found.test[0].examples) == 1
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert all(re.search(f"test.tsv is predicted, but not scored: .*{reason}", w) for w in warnings)
    assert len(warnings) == (reason is not None)


def test_words_in_json_lines_are_not_columns(tmp_path, tokens):
    row = '{"tokens": ["the", "layer"], "ner_tags": ["O", "B-X"]}\n'
    found = _load(tmp_path, tokens, "ner", row * 4, name="data.jsonl")
    assert found.task.labels == ("B-X", "O")


def test_columns_are_not_named_where_files_have_their_own(tmp_path, tokens):
    with pytest.raises(InputError, match="--columns: the files of sst2 have columns of their own"):
        _load(tmp_path, tokens, "sst2", "sentence\tlabel\na\t1\n", (("text", "sentence"),))


@pytest.mark.parametrize("sizes", [[400, 300, 290, 5, 3, 2], [990, *[1] * 10]])
def test_dev_is_as_large_as_was_asked_for(tmp_path, tokens, sizes):
    firsts = [f"layer {group}" for group, size in enumerate(sizes) for _ in range(size)]
    rows = [f"{first}\tthe token of {i}\t{i % 2}" for i, first in enumerate(firsts)]
    found = _load(tmp_path, tokens, "pair", "\n".join(["text_a\ttext_b\tlabel", *rows]))
    assert 50 <= len(found.dev[0].examples) <= 100


def test_targets_of_a_source_are_not_split(tmp_path, tokens):
    rows = [f"layer {i % 50}\tthe token of {i}" for i in range(200)]
    found = _load(tmp_path, tokens, "generation", "\n".join(["source\ttarget", *rows]))
    train, dev = ({x.source for x in s.examples} for s in (found.train, *found.dev))
    assert dev and not train & dev


def test_rows_of_a_file_that_is_not_scored_are_not_skipped(tmp_path, tokens):
    for name, more in (("train", ""), ("dev", ""), ("test", "it\tis\t-\nso\tit\t\n")):
        rows = "".join(f"a {i}\tb\t{'yes' if i % 2 else 'no'}\n" for i in range(8))
        (tmp_path / f"{name}.tsv").write_text(f"sentence1\tsentence2\tlabel\n{rows}{more}")
    found = _load_data(tmp_path, tokens, "pair")
    assert not found.test[0].labelled and len(found.test[0].examples) == 10
    assert "rows skipped" not in found.notes


def test_parts_of_speech_that_training_lacks_are_known_all_the_same(tmp_path, tokens):
    found = _load(tmp_path, tokens, "pos", "the DET\nlayer NOUN\n\n" * 20, name="data.conll")
    assert len(found.task.labels) == 17 and "X" in found.task.labels
    found = _load(tmp_path, tokens, "pos", "the DT\nlayer NN\n\n" * 20, name="other.conll")
    assert found.task.labels == ("DT", "NN")


def test_sentences_without_words_have_no_tags(tmp_path, tokens):
    rows = [["the", "layer"], [], ["deep"]]
    text = "".join(
        json.dumps({"words": words, "tags": ["O", "X"][: len(words)]}) + "\n" for words in rows * 10
    )
    found = _load(tmp_path, tokens, "tagging", text, name="data.jsonl")
    in_dev = found.notes.get("dev examples with a problem", 0)
    assert found.notes["training examples skipped"] + in_dev == 10
    examples = [WordsExample("0", "here", (), None), WordsExample("1", "here", ("deep",), None)]
    features = found.task.features(examples, tokens)
    (one,) = found.task.predict(
        examples[1:], found.task.features(examples[1:], tokens), [np.eye(3, 2)]
    )
    empty, same = found.task.predict(examples, features, [np.eye(3, 2)])
    assert empty.tags == () and same.tags == one.tags
    assert found.task.files(examples, [empty, same], "test")["predictions.test.txt"][0] == "\n"


def test_pairs_and_single_texts_do_not_mix(tmp_path, tokens):
    (tmp_path / "train.csv").write_text("text,label\na,1\nb,2\n")
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,label\na,b,1\n")
    message = "dev.csv: line 2: the file has pairs, the task classification takes"
    with pytest.raises(InputError, match=message):
        _load_data(tmp_path, tokens, "classification")


@pytest.mark.parametrize("max_seq_length", [8, 64])
def test_tokens_per_word_are_those_of_whole_texts(tmp_path, tokens, caplog, max_seq_length):
    caplog.set_level("INFO", logger="absl")
    (tmp_path / "train.tsv").write_text(
        "text\tlabel\n" + "".join(f"{'the layer ' * 10}\t{i % 2}\n" for i in range(20))
    )
    request = TaskRequest("classification", "mood", str(tmp_path / "train.tsv"))
    task_data.load(
        request, FineTuningSettings((request,), "none", max_seq_length=max_seq_length), tokens
    )
    pieces = len(tokens.tokenize(["the layer"]).to_list()[0])
    assert f"{pieces / 2:.2f} tokens per word, 0.00 % of them unknown" in caplog.text


def test_labels_that_training_lacks_count_as_wrong(tmp_path, tokens, caplog):
    for name, more in (("train", ""), ("dev", "so\todd\nso\todd\n"), ("test", "so\tother\n")):
        rows = "".join(f"a {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(8))
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\n{rows}{more}")
    for kind, exact in (("classification", "accuracy"), ("multilabel", "exact_match")):
        found = _load_data(tmp_path, tokens, kind)
        assert found.task.labels == ("no", "yes") or kind == "multilabel"
        assert found.notes["dev labels that training lacks, which count as wrong"] == 2
        assert found.notes["test labels that training lacks, which count as wrong"] == 1
        assert "count as wrong: 'odd' (2)" in caplog.text
        for split, right in ((found.dev[0], 8 / 10), (found.test[0], 8 / 9)):
            logits = [
                10.0 * np.array([e.text_a[-1] in "02468", e.text_a[-1] in "13579"]) - 5
                for e in split.examples
            ]
            guesses = found.task.predict(split.examples, split.features, logits)
            scores = found.task.metrics(split.examples, guesses)
            assert scores[exact] == pytest.approx(right)
            # F1 of two labels is less than 1 only by what was guessed for a third, which has 0.
            assert scores["macro_f1"] <= 2 / 3
            found.task.draw(figure.Figure(), split.examples, guesses)
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\t1\nb\t0\n")
    with pytest.raises(InputError, match=r"the label '1' does not occur .* --label_map=1=NAME"):
        _load_data(tmp_path, tokens, "multilabel")


def test_tags_that_training_lacks_count_as_wrong(tmp_path, tokens):
    for name, tag in (("train", "B-PER"), ("dev", "B-ORG"), ("test", "B-PER")):
        (tmp_path / f"{name}.txt").write_text(f"the O\nlayer B-PER\n\ndeep {tag}\n\n" * 4)
    found = _load_data(tmp_path, tokens, "ner")
    (dev,) = found.dev
    guesses = [TagsPrediction(("O", "B-PER")[: len(e.words)], np.ones(2)) for e in dev.examples]
    guesses = [g if len(g.tags) == 2 else TagsPrediction(("B-PER",), np.ones(1)) for g in guesses]
    scores = found.task.metrics(dev.examples, guesses)
    assert scores["accuracy"] == pytest.approx(2 / 3) and scores["f1"] == pytest.approx(1 / 2)


def test_a_column_with_the_split_of_each_row_is_followed(tmp_path, tokens, caplog):
    caplog.set_level("INFO", logger="absl")
    rows = [(f"a {i}", i % 2, ("train", "Validation", "test", "train")[i % 4]) for i in range(40)]
    table = "".join(f"{text},{label},{split}\n" for text, label, split in rows)
    (tmp_path / "data.csv").write_text(f"text,label,split\n{table}")
    for place in (
        {"data": f"{tmp_path}/data.csv"},
        {"files": (("train", f"{tmp_path}/data.csv"),)},
    ):
        request = TaskRequest("classification", "x", **place)
        found = task_data.load(request, FineTuningSettings((request,), "none"), tokens)
        assert found.sizes == {"train": 20, "dev": 10, "test": 10}
        assert {e.text_a for e in found.test[0].examples} == {f"a {i}" for i in range(2, 40, 4)}
    assert "a column has the split of each row: train (20), dev (10), test (10)" in caplog.text
    (tmp_path / "other.csv").write_text(f"text,label\n{'b,1'}\n")
    files = (("test", f"{tmp_path}/other.csv"),)
    request = TaskRequest("classification", "x", f"{tmp_path}/data.csv", files=files)
    found = task_data.load(request, FineTuningSettings((request,), "none"), tokens)
    assert found.sizes == {"train": 20, "dev": 10, "test": 1}
    for value in ("", "tset"):
        (tmp_path / "data.csv").write_text(f"text,label,split\n{table}a,1,{value}\n")
        message = f"line 42: the column of splits has {value!r}, other rows train and dev and test;"
        with pytest.raises(InputError, match=message):
            task_data.load(request, FineTuningSettings((request,), "none"), tokens)


def test_slots_and_intents_in_three_files(tmp_path, tokens):
    """As SNIPS and ATIS are published."""
    for split in ("train", "valid", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "seq.in").write_text("the layer\ndeep the layer\n" * 4)
        (tmp_path / split / "seq.out").write_text("O B-thing\nO O B-thing\n" * 4)
        (tmp_path / split / "label").write_text("Ask\nTell\n" * 4)
    for kind, labels in (("classification", ("Ask", "Tell")), ("ner", ("B-thing", "O"))):
        for place in (
            {"data": str(tmp_path)},
            {"files": tuple((s, f"{tmp_path}/{s}") for s in ("train", "test"))},
        ):
            request = TaskRequest(kind, kind, **place)
            settings = FineTuningSettings((request,), "none", dev_fraction=0.0)
            found = task_data.load(request, settings, tokens)
            assert found.task.labels == labels and len(found.train.examples) == 8
            assert found.test[0].labelled
    request = TaskRequest("ner", "ner", files=(("train", str(tmp_path)),))
    with pytest.raises(InputError, match=r"is a folder; name a file with --train, or the folder"):
        task_data.load(request, settings, tokens)


@pytest.mark.parametrize(
    ("kind", "train", "dev", "labels", "form"),
    [
        ("choice", "1234", "123", [0, 1, 2], "numbers from 1"),
        ("choice", "123", "1234", [0, 1, 2, 3], "numbers from 1"),
        ("choice", "0123", "123", [1, 2, 3], "numbers from 0"),
        ("choice", "BA", "AB", [0, 1], "letters"),
        ("multilabel", ["Health, Art;Sport"], ["Health, Art"], [("Health, Art",)], ";"),
        ("multilabel", ["Art", "Sport"], ["Art|Health, Art"], [("Art", "Health, Art")], "|"),
    ],
)
def test_labels_have_one_form_in_all_files(tmp_path, tokens, kind, train, dev, labels, form):
    name = {"choice": "label", "multilabel": "labels"}[kind]
    for split, cells in (("train", train), ("dev", dev)):
        rows = "".join(f"the layer\ta\tb\tc\td\t{cell}\n" for cell in cells)
        (tmp_path / f"{split}.tsv").write_text(f"context\tA\tB\tC\tD\t{name}\n{rows}")
    columns = (("text", "context"),) if kind == "multilabel" else ()
    request = TaskRequest(kind, kind, str(tmp_path), columns=columns)
    found = task_data.load(request, FineTuningSettings((request,), "none"), tokens)
    assert [label_of(example) for example in found.dev[0].examples] == labels
    task = tasks.load(json.loads(json.dumps(found.task.describe())))
    assert task.label_form == form
    read = file_prediction.read(task, Source(f"{tmp_path}/dev.tsv"), labelled=True)
    assert [label_of(example) for example in read] == labels
    if train == "1234":
        (tmp_path / "dev.tsv").write_text("context\tA\tB\tlabel\nthe layer\ta\tb\t0\n")
        message = "line 2: the label '0' names none of 2 choices, but others are numbers from 1"
        for labelled in (
            lambda: file_prediction.read(task, Source(f"{tmp_path}/dev.tsv"), labelled=True),
            lambda: task_data.load(request, FineTuningSettings((request,), "none"), tokens),
        ):
            with pytest.raises(InputError, match=message):
                labelled()
