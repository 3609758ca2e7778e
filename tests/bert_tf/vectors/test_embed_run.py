"""Vectors of a file: outputs that exist are kept, reported, or resumed."""

import json
import os
import signal
import time

import numpy as np
import pytest

from bert_tf.vectors import run
from bert_tf.vectors.block_writer import VECTORS
from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.settings import EmbeddingSettings
from bert_tf.vectors.vector_file import VectorFile
from pipelines.common import locks
from pipelines.common.errors import InputError
from pipelines.labelled.text_files import TextFile
from tests import commands
from tests.conftest import make_documents

TEXTS = ["The small model reads.", "", "a deep kernel " * 30, "é, 中国", "short"]


def write(path, texts):
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return str(path)


@pytest.fixture
def texts(tmp_path):
    return write(tmp_path / "texts.txt", TEXTS)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Texts of several blocks."""
    sentences = [sentence for document in make_documents(800) for sentence in document]
    assert 2 * 4096 < len(sentences) < 3 * 4096
    return write(tmp_path_factory.mktemp("many") / "many.txt", sentences)


def embed(model, path, output, file_format=None, columns=None, **settings):
    source = TextFile(str(path), columns or {})
    return run.embed_file(model, source, str(output), EmbeddingSettings(**settings), file_format)


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "v.tfrecord"])
def test_row_n_is_line_n(folders, texts, tmp_path, name):
    found, known = embed(folders["pretrained"], texts, tmp_path / "new" / name)
    assert not known and (found["rows"], found["width"]) == (5, 32)
    stored = VectorFile(f"{tmp_path}/new/{name}")
    wanted = Embedder(folders["pretrained"])(TEXTS)
    np.testing.assert_array_equal(np.concatenate(list(stored.blocks())), wanted)
    rows = stored.texts(range(5))
    assert [rows[n].id for n in range(5)] == ["0", "1", "2", "3", "4"]
    assert [rows[n].texts for n in range(5)] == [(text,) for text in TEXTS]
    assert np.abs(wanted[1]).max() > 0  # an empty text has [CLS] and [SEP]


def test_a_column_of_a_table_is_embedded_with_its_ids(folders, tmp_path):
    (tmp_path / "a.csv").write_text('key,body\nx,"the layer\nof"\ny,a token\n')
    model = folders["pretrained"]
    embed(model, tmp_path / "a.csv", tmp_path / "v.jsonl", columns={"text": "body"})
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [(line["id"], line["text"]) for line in lines] == [
        ("x", "the layer\nof"),
        ("y", "a token"),
    ]
    wanted = Embedder(model)(["the layer\nof", "a token"])
    np.testing.assert_array_equal(np.float32([line["vector"] for line in lines]), wanted)


def test_pairs_are_embedded_as_pairs(folders, tmp_path):
    (tmp_path / "a.tsv").write_text("one\tother\nthe layer\ta token\n")
    columns = {"text_a": "one", "text_b": "other"}
    embed(folders["same"], tmp_path / "a.tsv", tmp_path / "v.jsonl", columns=columns)
    line = json.loads((tmp_path / "v.jsonl").read_text())
    assert (line["text_a"], line["text_b"]) == ("the layer", "a token")
    wanted = Embedder(folders["same"])(["the layer"], ["a token"])
    np.testing.assert_array_equal(np.float32([line["vector"]]), wanted)


def test_the_description_names_no_path(folders, texts, tmp_path):
    embed(folders["pretrained"], texts, tmp_path / "v.npy", normalize=True)
    text = (tmp_path / "v.npy.json").read_text()
    assert str(tmp_path) not in text and folders["pretrained"] not in text
    found = json.loads(text)
    assert found["made_by"] == "bert_tf.embed" and found["finished"]
    assert found["settings"]["normalize"] is True and found["settings"]["layers"] == [2]
    assert found["settings"]["max_seq_length"] == 48


def test_unusual_texts_are_counted(folders, texts, tmp_path, caplog):
    found, _ = embed(folders["pretrained"], texts, tmp_path / "v.npy", max_seq_length=16)
    assert found["counts"]["cut"] == 1 and found["counts"]["empty"] == 1
    assert found["counts"]["longest"] > 90
    longest = f"the longest has {found['counts']['longest']}."
    cut = "1 of 5 texts had more than max_seq_length=16 tokens and were cut"
    assert f"{cut}; {longest}" in caplog.text
    assert "1 of 5 texts are empty; they have vectors too" in caplog.text


def test_what_is_finished_is_left(folders, texts, tmp_path):
    output = tmp_path / "v.npy"
    embed(folders["pretrained"], texts, output)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    _, known = embed(folders["pretrained"], texts, output)
    assert known
    assert {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == before


def test_other_texts_models_and_settings_are_reported(folders, texts, tmp_path):
    output = tmp_path / "v.npy"
    embed(folders["pretrained"], texts, output)
    with pytest.raises(InputError, match=r"settings: pooling \(was mean, now max\)"):
        embed(folders["pretrained"], texts, output, pooling="max")
    with pytest.raises(InputError, match="was made with other model"):
        embed(folders["mood"], texts, output)
    write(tmp_path / "texts.txt", TEXTS[:3])
    with pytest.raises(InputError, match="was made with other input"):
        embed(folders["pretrained"], texts, output)


def test_the_output_is_a_file_of_its_own(folders, texts, tmp_path):
    model = folders["pretrained"]
    with pytest.raises(InputError, match="is a folder; name a file to write"):
        embed(model, texts, tmp_path, "npy")
    with pytest.raises(InputError, match=r"texts\.txt: is the file of the texts; name another"):
        embed(model, texts, texts, "npy")
    for pipe in ("-", "/dev/null"):
        with pytest.raises(
            InputError, match="is not a file that can be read twice; write the texts"
        ):
            embed(model, pipe, tmp_path / "v.npy")
    os.link(texts, tmp_path / "same.npy")
    with pytest.raises(InputError, match=r"same\.npy: is the file of the texts"):
        embed(model, texts, tmp_path / "same.npy")
    output = f"{tmp_path}/v.npy"
    with (
        locks.held_file(f"{output}.lock", output),
        pytest.raises(InputError, match=r"v\.npy: another process is writing there"),
    ):
        embed(model, texts, output)
    assert sorted(os.listdir(tmp_path)) == ["same.npy", "texts.txt"]


def test_a_file_that_changes_meanwhile_is_reported(folders, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.labelled.text_files.check", lambda _: 7)
    with pytest.raises(InputError, match="was changed while it was read"):
        embed(folders["pretrained"], texts, tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()


def _flags(model, path, output):
    """Of a run that has many small batches, to take some time."""
    return (
        "embed", f"--model={model}", f"--input={path}", f"--output={output}", "--batch_tokens=256",
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(folders, many, tmp_path_factory):
    """The vectors of `many`, from a run that was never stopped."""
    output = tmp_path_factory.mktemp("whole") / "v.npy"
    done = commands.done(*_flags(folders["pretrained"], many, output))
    assert done.stdout.endswith(
        f"v.npy: {open(many).read().count(chr(10)):,} vectors of 32 numbers\n"
    )
    return output


def _contents(output):
    return [
        (output.parent / f"{output.name}{end}").read_bytes()
        for end in ("", ".texts.jsonl", ".json")
    ]


def test_a_killed_run_is_resumed_and_ends_with_the_same_bytes(folders, many, whole, tmp_path):
    output = tmp_path / "v.npy"
    rows = []
    for _ in range(2):
        process = commands.Running(*_flags(folders["pretrained"], many, output))
        before = _done(output)
        assert process.kill_when(lambda before=before: _done(output) > before)
        rows.append(_done(output))
        assert not output.exists()
    assert rows[0] < rows[1] and all(row % 4096 == 0 for row in rows)
    done = commands.done(*_flags(folders["pretrained"], many, output))
    assert f"resuming after {rows[1]} of " in done.stderr
    assert _contents(output) == _contents(whole)
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(whole.parent))
    again = commands.done(*_flags(folders["pretrained"], many, output))
    assert again.stdout == f"{output}: exists; nothing to do.\n"


def _done(output):
    """The rows that a description says are there."""
    try:
        return VECTORS.find(f"{output}.json")["done"]
    except TypeError:
        return 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_and_the_same_command_resumes(folders, many, whole, tmp_path, number):
    output = tmp_path / "v.npy"
    process = commands.Running(*_flags(folders["pretrained"], many, output))
    while not _done(output):
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(number)
    stopped = process.wait()
    assert stopped.returncode == 128 + number
    assert "stopped; run the same command again to resume." in stopped.stderr
    commands.done(*_flags(folders["pretrained"], many, output))
    assert _contents(output) == _contents(whole)


def test_bad_input_is_one_line(folders, texts, tmp_path):
    model = folders["pretrained"]
    flags = _flags(model, texts, tmp_path / "v.npy")
    (tmp_path / "bad.txt").write_bytes(b"a\n\xff\n")
    bad = commands.error(*_flags(model, tmp_path / "bad.txt", tmp_path / "v.npy"))
    assert bad.startswith(f"error: {tmp_path}/bad.txt: line 2: byte 2 is not UTF-8; name")
    assert "--layers=9: " in commands.error(*flags, "--layers=9")
    assert "--layers=x: it must be whole numbers" in commands.error(*flags, "--layers=x")
    assert "missing --output" in commands.error(*flags[:3])
    assert "missing --model" in commands.error(*flags[:3], f"--output={tmp_path}/v.npy", "--model=")
    named = commands.error("embed", f"--model={tmp_path}/gone", *flags[2:])
    assert (
        named
        == f"error: {tmp_path}/gone: no such folder or checkpoint, and the caches of Hugging Face and KerasHub have no model of that name. `bert-tf convert --help` lists the formats; `hf download google-bert/bert-base-uncased` gets released weights."
    )
