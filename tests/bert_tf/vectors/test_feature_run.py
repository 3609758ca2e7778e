"""Features of a file: runs are resumed, and errors are reported."""

import os
import signal
import time

import pytest

from bert_tf.vectors import extractor, formats
from bert_tf.vectors.block_writer import FEATURES, BlockWriter
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import FeatureFormat
from pipelines.common import files
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.vectors.extracted import NAMES, each_format, extract, lines
from tests.conftest import make_documents

pytestmark = pytest.mark.more


@each_format
def test_an_output_that_exists_is_kept_or_reported(folders, texts, tmp_path, kind):
    output = tmp_path / "new" / NAMES[kind]
    extract(folders["pretrained"], texts, output)
    before = _contents(tmp_path / "new")
    _, known = extract(folders["pretrained"], texts, output)
    assert known
    for settings, message in (
        ({"unit": "word"}, r"was made with other settings: unit \(was token, now word\)"),
        ({"layers": (1,)}, r"other settings: layers \(was \[-1\], now \[1\]\)"),
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
    with pytest.raises(InputError, match=r"f\.jsonl: exists, and was not made by bert-tf feat"):
        extract(model, texts, tmp_path / "f.jsonl")
    with pytest.raises(
        InputError, match="the ending of the name is not that of a format; end it with"
    ):
        extract(model, texts, tmp_path / "f.txt")
    with pytest.raises(InputError, match="is not a file that can be read twice"):
        extract(model, "/dev/null", tmp_path / "f")
    assert formats.format_of(FeatureFormat, "a/b", None) is FeatureFormat.NPZ
    assert formats.format_of(FeatureFormat, "a.npz", None) is FeatureFormat.NPZ


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Killed(BaseException):
    """In place of the end of the process."""


@each_format
def test_a_run_killed_at_any_moment_is_resumed(folders, texts, tmp_path, monkeypatch, kind):
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
    found = FEATURES.find(str(place))
    return found["done"] if found else 0


@pytest.mark.parametrize("name", ["features", "f.tfrecord"])
def test_killed_and_stopped_processes_are_resumed(folders, many, tmp_path, name):
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
    assert f"resuming after {killed_at} of {rows}" in stopped.stderr
    assert "stopped; run the same command again to resume." in stopped.stderr
    commands.done(*_flags(folders["pretrained"], many, output))
    assert _contents(tmp_path / "cut") == _contents(tmp_path / "whole")
    again = commands.done(*_flags(folders["pretrained"], many, output))
    assert again.stdout == f"{output}: exists; nothing to do.\n"


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


def test_bad_input_is_one_line(folders, texts, words, tmp_path):
    model = folders["pretrained"]
    flags = ("features", f"--model={model}", f"--output={tmp_path}/f")
    given = (*flags, f"--input={texts}")
    assert "--layers=9: " in commands.error(*given, "--layers=9")
    message = "--layers=x: it must be whole numbers separated by commas, or all"
    assert message in commands.error(*given, "--layers=x")
    assert "give --layer_weights" in commands.error(*given, "--combine=weighted")
    assert "which do not make pairs" in commands.error(
        *flags, f"--input={words}", "--pair_separator= ||| "
    )
    (tmp_path / "a.tsv").write_text("text\nb\n")
    assert "a.tsv is a table; name the columns of its pairs" in commands.error(
        *flags, f"--input={tmp_path}/a.tsv", "--pair_separator=+"
    )
    assert "missing --model" in commands.error(*given, "--model=")


def test_shards_go_to_a_bucket(folders, texts, tmp_path, monkeypatch):
    """A file system that can only be written to in one go: a run resumes after whole shards."""
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
