"""What `embed` and `features` write, and their commands."""

import json
import signal

import numpy as np
import pytest

from bert_tf.vectors import blocks
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import FeatureSettings
from pipelines.labelled.text_files import TextFile, WordsFile
from tests import commands
from tests.bert_tf.vectors.extracted import TEXTS, contents, each_output, extract, lines, read
from tests.conftest import make_documents

pytestmark = pytest.mark.more
each_unit = pytest.mark.parametrize("unit", ["token", "word", "text"])


@each_output
@each_unit
def test_row_n_is_text_n(folders, texts, tmp_path, monkeypatch, name, unit):
    model, output = folders["pretrained"], tmp_path / "new" / name
    monkeypatch.setattr(blocks, "MAX_VALUES", 32 * 20)
    found, known = extract(model, texts, output, unit=unit)
    assert not known and found["rows"] == 5 and found["shape"] == [1, 32]
    wanted = FeatureExtractor(model, FeatureSettings(unit=unit))(TEXTS)
    rows = read(output)
    assert [row["text"] for _, row in rows] == TEXTS
    assert [row["id"] for _, row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[2][1]["length"] > 90 and rows[1][1]["length"] == 2
    for (values, row), one in zip(rows, wanted, strict=True):
        np.testing.assert_allclose(values.ravel(), one.values.ravel(), atol=1e-5)
        if unit == "text":
            assert not {"tokens", "starts"} & row.keys()
            continue
        assert row["tokens"] == one.units.tokens
        for each in ("starts", "ends", "segments"):
            assert row[each] == getattr(one.units, each).tolist()


@each_output
@each_unit
def test_words_keep_their_tags(folders, words, tmp_path, name, unit):
    extract(folders["tags"], WordsFile(words), tmp_path / name, unit=unit)
    (_, first), (values, second) = read(tmp_path / name)
    assert (first["text"], second["text"]) == ("The small model", "한국어 \u200b")
    if unit == "token":
        assert second["labels"][0] == second["labels"][-1] == ""
        labels = {(a, b) for a, b in zip(second["words"], second["labels"], strict=True)}
        assert labels == {(-1, ""), (0, "B-Y"), (1, "O")}
    else:
        assert first["labels"] == ["O", "B-X", "I-X"] and second["labels"] == ["B-Y", "O"]
    if unit == "word":
        assert second["tokens"] == ["한국어", "\u200b"]
        assert (second["starts"], second["ends"]) == ([0, 10], [9, 13])
        assert "words" not in second and len(values) == 2


@each_output
def test_tables_and_pairs_keep_what_they_have(folders, tmp_path, name):
    (tmp_path / "a.csv").write_text('key,body,label\nx,"the layer\nof",good\ny,a token,\n')
    columns = {"text": "body", "id": "key"}
    source = TextFile(f"{tmp_path}/a.csv", columns, labelled=True)
    extract(folders["pretrained"], source, tmp_path / name, unit="text")
    assert [{**row, "length": 0} for _, row in read(tmp_path / name)] == [
        {"id": "x", "text": "the layer\nof", "length": 0, "label": "good"},
        {"id": "y", "text": "a token", "length": 0},
    ]
    (tmp_path / "p.txt").write_text("the layer ||| a ||| b\nalone\n")
    source = TextFile(f"{tmp_path}/p.txt", pair_separator=" ||| ")
    extract(folders["same"], source, tmp_path / "p" / name, unit="word")
    rows = [row for _, row in read(tmp_path / "p" / name)]
    assert (rows[0]["text_a"], rows[0]["text_b"]) == ("the layer ||| a", "b")
    assert rows[0]["segments"] == [0] * 6 + [1] and rows[1]["text"] == "alone"


@each_output
def test_no_words_at_all_are_features_of_nothing(folders, tmp_path, name):
    (tmp_path / "e.txt").write_text("\n \n")
    extract(folders["pretrained"], f"{tmp_path}/e.txt", tmp_path / name, unit="word")
    assert [len(values) for values, _ in read(tmp_path / name)] == [0, 0]


def test_json_has_the_layout_of_extract_features(folders, texts, tmp_path):
    extract(folders["pretrained"], texts, tmp_path / "f.jsonl", layers=(-1, -2))
    row = json.loads((tmp_path / "f.jsonl").read_text("utf-8").splitlines()[0])
    assert row["linex_index"] == 0
    first = row["features"][0]
    assert first["token"] == "[CLS]" and [part["index"] for part in first["layers"]] == [-1, -2]
    assert len(first["layers"][0]["values"]) == 32
    assert all(round(value, 6) == value for value in first["layers"][0]["values"])
    extract(
        folders["pretrained"], texts, tmp_path / "s.jsonl", layers=None, combine="sum", unit="text"
    )
    row = json.loads((tmp_path / "s.jsonl").read_text("utf-8").splitlines()[0])
    (whole,) = row["features"]
    assert whole.keys() == {"layers"} and whole["layers"][0]["index"] == [0, 1, 2]


def test_unusual_texts_are_counted_and_no_path_is_named(folders, texts, tmp_path, caplog):
    found, _ = extract(folders["pretrained"], texts, tmp_path / "f.npy", max_seq_length=16)
    assert found["counts"] == {"cut": 1, "longest": 152, "empty": 1}
    cut = "1 of 5 texts had more than max_seq_length=16 tokens and were cut; the longest has 152."
    assert cut in caplog.text and "1 of 5 texts are empty; they have a row, too" in caplog.text
    text = (tmp_path / "f.npy.json").read_text()
    assert str(tmp_path) not in text and folders["pretrained"] not in text


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Texts of several blocks."""
    sentences = [sentence for document in make_documents(800) for sentence in document]
    assert 2 * 4096 < len(sentences) < 3 * 4096
    path = tmp_path_factory.mktemp("many") / "many.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in sentences))
    return str(path)


@pytest.mark.parametrize(
    "command,name,number", [("embed", "v.npy", signal.SIGINT), ("features", "f", signal.SIGTERM)]
)
def test_killed_and_stopped_commands_are_resumed(folders, many, tmp_path, command, name, number):
    def flags(folder):
        return (
            command, f"--model={folders['pretrained']}", f"--input={many}",
            f"--output={tmp_path}/{folder}/{name}", "--batch_tokens=256", "--layers=0,-1",
        )  # fmt: skip

    def done():
        folder = tmp_path / "cut" / (f"{name}.partial" if command == "embed" else name)
        return len(list(folder.glob("0*[0-9].npy")))

    whole = commands.done(*flags("whole"))
    rows = open(many).read().count("\n")
    expected = f"{rows:,} vectors of 64 numbers\n", f"{rows:,} texts, 2 x 32 numbers a token\n"
    assert whole.stdout.endswith(expected) and "text/s" in whole.stderr
    process = commands.Running(*flags("cut"))
    assert process.kill_when(lambda: done() > 0)
    killed_at = done()
    process = commands.Running(*flags("cut"))
    while done() <= killed_at:
        assert process.poll() is None
    process.send_signal(number)
    stopped = process.wait()
    assert stopped.returncode == 128 + number
    assert f"of {rows} texts." in stopped.stderr and "resuming after" in stopped.stderr
    assert "stopped; run the same command again to resume." in stopped.stderr
    commands.done(*flags("cut"))
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    again = commands.done(*flags("cut"))
    assert again.stdout == f"{tmp_path}/cut/{name}: exists; nothing to do.\n"
    if command == "embed":
        array = np.load(tmp_path / "cut" / name, mmap_mode="r")
        assert array.dtype == np.float32 and array.shape == (rows, 64)


def test_flags_say_what_is_read(folders, words, tmp_path):
    model = folders["tags"]
    flags = ("features", f"--model={model}", f"--output={tmp_path}/f.jsonl", "--unit=word")
    done = commands.done(*flags, f"--input={words}", "--layers=0,-1", "--word_pooling=mean")
    assert done.stdout == f"{tmp_path}/f.jsonl: 2 texts, 2 x 32 numbers a word\n"
    rows = [row for _, row in lines(f"{tmp_path}/f.jsonl")]
    assert rows[0]["tokens"] == ["The", "small", "model"] and rows[0]["id"] == "0"
    (tmp_path / "w.txt").write_text("x The B\nx kernel O\n\n")
    flags = (*flags[:2], f"--output={tmp_path}/g.jsonl", "--unit=word")
    commands.done(*flags, f"--input={tmp_path}/w.txt", "--columns=words=2,tags=3")
    ((_, row),) = lines(f"{tmp_path}/g.jsonl")
    assert row["tokens"] == ["The", "kernel"] and row["labels"] == ["B", "O"]


@pytest.mark.parametrize("command", ["embed", "features"])
def test_bad_input_is_one_line(folders, texts, words, tmp_path, command):
    flags = (command, f"--model={folders['pretrained']}", f"--output={tmp_path}/f")
    given = (*flags, f"--input={texts}")
    assert "--layers=9: " in commands.error(*given, "--layers=9")
    assert "--layers=x: it must be whole numbers" in commands.error(*given, "--layers=x")
    assert "missing --model" in commands.error(*given, "--model=")
    assert "missing --output" in commands.error(*flags[:2], f"--input={texts}")
    (tmp_path / "bad.txt").write_bytes(b"a\n\xff\n")
    bad = commands.error(*flags, f"--input={tmp_path}/bad.txt")
    assert bad.startswith(f"error: {tmp_path}/bad.txt: line 2: byte 2 is not UTF-8; name")
    named = commands.error(command, f"--model={tmp_path}/gone", *given[2:])
    assert named.startswith(f"error: {tmp_path}/gone: no such folder or checkpoint, and the caches")
    if command == "embed":
        return
    assert "give --layer_weights" in commands.error(*given, "--combine=weighted")
    assert "which do not make pairs" in commands.error(
        *flags, f"--input={words}", "--pair_separator= ||| "
    )
    (tmp_path / "a.tsv").write_text("text\nb\n")
    assert "a.tsv is a table; name the columns of its pairs" in commands.error(
        *flags, f"--input={tmp_path}/a.tsv", "--pair_separator=+"
    )
