"""What tests of the example writer share: requests, many small units, checksums of files."""

import dataclasses
import glob
import hashlib
import os

import numpy as np

from pipelines.common.runners import LocalRunner
from pipelines.pretraining import example_writer, units
from pipelines.pretraining.makers.base import TokenizedDocuments
from pipelines.pretraining.settings import ExampleSettings

HERE = LocalRunner(1)
SETTINGS = ExampleSettings(
    max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2, held_out_fraction=0.1
)


def request(corpus_path, vocab_path, output, **changes):
    """A request with small settings, some of them changed."""
    settings = dataclasses.replace(SETTINGS, **changes)
    return example_writer.ExampleRequest(corpus_path, vocab_path, str(output), settings)


def documents(lengths, keys=None):
    """Documents of sentences of so many tokens, which are numbered through from 5."""
    sentences = [length for document in lengths for length in document]
    return TokenizedDocuments(
        np.arange(5, 5 + sum(sentences), dtype=np.int32),
        np.cumsum([0, *sentences]),
        np.cumsum([0, *map(len, lengths)]),
        np.array(range(len(lengths)) if keys is None else keys, np.uint64),
    )


def cut_finely(monkeypatch, unit_bytes=4000, pieces=4):
    """Makes the writer cut little text into many units."""
    monkeypatch.setattr(units, "_UNIT_BYTES", (unit_bytes, unit_bytes))
    monkeypatch.setattr(units, "_PIECES", pieces)


def digests(folder, pattern="*"):
    """The checksum of each file of a folder, by its name."""
    return {
        os.path.basename(path): hashlib.sha256(open(path, "rb").read()).hexdigest()
        for path in glob.glob(f"{folder}/{pattern}")
    }
