"""Taking over the TFRecords of other programs."""

import os
import shutil

import pytest
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.pretraining import adoption, example_folder, example_reader
from pipelines.tokenizers import registry
from tests import tokenizers


@pytest.fixture
def foreign(tfrecords, tmp_path):
    """A folder of TFRecords without a manifest."""
    copy = shutil.copytree(tfrecords, tmp_path / "foreign")
    os.remove(copy / "manifest.json")
    os.remove(copy / "vocab.txt")
    return copy


def test_an_adopted_folder_reads_like_ours(foreign, tfrecords, vocab_path):
    tokens = registry.load_tokenizer(vocab_path)
    adoption.adopt(str(foreign), "train-*", tokens)
    ours, theirs = (example_reader.open_examples(str(folder)) for folder in (tfrecords, foreign))
    assert theirs.total == ours.total
    assert theirs.features == ours.features
    manifest = example_folder.read_manifest(str(foreign))
    assert manifest["settings"]["objective"] == "mlm_nsp"
    assert (
        manifest["vocabulary_sha256"]
        == example_folder.read_manifest(tfrecords)["vocabulary_sha256"]
    )
    with pytest.raises(InputError, match="already has a manifest.json"):
        adoption.adopt(str(foreign), "train-*", tokens)


def test_an_empty_file_may_be_the_first(foreign, vocab_path):
    (foreign / "train-0.tfrecord").write_bytes(b"")
    adoption.adopt(str(foreign), "train-*", registry.load_tokenizer(vocab_path))
    assert example_folder.read_manifest(str(foreign))["train"]["shards"][0]["records"] == 0


def test_a_vocabulary_too_small_is_refused(foreign, vocab_path):
    tokens = tokenizers.wordpiece(registry.load(vocab_path).tokens[:30])
    with pytest.raises(InputError, match=r"train-.*record \d+: \w+ has \d+, but the vocabulary"):
        adoption.adopt(str(foreign), "train-*", tokens)
    assert not (foreign / "manifest.json").exists()


def test_a_vocabulary_of_another_in_the_folder_is_kept(foreign, vocab_path):
    tokens = registry.load_tokenizer(vocab_path)
    (foreign / "vocab.txt").write_text("\n".join([*tokens.vocabulary.tokens, "mine"]))
    with pytest.raises(InputError, match=r"vocab\.txt: is another vocabulary than that named"):
        adoption.adopt(str(foreign), "train-*", tokens)
    assert (foreign / "vocab.txt").read_text().endswith("mine")
    with pytest.raises(InputError, match="has no file like none-"):
        (foreign / "vocab.txt").unlink()
        adoption.adopt(str(foreign), "none-*", tokens)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("segment_ids", [0, 3, -1, 0], "record 1: input_type_ids has -1"),
        ("input_mask", [1, 2, 1, 0], "record 1: input_mask has 2"),
        ("masked_lm_positions", [4], "record 1: masked_lm_positions has 4, but sequences are"),
        ("next_sentence_labels", [2], "record 1: next_sentence_labels has 2"),
    ],
)
def test_values_that_no_model_takes_are_named(tmp_path, vocab_path, name, values, message):
    good = {
        "input_ids": [2, 5, 3, 0], "input_mask": [1, 1, 1, 0], "segment_ids": [0, 1, 0, 0],
        "masked_lm_positions": [1], "masked_lm_ids": [6], "next_sentence_labels": [1],
    }  # fmt: skip
    with tf.io.TFRecordWriter(f"{tmp_path}/a.tfrecord") as writer:
        for features in (good, good | {name: values}):
            example = tf.train.Example()
            for key, numbers in features.items():
                example.features.feature[key].int64_list.value.extend(numbers)
            example.features.feature["masked_lm_weights"].float_list.value.append(1)
            writer.write(example.SerializeToString())
    with pytest.raises(InputError, match=message):
        adoption.adopt(str(tmp_path), "*.tfrecord", registry.load_tokenizer(vocab_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tfrecord"]
