"""Serialized examples against the protocol-buffer library."""

import numpy as np
import tensorflow as tf

from pipelines.pretraining import masking, tf_example


def _block(rows=200, length=128, slots=20, vocab=200_000):
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, length + 1, rows).astype(np.int32)
    a_lengths = rng.integers(3, lengths - 2).astype(np.int32)
    ids = rng.integers(0, vocab, (rows, length)).astype(np.int32)
    ids[np.arange(length) >= lengths[:, np.newaxis]] = 0
    sequences = masking.Sequences(
        ids, lengths, a_lengths, rng.integers(0, 2, rows).astype(np.int32)
    )
    counts = rng.integers(1, slots + 1, rows).astype(np.int32)
    predictions = masking.Predictions(
        rng.integers(0, length, (rows, slots)).astype(np.int32),
        rng.integers(0, vocab, (rows, slots)).astype(np.int32),
        counts,
        np.zeros(3, np.int64),
    )
    return sequences, predictions


def _library(sequences, predictions, row, next_sentence):
    length = sequences.word_ids.shape[1]
    position = np.arange(length)

    def ints(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))

    features = {
        "input_ids": ints(sequences.word_ids[row]),
        "input_mask": ints(position < sequences.lengths[row]),
        "segment_ids": ints(
            (position >= sequences.a_lengths[row]) & (position < sequences.lengths[row])
        ),
    }
    if predictions is not None:
        slots = np.arange(predictions.positions.shape[1])
        features["masked_lm_positions"] = ints(predictions.positions[row])
        features["masked_lm_ids"] = ints(predictions.ids[row])
        weights = (slots < predictions.counts[row]).astype(np.float32)
        features["masked_lm_weights"] = tf.train.Feature(
            float_list=tf.train.FloatList(value=weights)
        )
    if next_sentence:
        features["next_sentence_labels"] = ints([sequences.is_random[row]])
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def test_bytes_are_those_of_the_library():
    sequences, predictions = _block()
    for found, next_sentence in ((predictions, True), (predictions, False), (None, False)):
        records = tf_example.encode(sequences, found, next_sentence)
        assert len(records) == len(sequences.lengths)
        for row, record in enumerate(records):
            assert record == _library(sequences, found, row, next_sentence)


def test_no_sequences_are_no_records():
    sequences, predictions = _block()
    empty = masking.Sequences(*(value[:0] for value in sequences))
    none = masking.Predictions(*(value[:0] for value in predictions[:3]), predictions.outcomes)
    assert tf_example.encode(empty, none, True) == []
