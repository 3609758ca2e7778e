"""Published data sets and vocabularies, for slow tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.common import compressed


def data_of(name: str = "") -> Path:
    """A file or folder of those below DATA_ROOT; without it the test is skipped."""
    root = os.environ.get("DATA_ROOT")
    if not root or not Path(root, name).exists():
        pytest.skip(f"set DATA_ROOT to a folder that has {name or 'published data sets'}")
    return Path(root, name)


def lines_of_corpora(size: int = 10_000) -> Iterator[list[str]]:
    """The lines of all corpora below DATA_ROOT, some of a file at a time."""
    folders = os.walk(data_of("corpora"))
    paths = [f"{folder}/{name}" for folder, _, names in folders for name in names]
    assert paths
    for path in sorted(paths):
        lines = compressed.read_unpacked(path).decode(errors="replace").split("\n")
        for start in range(0, len(lines), size):
            yield lines[start : start + size]
