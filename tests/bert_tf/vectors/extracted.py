"""Features that are written, and read again from each kind of output."""

import glob
import json
from pathlib import Path

import numpy as np
import pytest

from bert_tf.vectors import run
from bert_tf.vectors.settings import FeatureSettings
from pipelines.labelled.text_files import TextFile

TEXTS = ["The small model reads.", "", "a deep kernel " * 30, "é, 中国", "short"]
CONLL = "-DOCSTART- O\n\nThe O\nsmall B-X\nmodel I-X\n\n한국어 B-Y\n\u200b O\n"
OUTPUTS = ("features", "f.npy", "f.jsonl")
each_output = pytest.mark.parametrize("name", OUTPUTS)


def extract(model, source, output, **settings):
    """Writes features with settings; what `run.write` returns."""
    if not isinstance(source, str):
        return run.write(model, source, str(output), FeatureSettings(**settings))
    return extract(model, TextFile(source, labelled=True), output, **settings)


def read(path):
    """What is written, in one form: of each text its values, and what is said of it by name."""
    path = str(path)
    if path.endswith(".jsonl"):
        return lines(path)
    blocks = [(path, f"{path}.texts.jsonl")]
    if not path.endswith(".npy"):
        arrays, lists = (sorted(glob.glob(f"{path}/0*{end}")) for end in (".npy", ".jsonl"))
        blocks = zip(arrays, lists, strict=True)
    found = []
    for values, texts in blocks:
        array, start = np.load(values, mmap_mode="r"), 0
        for row in map(json.loads, open(texts, encoding="utf-8")):
            end = start + len(row.get("tokens", [""]))
            found.append((array[start:end], row))
            start = end
        assert start == len(array)
    return found


def lines(path):
    """What a file in the layout of extract_features holds, as `read`."""
    found = []
    for number, text in enumerate(open(path, encoding="utf-8")):
        row = json.loads(text)
        assert row.pop("linex_index") == number
        units = row.pop("features")
        values = np.float32([[layer["values"] for layer in unit["layers"]] for unit in units])
        for name, key in (("tokens", "token"), ("starts", "start"), ("ends", "end"),
                          ("segments", "segment"), ("words", "word")):  # fmt: skip
            if not units or key in units[0]:
                row[name] = [unit[key] for unit in units]
        found.append((values, row))
    return found


def contents(folder):
    """The bytes of all files in a folder, by their relative paths."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }
