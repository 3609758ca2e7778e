"""Many small units of work, and checksums of files, for tests of the writer."""

import glob
import hashlib
import os

from pipelines.pretraining import units


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
