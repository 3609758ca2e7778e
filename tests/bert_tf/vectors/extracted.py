"""Features that are extracted, and read again from each format."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.vectors import run
from bert_tf.vectors.settings import FeatureSettings
from pipelines.common import files
from pipelines.labelled.text_files import TextFile

TEXTS = ["The small model reads.", "", "a deep kernel " * 30, "é, 中国", "short"]
CONLL = "-DOCSTART- O\n\nThe O\nsmall B-X\nmodel I-X\n\n한국어 B-Y\n\u200b O\n"
NAMES = {"npz": "features", "jsonl": "f.jsonl", "tfrecord": "f.tfrecord"}
each_format = pytest.mark.parametrize("kind", NAMES)


def extract(model, source, output, **settings):
    """Extracts features with settings; what `extract_file` returns."""
    if isinstance(source, str):
        source = TextFile(source, labelled=True)
    return run.extract_file(model, source, str(output), FeatureSettings(**settings))


def read(kind, path):
    """What is written, in one form: of each text its values, and what is said of it by name."""
    return {"npz": _archives, "jsonl": lines, "tfrecord": _records}[kind](str(path))


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


def lines(path):
    """What a file of JSON Lines holds, as `read`."""
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
