"""Serialized examples against the protocol-buffer library."""

import numpy as np
import tensorflow as tf

from pipelines.pretraining import tf_example


def _features(rows=200):
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(0, 200_000, (rows, 128)).astype(np.int32),
        "a_mask": rng.integers(0, 2, (rows, 128)).astype(np.int32),
        "of any name": rng.integers(0, 1 << 31, (rows, 20)).astype(np.int32),
        "weights": rng.normal(size=(rows, 7)).astype(np.float32),
        "label": rng.integers(0, 2, (rows, 1)).astype(np.int32),
    }


def library_bytes(features, row):
    def feature(values):
        if values.dtype == np.float32:
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    example = tf.train.Example(
        features=tf.train.Features(
            feature={name: feature(values[row]) for name, values in features.items()}
        )
    )
    return example.SerializeToString(deterministic=True)


def library_records(features, path):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(len(next(iter(features.values())))):
            writer.write(library_bytes(features, row))
    return path.read_bytes()


def test_bytes_are_those_of_the_library(tmp_path):
    features = _features()
    assert tf_example.encode(features) == library_records(features, tmp_path / "x")


def test_no_rows_are_no_records():
    assert tf_example.encode({k: v[:0] for k, v in _features().items()}) == b""
