"""Records of any features, against the libraries."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pipelines.pretraining import tf_example

# None begins another: the library orders such the other way round, and no features are called so.
_NAMES = st.text(st.sampled_from("abz_ é"), max_size=40).map(lambda name: f"{name}.")
_KINDS = st.lists(
    st.tuples(_NAMES, st.integers(1, 30), st.booleans()),
    min_size=1,
    max_size=4,
    unique_by=lambda kind: kind[0],
)


def _library_bytes(features, row):
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


def _library_records(features, path):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(len(next(iter(features.values())))):
            writer.write(_library_bytes(features, row))
    return path.read_bytes()


@given(st.data(), _KINDS, st.integers(0, 4))
def test_bytes_are_those_of_the_library_and_are_read_back(data, kinds, rows):
    numbers = st.integers(0, 2**31 - 1) | st.sampled_from([0, 127, 128, 16383, 16384, 2**21, 2**28])
    floats = st.floats(width=32)
    features = {
        name: data.draw(arrays.arrays(np.float32, (rows, size), elements=floats))
        if is_float
        else data.draw(arrays.arrays(np.int32, (rows, size), elements=numbers))
        for name, size, is_float in kinds
    }
    records = tf_example.encode(features)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.tfrecord")
        assert records == _library_records(features, path)
        found = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    for row, record in enumerate(found):
        example = tf.train.Example.FromString(record).features.feature
        assert set(example) == set(features)
        for name, values in features.items():
            stored = example[name].float_list.value or example[name].int64_list.value
            np.testing.assert_array_equal(np.array(stored), values[row])
