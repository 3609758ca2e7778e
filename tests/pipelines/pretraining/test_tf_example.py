"""Serialized examples against the protocol-buffer library."""

import numpy as np
import tensorflow as tf

from pipelines.pretraining import tf_example


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


def test_no_rows_are_no_records():
    assert tf_example.encode({"input_ids": np.zeros((0, 128), np.int32)}) == b""
