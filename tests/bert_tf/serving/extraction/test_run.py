"""Features of files: what each format holds, and that runs go on where they were."""

import json
import os
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.serving.encoding import description
from bert_tf.serving.encoding.block_writer import BlockWriter
from bert_tf.serving.extraction import extractor, formats, run
from bert_tf.serving.extraction.extractor import FeatureExtractor
from bert_tf.serving.extraction.formats import FeatureFormat
from bert_tf.serving.extraction.settings import FeatureSettings
from bert_tf.serving.extraction.shards import map_shard
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled.plain_texts import TextFile
from pipelines.labelled.word_files import WordsFile
from tests import commands
from tests.conftest import make_documents

TEXTS = ["The small model reads.", "", "a deep kernel " * 30, "é, 中国", "short"]
CONLL = "-DOCSTART- O\n\nThe O\nsmall B-X\nmodel I-X\n\n한국어 B-Y\n\u200b O\n"
NAMES = {"npz": "features", "jsonl": "f.jsonl", "tfrecord": "f.tfrecord"}
each_format = pytest.mark.parametrize("kind", NAMES)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), "utf-8")
    return f"{tmp_path}/texts.txt"


@pytest.fixture
def words(tmp_path):
    (tmp_path / "words.conll").write_text(CONLL, "utf-8")
    return f"{tmp_path}/words.conll"


def extract(model, source, output, **settings):
    if isinstance(source, str):
        source = TextFile(source, labelled=True)
    return run.extract_file(model, source, str(output), FeatureSettings(**settings))


def read(kind, path):
    """What is written, in one form: of each text its values, and what is said of it by name."""
    return {"npz": _archives, "jsonl": _lines, "tfrecord": _records}[kind](str(path))


def _archives(path):
    found = []
    for shard in files.matching(path, "features-*-of-*.npz"):
        with np.load(shard) as arrays:
            splits = arrays["row_splits"]
            rows = [json.loads(line) for line in bytes(arrays["rows"]).splitlines()]
            assert len(rows) == len(splits) - 1
            for row, a, b in zip(rows, splits[:-1], splits[1:], strict=True):
                places = {
                    name: arrays[name][a:b].tolist()
                    for name in ("starts", "ends", "segments", "words")
                    if name in arrays
                }
                # A text as a whole is one unit here.
                values = arrays["values"][a:b] if places else arrays["values"][a]
                found.append((values, row | places))
    return found


def _lines(path):
    found = []
    for number, text in enumerate(open(path, encoding="utf-8")):
        row = json.loads(text)
        assert row.pop("linex_index") == number
        units = row.pop("features")
        values = np.float32([[layer["values"] for layer in unit["layers"]] for unit in units])
        if units and "token" not in units[0]:
            found.append((values[0], row))
            continue
        for name, key in (("tokens", "token"), ("starts", "start"), ("ends", "end"),
                          ("segments", "segment"), ("words", "word")):  # fmt: skip
            if not units or key in units[0]:
                row[name] = [unit[key] for unit in units]
        found.append((values, row))
    return found


def _records(path):
    found = []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        feature = dict(tf.train.Example.FromString(record).features.feature)
        shape = feature.pop("shape").int64_list.value
        values = np.float32(feature.pop("features").float_list.value).reshape(shape)
        row = {}
        for name, held in feature.items():
            texts = [text.decode() for text in held.bytes_list.value]
            single = name in ("id", "text", "text_a", "text_b", "label")
            row[name] = texts[0] if single else texts or list(held.int64_list.value)
        found.append((values, row))
    return found


@each_format
@pytest.mark.parametrize("unit", ["token", "word", "text"])
def test_each_format_has_the_features_in_order(folders, texts, tmp_path, kind, unit):
    found, known = extract(folders["pretrained"], texts, tmp_path / NAMES[kind], unit=unit)
    assert not known and found["rows"] == 5 and found["shape"] == [1, 32]
    wanted = FeatureExtractor(folders["pretrained"], FeatureSettings(unit=unit))(TEXTS)
    rows = read(kind, tmp_path / NAMES[kind])
    assert [row["text"] for _, row in rows] == TEXTS
    assert [row["id"] for _, row in rows] == ["1", "2", "3", "4", "5"]
    for (values, row), one in zip(rows, wanted, strict=True):
        assert values.size == one.values.size
        np.testing.assert_allclose(values.reshape(one.values.shape), one.values, atol=1e-6)
        if unit == "text":
            assert not {"tokens", "starts"} & row.keys()
            continue
        if len(one.values):
            assert row["tokens"] == one.units.tokens
            for name in ("starts", "ends", "segments"):
                assert row[name] == getattr(one.units, name).tolist()


@each_format
@pytest.mark.parametrize("unit", ["token", "word", "text"])
def test_words_keep_their_tags(folders, words, tmp_path, kind, unit):
    extract(folders["tags"], WordsFile(words), tmp_path / NAMES[kind], unit=unit)
    (_, first), (values, second) = read(kind, tmp_path / NAMES[kind])
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


@each_format
def test_tables_keep_labels_and_ids(folders, tmp_path, kind):
    (tmp_path / "a.csv").write_text("key,body,label\nx,the layer,good\ny,a token,\n")
    columns = {"text": "body", "id": "key"}
    source = TextFile(f"{tmp_path}/a.csv", columns, labelled=True)
    extract(folders["pretrained"], source, tmp_path / NAMES[kind], unit="text")
    rows = [row for _, row in read(kind, tmp_path / NAMES[kind])]
    assert rows == [
        {"id": "x", "text": "the layer", "label": "good"},
        {"id": "y", "text": "a token"},
    ]


@each_format
def test_pairs_of_lines(folders, tmp_path, kind):
    (tmp_path / "p.txt").write_text("the layer ||| a ||| b\nalone\n")
    source = TextFile(f"{tmp_path}/p.txt", pair_separator=" ||| ")
    extract(folders["same"], source, tmp_path / NAMES[kind], unit="word")
    rows = [row for _, row in read(kind, tmp_path / NAMES[kind])]
    assert (rows[0]["text_a"], rows[0]["text_b"]) == ("the layer ||| a", "b")
    assert rows[0]["segments"] == [0] * 6 + [1] and rows[1]["text"] == "alone"


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


def test_shards_are_mapped(folders, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(extractor, "BLOCK", 32 * 40)
    extract(folders["pretrained"], texts, tmp_path / "f")
    names = sorted(os.listdir(tmp_path / "f"))
    count = len(names) - 1
    assert count > 1 and names == [
        *(f"features-{n:05d}-of-{count:05d}.npz" for n in range(count)),
        "manifest.json",
    ]
    for name in names[:-1]:
        path = f"{tmp_path}/f/{name}"
        mapped = map_shard(path)
        assert isinstance(mapped["values"], np.memmap)
        with np.load(path) as arrays:
            assert arrays.files == list(mapped)
            for key, array in arrays.items():
                np.testing.assert_array_equal(mapped[key], array)
    with pytest.raises(InputError, match=r"texts\.txt: is no shard of features"):
        map_shard(texts)
    np.savez_compressed(tmp_path / "c.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="it is compressed"):
        map_shard(f"{tmp_path}/c.npz")


def test_no_words_at_all_are_features_of_nothing(folders, tmp_path):
    (tmp_path / "e.txt").write_text("\n \n")
    for kind, name in NAMES.items():
        extract(folders["pretrained"], f"{tmp_path}/e.txt", tmp_path / name, unit="word")
        assert [len(values) for values, _ in read(kind, tmp_path / name)] == [0, 0]
    assert map_shard(f"{tmp_path}/features/features-00000-of-00001.npz")["values"].shape == (
        *(0, 1, 32),
    )


def test_what_is_odd_is_told(folders, texts, tmp_path, caplog):
    found, _ = extract(folders["pretrained"], texts, tmp_path / "f", max_length=16)
    assert found["counts"]["cut"] == 1 and found["counts"]["empty"] == 1
    assert "1 of 5 texts have more than --max_length=16 tokens, and were cut" in caplog.text
    assert "1 of 5 texts are empty; they have features, too" in caplog.text


@each_format
def test_what_is_there_is_left_or_told(folders, texts, tmp_path, kind):
    output = tmp_path / "new" / NAMES[kind]
    extract(folders["pretrained"], texts, output)
    before = _contents(tmp_path / "new")
    _, known = extract(folders["pretrained"], texts, output)
    assert known
    for settings, message in (
        ({"unit": "word"}, r"was made with other settings: unit \(token there, word asked for\)"),
        ({"layers": (1,)}, r"other settings: layers \(\[-1\] there, \[1\] asked for\)"),
    ):
        with pytest.raises(InputError, match=message):
            extract(folders["pretrained"], texts, output, **settings)
    with pytest.raises(InputError, match="was made with other model"):
        extract(folders["mood"], texts, output)
    open(texts, "a").write("more\n")
    with pytest.raises(InputError, match="was made with other input"):
        extract(folders["pretrained"], texts, output)
    assert _contents(tmp_path / "new") == before


def test_outputs_of_others_are_not_written_over(folders, texts, tmp_path):
    model = folders["pretrained"]
    with pytest.raises(InputError, match=r"is not empty and is not of features: it has other"):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "other").touch()
        extract(model, texts, tmp_path / "mine")
    (tmp_path / "f.jsonl").touch()
    with pytest.raises(InputError, match=r"f\.jsonl: is there, and was not made by bert-tf feat"):
        extract(model, texts, tmp_path / "f.jsonl")
    with pytest.raises(InputError, match="its name does not tell the format; let it end with"):
        extract(model, texts, tmp_path / "f.txt")
    with pytest.raises(InputError, match="is no file that can be read again"):
        extract(model, "/dev/null", tmp_path / "f")
    assert formats.format_of("a/b", None) is formats.format_of("a.npz", None) is FeatureFormat.NPZ


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Killed(BaseException):
    """In place of the end of the process."""


@each_format
def test_a_run_killed_at_any_moment_goes_on(folders, texts, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(extractor, "BLOCK", 32 * 40)
    (tmp_path / "whole").mkdir()
    extract(folders["pretrained"], texts, tmp_path / "whole" / NAMES[kind])
    whole = _contents(tmp_path / "whole")
    rename, fsync = files.gfile.rename, os.fsync
    for moment in range(1, 100):
        left = [moment]

        def dying(function, left=left):
            def call(*arguments, **named):
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                return function(*arguments, **named)

            return call

        folder = tmp_path / str(moment)
        folder.mkdir()
        killed = False
        with pytest.MonkeyPatch.context() as patch:
            # Files are renamed and brought to the disk before and behind each step.
            patch.setattr(files.gfile, "rename", dying(rename))
            patch.setattr(os, "fsync", dying(fsync))
            try:
                extract(folders["pretrained"], texts, folder / NAMES[kind])
            except Killed:
                killed = True
        if not killed:
            assert moment > 5
            return
        assert _contents(folder) != whole
        extract(folders["pretrained"], texts, folder / NAMES[kind])
        assert _contents(folder) == whole, moment
    raise AssertionError("the run never ended")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Texts of several blocks."""
    sentences = [sentence for document in make_documents(800) for sentence in document]
    path = tmp_path_factory.mktemp("many") / "many.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in sentences))
    return str(path)


def _flags(model, path, output):
    """Of a run that has many small batches, to take some time."""
    return (
        "features", f"--model={model}", f"--input={path}", f"--output={output}",
        "--batch_tokens=256", "--layers=all", "--combine=concat",
    )  # fmt: skip


def _done(place):
    """The rows that a description says are there."""
    found = description.find(str(place), run.KIND)
    return found["done"] if found else 0


@pytest.mark.parametrize("name", ["features", "f.tfrecord"])
def test_killed_and_stopped_processes_go_on(folders, many, tmp_path, name):
    (tmp_path / "whole").mkdir()
    done = commands.done(*_flags(folders["pretrained"], many, tmp_path / "whole" / name))
    rows = open(many).read().count("\n")
    assert done.stdout.endswith(f"{name}: {rows:,} texts, 96 numbers a token\n")
    assert "text/s" in done.stderr  # progress has a rate
    output = tmp_path / "cut" / name
    place = f"{output}/manifest.json" if name == "features" else f"{output}.json"
    process = commands.Running(*_flags(folders["pretrained"], many, output))
    assert process.kill_when(lambda: _done(place) > 0)
    killed_at = _done(place)
    process = commands.Running(*_flags(folders["pretrained"], many, output))
    while _done(place) <= killed_at:
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    stopped = process.wait()
    assert f"going on behind {killed_at} of {rows}" in stopped.stderr
    assert "stopped; run the same command again to go on." in stopped.stderr
    commands.done(*_flags(folders["pretrained"], many, output))
    assert _contents(tmp_path / "cut") == _contents(tmp_path / "whole")
    again = commands.done(*_flags(folders["pretrained"], many, output))
    assert again.stdout == f"{output}: is there; nothing to do.\n"


def test_flags_say_what_is_read(folders, words, tmp_path):
    model = folders["tags"]
    flags = ("features", f"--model={model}", f"--output={tmp_path}/f.jsonl", "--unit=word")
    done = commands.done(*flags, f"--input={words}", "--layers=0,-1", "--word_pooling=mean")
    assert done.stdout == f"{tmp_path}/f.jsonl: 2 texts, 2 x 32 numbers a word\n"
    rows = [row for _, row in _lines(f"{tmp_path}/f.jsonl")]
    assert rows[0]["tokens"] == ["The", "small", "model"] and rows[0]["id"] == "0"
    (tmp_path / "w.txt").write_text("x The B\nx kernel O\n\n")
    flags = (*flags[:2], f"--output={tmp_path}/g.jsonl", "--unit=word")
    commands.done(*flags, f"--input={tmp_path}/w.txt", "--columns=words=2,tags=3")
    ((_, row),) = _lines(f"{tmp_path}/g.jsonl")
    assert row["tokens"] == ["The", "kernel"] and row["labels"] == ["B", "O"]


def test_bad_input_is_one_line(folders, texts, words, tmp_path):
    model = folders["pretrained"]
    flags = ("features", f"--model={model}", f"--output={tmp_path}/f")
    given = (*flags, f"--input={texts}")
    assert "--layers=9: " in commands.error(*given, "--layers=9")
    message = "--layers=x: it must be whole numbers with commas between, or all"
    assert message in commands.error(*given, "--layers=x")
    assert "give --layer_weights" in commands.error(*given, "--combine=weighted")
    assert "which make no pairs" in commands.error(
        *flags, f"--input={words}", "--pair_separator= ||| "
    )
    (tmp_path / "a.tsv").write_text("text\nb\n")
    assert "a.tsv is a table; name the columns of its pairs" in commands.error(
        *flags, f"--input={tmp_path}/a.tsv", "--pair_separator=+"
    )
    assert "name the model with MODEL=" in commands.error(*given, "--model=")


def test_shards_go_to_a_bucket(folders, texts, tmp_path, monkeypatch):
    """A file system that can only be written to in one go: a run goes on behind whole shards."""
    monkeypatch.setattr(extractor, "BLOCK", 32 * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockWriter, "finish", _killed)
        with pytest.raises(Killed):
            extract(folders["pretrained"], texts, "ram://bucket/features")
    monkeypatch.setattr(FeatureExtractor, "_extract", _killed)  # nothing is left to compute
    extract(folders["pretrained"], texts, "ram://bucket/features")
    names = files.names_in("ram://bucket/features")
    assert names[-1] == "manifest.json" and names[0].startswith("features-00000-of-")


def _killed(*_, **__):
    raise Killed
