"""Files of vectors: what is written comes back, whenever the writer was killed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.vectors import formats
from bert_tf.vectors.block_writer import VECTORS, BlockWriter
from bert_tf.vectors.settings import EmbeddingSettings, VectorFormat
from bert_tf.vectors.storage import GrowingFiles
from bert_tf.vectors.vector_file import StoredText, VectorFile
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample

WIDTH = 3
SIZES = (2, 3, 2)
ROWS = sum(SIZES)
IDENTITY = {
    "rows": ROWS,
    "width": WIDTH,
    "input_sha256": "a",
    "model": {"encoder_sha256": "b", "tokenizer_sha256": "c"},
    "settings": EmbeddingSettings(layers=(1,), max_seq_length=9).describe(),
}
COUNTS = {"cut": 1, "longest": 7, "empty": 0}
EXAMPLES = [TextExample(f"id {n}", "", f'text "{n}" é\n☃') for n in range(ROWS)]
VALUES = np.random.default_rng(0).normal(0, 1, (ROWS, WIDTH)).astype(np.float32)
each_format = pytest.mark.parametrize("kind", list(VectorFormat))


def writer_of(path, kind, identity=IDENTITY):
    """A writer of vectors as `run.embed_file` makes it."""
    heads = formats.vector_heads(kind, identity["rows"], identity["width"])
    storage = GrowingFiles(str(path), formats.vector_paths(kind, str(path)), heads)
    return BlockWriter(VECTORS, storage, f"{path}.json", {"format": kind.value, **identity})


def write(path, kind, identity=IDENTITY, examples=EXAMPLES, stop=None):
    """Writes all blocks that are not there yet; `stop` is how many."""
    with writer_of(path, kind, identity) as writer:
        first = 0
        for size in SIZES:
            if first >= writer.done and first != stop:
                rows = slice(first, first + size)
                data = formats.encode_vectors(kind, examples[rows], VALUES[rows])
                writer.write(data, size, COUNTS)
            if first == stop:
                return
            first += size
        writer.finish()


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@each_format
def test_what_is_written_comes_back(tmp_path, kind):
    path = tmp_path / "vectors"
    write(path, kind)
    found = VectorFile(str(path))
    np.testing.assert_array_equal(np.concatenate(list(found.blocks())), VALUES)
    stored = found.texts([0, 5])
    assert stored == {n: StoredText(f"id {n}", (f'text "{n}" é\n☃',)) for n in (0, 5)}
    assert (found.rows, found.width, found.model) == (ROWS, WIDTH, IDENTITY["model"])
    assert found.settings == EmbeddingSettings(layers=(1,), max_seq_length=9)
    assert not list(tmp_path.glob("*.partial"))


@each_format
def test_pairs_come_back(tmp_path, kind):
    pairs = [TextExample("x", "", f"a{n}", "" if n else "b") for n in range(ROWS)]
    write(tmp_path / "vectors", kind, examples=pairs)
    found = VectorFile(f"{tmp_path}/vectors").texts([0, 1])
    assert found == {0: StoredText("x", ("a0", "b")), 1: StoredText("x", ("a1", ""))}


def test_others_can_read_each_format(tmp_path):
    for kind in VectorFormat:
        write(tmp_path / f"vectors.{kind}", kind)
    array = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    np.testing.assert_array_equal(array, VALUES)
    assert array.dtype == np.float32
    texts = (tmp_path / "vectors.npy.texts.jsonl").read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in (tmp_path / "vectors.jsonl").open(encoding="utf-8")]
    assert len(texts) == len(lines) == ROWS
    assert [json.loads(line)["text"] for line in texts] == [line["text"] for line in lines]
    assert lines[1].keys() == {"id", "text", "vector"}
    np.testing.assert_array_equal(np.float32([line["vector"] for line in lines]), VALUES)
    records = tf.data.TFRecordDataset(f"{tmp_path}/vectors.tfrecord").batch(ROWS)
    spec = {
        "id": tf.io.FixedLenFeature([], tf.string),
        "text": tf.io.FixedLenFeature([], tf.string),
        "vector": tf.io.FixedLenFeature([WIDTH], tf.float32),
    }
    parsed = tf.io.parse_example(next(iter(records)), spec)
    np.testing.assert_array_equal(parsed["vector"], VALUES)
    assert parsed["text"].numpy()[3].decode() == EXAMPLES[3].text_a


class Killed(BaseException):
    """In place of the end of the process."""


def _kill_at(monkeypatch, moment):
    """Ends the writer at the given one of the moments at which it touches a file.

    Half of a block is written before that.
    """
    left = [moment]

    def count():
        left[0] -= 1
        return left[0] == 0

    def dying(function, half=None):
        def call(*arguments, **named):
            if count():
                if half:
                    half(*arguments)
                raise Killed
            return function(*arguments, **named)

        return call

    write, describe, rename = GrowingFiles._write, BlockWriter._describe, files.gfile.rename

    def half(grown, index, block):
        write(grown, index, block[: len(block) // 2])
        grown._open[index].flush()

    monkeypatch.setattr(GrowingFiles, "_write", dying(write, half))
    monkeypatch.setattr(BlockWriter, "_describe", dying(describe))
    monkeypatch.setattr(files.gfile, "rename", dying(rename))


@each_format
def test_a_writer_killed_at_any_moment_leaves_nothing_behind(tmp_path, kind):
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole" / "v", kind)
    whole = contents(tmp_path / "whole")
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        killed = False
        with pytest.MonkeyPatch.context() as patch:
            _kill_at(patch, moment)
            try:
                write(folder / "v", kind)
            except Killed:
                killed = True
        assert (contents(folder) == whole) is not killed
        if not killed:  # all was done before that moment
            assert moment > 10
            return
        write(folder / "v", kind)
        assert contents(folder) == whole, moment
        assert VectorFile(str(folder / "v")).rows == ROWS
    raise AssertionError("the writer never ended")


@each_format
def test_what_was_begun_and_lost_is_begun_anew(tmp_path, kind):
    path = tmp_path / "vectors"
    write(path, kind, stop=5)
    assert VECTORS.find(f"{path}.json")["done"] == 5
    os.remove(f"{path}.partial")
    assert writer_of(path, kind).done == 0
    write(path, kind)
    np.testing.assert_array_equal(np.concatenate(list(VectorFile(str(path)).blocks())), VALUES)


def test_a_file_that_was_removed_is_written_anew(tmp_path):
    path = tmp_path / "vectors"
    write(path, VectorFormat.JSONL)
    before = path.read_bytes()
    path.unlink()
    write(path, VectorFormat.JSONL)
    assert path.read_bytes() == before


def test_a_finished_file_is_left_alone(tmp_path):
    path = tmp_path / "vectors"
    write(path, VectorFormat.NPY)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    with writer_of(path, VectorFormat.NPY) as writer:
        assert writer.finished and writer.done == ROWS
        assert writer.counts == {"cut": 3, "longest": 7, "empty": 0}
    assert {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("stop", [None, 5])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_sha256": "other"}, "was made with other input. Name another"),
        ({"model": {"encoder_sha256": "x"}}, "was made with other model. Name another"),
        (
            {"settings": EmbeddingSettings(layers=(2,), max_seq_length=9).describe()},
            r"was made with other settings: layers \(was \[1\], now \[2\]\)",
        ),
    ],
)
def test_vectors_of_something_else_are_not_written_over(tmp_path, stop, change, message):
    path = tmp_path / "vectors"
    write(path, VectorFormat.NPY, stop=stop)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=message) as error:
        writer_of(path, VectorFormat.NPY, IDENTITY | change)
    assert f"{path}.json" in str(error.value)
    with pytest.raises(InputError, match=r"other format \(was npy, now jsonl\)"):
        writer_of(path, VectorFormat.JSONL)
    assert contents(tmp_path) == before


def test_files_of_others_are_not_written_over(tmp_path):
    path = tmp_path / "vectors.npy"
    for name, text in (("vectors.npy", "mine"), ("vectors.npy.texts.jsonl", "mine")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=f"{name}: exists, and was not made by bert-tf em"):
            writer_of(path, VectorFormat.NPY)
        (tmp_path / name).unlink()
    (tmp_path / "vectors.npy.json").write_text('{"made_by": "me"}')
    with pytest.raises(
        InputError, match=r"vectors\.npy\.json: exists, and does not describe vectors"
    ):
        writer_of(path, VectorFormat.NPY)


@each_format
def test_a_file_that_was_changed_is_reported(tmp_path, kind):
    path = tmp_path / "vectors"
    write(path, kind)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="is damaged, or was changed since it was written"):
        VectorFile(str(path))
    with pytest.raises(InputError, match="was changed since it was made. Remove .* to make"):
        writer_of(path, kind)


@each_format
def test_damaged_bytes_are_reported(tmp_path, kind):
    path = tmp_path / "vectors"
    write(path, kind)
    data = path.read_bytes()
    for damaged in (data[:5] + b"\xff" + data[6:], data[:20] + b"((((" + data[24:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="is damaged, or was changed"):
            list(VectorFile(str(path)).blocks())


def test_what_is_unfinished_is_not_read(tmp_path):
    path = tmp_path / "vectors"
    write(path, VectorFormat.NPY, stop=5)
    with pytest.raises(InputError, match="is incomplete; run the same bert-tf embed again"):
        VectorFile(str(path))
    with pytest.raises(InputError, match=r"gone\.json: no such file, which belongs to the vectors"):
        VectorFile(f"{tmp_path}/gone")


@each_format
def test_a_damaged_description_is_reported(tmp_path, kind):
    path = tmp_path / "vectors"
    write(path, kind)
    place = tmp_path / "vectors.json"
    found = json.loads(place.read_text())
    for change, message in (
        ({"rows": "many"}, "at rows: expected a whole number"),
        ({"settings": {"pooling": "sum"}}, "its settings are damaged"),
        ({"bytes": [1]}, "is damaged, or was changed"),
        ({"width": 4}, "is damaged, or was changed"),
        ({"width": 0}, "is damaged, or was changed"),
        ({"width": 1 << 32}, "is damaged, or was changed"),
    ):
        place.write_text(json.dumps(found | change))
        with pytest.raises(InputError, match=message):
            list(VectorFile(str(path)).blocks())


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="no space left on the device. Finished work is kept"):
        write(tmp_path / "vectors", VectorFormat.NPY)


@pytest.mark.parametrize(
    ("path", "chosen", "kind"),
    [
        ("a.npy", None, "npy"),
        ("a/b.jsonl", None, "jsonl"),
        ("a.b.tfrecord", None, "tfrecord"),
        ("a.npy", "jsonl", "jsonl"),
        ("a", "npy", "npy"),
    ],
)
def test_names_tell_formats(path, chosen, kind):
    assert formats.format_of(VectorFormat, path, chosen) is VectorFormat(kind)


def test_a_name_that_tells_no_format_is_refused():
    with pytest.raises(
        InputError, match=r"a\.txt: the ending .* end it with \.npy, \.jsonl or \.tf"
    ):
        formats.format_of(VectorFormat, "a.txt", None)


def test_a_bucket_is_written_from_the_beginning(tmp_path):
    """A file system that can only be written to in one go."""
    path = "ram://bucket/vectors.npy"
    write(path, VectorFormat.NPY)
    np.testing.assert_array_equal(np.concatenate(list(VectorFile(path).blocks())), VALUES)
    with writer_of(path, VectorFormat.NPY) as writer:
        assert writer.finished
