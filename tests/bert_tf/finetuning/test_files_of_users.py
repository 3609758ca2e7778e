"""Fine-tuning with files as people have them: without headers, with numbers for labels, comments."""

import csv
import random

import pytest

from tests import commands
from tests.bert_tf.helpers import report_of
from tests.bert_tf.labelled_data import BAD, GOOD, make_texts, sentence


def _news(path, count, seed):
    """Rows as those of AG News: a number for the label, a title, a text; no header."""
    rng = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        for _ in range(count):
            label = rng.choice([1, 2])
            words = (GOOD, BAD)[label - 1]
            title, text = sentence(rng, "film", 4), sentence(rng, rng.choice(words))
            writer.writerow([label, title, text])


def _command(init, output, *flags):
    return [
        "finetune", f"--init={init}", f"--output={output}", f"--cache={output.parent}/cache",
        "--batch_size=16", "--learning_rate=2e-3", "--max_seq_length=40", "--precision=float32",
        "--dropout=0", *flags,
    ]  # fmt: skip


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.more
def test_a_file_without_header_is_learned_and_predicted_by_the_names_of_its_labels(init, tmp_path):
    for name, count in (("train", 160), ("dev", 40), ("test", 12)):
        _news(tmp_path / f"{name}.csv", count, name)
    layout = ["--columns=label=1,text=2+3", "--label_map=1=World,2=Sports"]
    data = [f"--{name}={tmp_path}/{name}.csv" for name in ("train", "dev")]
    flags = ["--task=classification", *data, *layout, "--epochs=6"]
    commands.done(*_command(init, tmp_path / "out", *flags))
    report = report_of(tmp_path / "out")
    assert report["metrics"]["median"]["accuracy"] > 0.85
    assert report["labels"]["classification"].keys() == {"World", "Sports"}
    dev = _rows(tmp_path / "out/predictions.dev.tsv")
    assert {row["true_label"] for row in dev} == {"World", "Sports"}
    assert all(row["text"].count(" ") >= 4 for row in dev)
    # The model remembers how its files are laid out.
    predicted = commands.done(
        "predict", f"--model={tmp_path}/out", f"--input={tmp_path}/test.csv", "--labelled",
        f"--output={tmp_path}/answers",
    )  # fmt: skip
    rows = _rows(tmp_path / "answers/predictions.test.tsv")
    assert len(rows) == 12 and {row["label"] for row in rows} <= {"World", "Sports"}
    right = sum(row["label"] == row["true_label"] for row in rows)
    assert f"accuracy: {right / 12:.4f}" in predicted.stdout


@pytest.mark.slow
def test_texts_and_labels_of_their_own_files_in_another_encoding(init, tmp_path):
    rng = random.Random(0)
    for split, count in (("train", 40), ("val", 8), ("test", 8)):
        labels = [rng.randrange(2) for _ in range(count)]
        texts = [f"{sentence(rng, rng.choice((BAD, GOOD)[label]))} «é»" for label in labels]
        (tmp_path / f"{split}_text.txt").write_bytes("\n".join(texts).encode("cp1252"))
        (tmp_path / f"{split}_labels.txt").write_text("\n".join(map(str, labels)))
    (tmp_path / "mapping.txt").write_bytes("0\tdéçu\n1\tcontent\n".encode("cp1252"))
    flags = ["--task=classification", f"--data={tmp_path}", "--epochs=1"]
    message = commands.error(*_command(init, tmp_path / "out", *flags))
    assert "train_text.txt: line 1: byte" in message and "--encoding=cp1252" in message
    commands.done(*_command(init, tmp_path / "out", *flags, "--encoding=cp1252"))
    report = report_of(tmp_path / "out")
    assert report["examples"]["classification"] == {"train": 40, "dev": 8, "test": 8}
    assert report["labels"]["classification"].keys() == {"déçu", "content"}
    commands.done(
        "predict", f"--model={tmp_path}/out", f"--input={tmp_path}/test_text.txt", "--labelled",
        f"--output={tmp_path}/answers", "--encoding=cp1252",
    )  # fmt: skip
    rows = _rows(tmp_path / "answers/predictions.test.tsv")
    assert {row["true_label"] for row in rows} <= {"déçu", "content"} and len(rows) == 8
    assert all(row["text"].endswith("«é»") for row in rows)


def test_names_against_numbers_are_told_with_the_remedy(init, tmp_path):
    _news(tmp_path / "train.csv", 40, 0)
    (tmp_path / "dev.csv").write_text('"World","a","b"\n')
    flags = [f"--train={tmp_path}/train.csv", f"--dev={tmp_path}/dev.csv"]
    flags += ["--task=classification", "--columns=label=1,text=3"]
    message = commands.error(*_command(init, tmp_path / "out", *flags))
    assert "dev.csv: line 1: the label 'World' does not occur in the training data" in message
    assert "Fine-tune with names for numbers: --label_map=1=NAME,2=NAME,..." in message
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_each_split_may_have_columns_of_its_own_and_named_files_come_first(init, tmp_path):
    make_texts(tmp_path, train=40, dev=16)
    _news(tmp_path / "train.csv", 40, 0)
    (tmp_path / "dev.csv").write_text("review,stars\nthe film is good,1\na sad story,2\n")
    flags = [
        "--task=classification", f"--data={tmp_path}", f"--train={tmp_path}/train.csv",
        f"--dev={tmp_path}/dev.csv", "--columns=label=1,text=3",
        "--dev_columns=text=review,label=stars", "--test_columns=text=text,label=label",
        "--epochs=1",
    ]  # fmt: skip
    commands.done(*_command(init, tmp_path / "out", *flags))
    texts = [row["text"] for row in _rows(tmp_path / "out/predictions.dev.tsv")]
    assert texts == ["the film is good", "a sad story"]
    report = report_of(tmp_path / "out")
    assert report["examples"]["classification"] == {"train": 40, "dev": 2, "test": 10}


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("classification", "".join(f"{i}\tthe film number {i}\n" for i in range(40)),
         "is that the column of the label? Leave out the rare ones, or name another column"),
        ("ner", "".join(f"the O\nfilm B-{i}\n\n" for i in range(40)),
         "of 41 different tags 40 occur once, such as"),
    ],
)  # fmt: skip
def test_texts_for_labels_are_not_trained_on(init, tmp_path, task, text, message):
    path = tmp_path / "train.tsv"
    path.write_text(text)
    columns = ["--columns=label=2,text=1"] if task == "classification" else []
    flags = [f"--task={task}", f"--train={path}", *columns]
    assert message in commands.error(*_command(init, tmp_path / "out", *flags))
    assert not (tmp_path / "out").exists()


@pytest.mark.more
def test_a_model_that_says_one_thing_only_is_told(init, tmp_path):
    _news(tmp_path / "train.csv", 64, 0)
    flags = [
        "--task=classification", f"--train={tmp_path}/train.csv", "--columns=label=1,text=3",
        "--epochs=0.1", "--dev_fraction=0.5",
    ]  # fmt: skip
    done = commands.done(*_command(init, tmp_path / "out", *flags))
    report = report_of(tmp_path / "out")
    warning, below_words = report["warnings"]
    assert below_words == (
        f"classification: accuracy on dev, {report['metrics']['median']['accuracy']:.4f}, is below "
        f"the {report['bag_of_words']['accuracy']:.4f} of TF-IDF with logistic regression. Start "
        "from a model that was pre-trained for longer, or on texts like these."
    )
    assert "so it has not learned to tell them apart" in warning
    assert f"warning: {warning}" in done.stdout
    assert warning not in done.stderr  # it is said once
