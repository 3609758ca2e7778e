"""The example writer on other file systems than the local one."""

import shutil

import tensorflow as tf

from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import Objective, SequenceKind
from tests import webhdfs
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import HERE, cut_finely, digests, request


def test_paths_of_other_file_systems_work(corpus_path, vocab_path, tmp_path):
    """TensorFlow's in-memory file system stands for gs://: only tf.io.gfile reaches it."""
    local = example_writer.write(request(corpus_path, vocab_path, tmp_path / "o"), HERE)
    for path, name in ((corpus_path, "corpus.txt"), (vocab_path, "vocab.txt")):
        tf.io.gfile.makedirs("ram://in")
        tf.io.gfile.copy(path, f"ram://in/{name}", overwrite=True)
    wanted = request("ram://in/corpus.txt", "ram://in/vocab.txt", "ram://out")
    manifest = example_writer.write(wanted, HERE)
    for shard in manifest["train"]["shards"]:
        with tf.io.gfile.GFile(f"ram://out/{shard['file']}", "rb") as file:
            assert file.read() == (tmp_path / "o" / shard["file"]).read_bytes()
    assert manifest["text"] == local["text"]


def test_a_shard_without_records_is_not_written(corpus_path, vocab_path):
    """Packed sequences need more text than is held out."""
    tf.io.gfile.makedirs("ram://few")
    changes = {"objective": Objective.MLM, "sequences": SequenceKind.PACKED, "max_seq_length": 4096}
    manifest = example_writer.write(
        request(corpus_path, vocab_path, "ram://few/o", held_out_fraction=0.01, **changes), HERE
    )
    assert manifest["held_out"]["records"] == 0 < manifest["train"]["records"]
    assert not manifest["held_out"]["shards"]
    names = {"manifest.json", "vocab.txt", *(s["file"] for s in manifest["train"]["shards"])}
    assert set(tf.io.gfile.listdir("ram://few/o")) == names


def test_hdfs_has_the_same_bytes(vocab_path, tmp_path, monkeypatch):
    """Of a file in several ranges, whose ends are in the middle of lines."""
    cut_finely(monkeypatch, unit_bytes=20_000)
    corpus_path = write_documents(tmp_path / "text.txt", make_documents(200))
    output = tmp_path / "o"
    example_writer.write(request(corpus_path, vocab_path, output), HERE)
    with webhdfs.serving(tmp_path) as place:
        for path, name in ((corpus_path, "corpus.txt"), (vocab_path, "vocab.txt")):
            shutil.copy(path, tmp_path / name)
        wanted = request(f"{place}/c*.txt", f"{place}/vocab.txt", f"{place}/there")
        example_writer.write(wanted, HERE)
    here, there = digests(output), digests(tmp_path / "there")
    del here["manifest.json"], there["manifest.json"]  # which name the corpus
    assert here == there and len(here) > 3
