"""Many small files of examples, and their checksums, for tests of the writer."""

import glob
import hashlib
import os

from pipelines.corpus import reader
from pipelines.pretraining import example_writer, sharding


def cut_finely(monkeypatch, shard_tokens=4000, shard_sections=20, range_bytes=4000):
    """Makes the writer cut little text into many ranges and shards."""
    monkeypatch.setattr(sharding, "_SHARD_TOKENS", shard_tokens)
    monkeypatch.setattr(sharding, "_MIN_SECTIONS_PER_SHARD", shard_sections)
    monkeypatch.setattr(
        example_writer, "plan_corpus", lambda found: reader.plan_ranges(found, range_bytes)
    )


def digests(folder, pattern="*"):
    """The checksum of each file of a folder, by its name."""
    return {
        os.path.basename(path): hashlib.sha256(open(path, "rb").read()).hexdigest()
        for path in glob.glob(f"{folder}/{pattern}")
    }
