"""Taking over the TFRecords of other programs."""

import os
import shutil

import pytest

from pipelines import adopt_examples, example_writer, reader, tokenizer
from pipelines.errors import InputError


@pytest.fixture
def foreign(tfrecords, tmp_path):
    """A folder of TFRecords without a manifest."""
    copy = shutil.copytree(tfrecords, tmp_path / "foreign")
    os.remove(copy / "manifest.json")
    os.remove(copy / "vocab.txt")
    return copy


def test_an_adopted_folder_reads_like_ours(foreign, tfrecords, vocab_path):
    tokens = tokenizer.load(vocab_path)
    adopt_examples.adopt(str(foreign), "train-*", tokens)
    ours, theirs = (reader.open_examples(str(folder)) for folder in (tfrecords, foreign))
    assert theirs.total == ours.total
    assert theirs.features == ours.features
    manifest = example_writer.read_manifest(str(foreign))
    assert manifest["settings"]["objective"] == "mlm_nsp"
    assert (
        manifest["vocabulary_sha256"]
        == example_writer.read_manifest(tfrecords)["vocabulary_sha256"]
    )
    with pytest.raises(InputError, match="has a manifest.json already"):
        adopt_examples.adopt(str(foreign), "train-*", tokens)


def test_a_vocabulary_too_small_is_refused(foreign, vocab_path):
    tokens = tokenizer.BertTokenizer(tokenizer.load(vocab_path).vocabulary[:30])
    with pytest.raises(InputError, match=r"train-.*record \d+: \w+ has id \d+, but the vocabulary"):
        adopt_examples.adopt(str(foreign), "train-*", tokens)
    assert not (foreign / "manifest.json").exists()
