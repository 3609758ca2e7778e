"""Published data sets and vocabularies, for slow tests."""

import os
from pathlib import Path

import pytest


def data_of(name: str = "") -> Path:
    """A file or folder of those below DATA_ROOT; without it the test is skipped."""
    root = os.environ.get("DATA_ROOT")
    if not root or not Path(root, name).exists():
        pytest.skip(f"set DATA_ROOT to a folder that has {name or 'published data sets'}")
    return Path(root, name)
