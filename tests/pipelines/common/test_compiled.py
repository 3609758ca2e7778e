"""Loops are compiled, and what was compiled is kept where that is possible."""

import numba
from numba.core import caching

from pipelines.common.compiled import compiled


def _double(x):
    return 2 * x


def test_what_was_compiled_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert compiled(_double)(21) == 42
    assert list(tmp_path.rglob("*.nbi"))


def test_without_a_place_to_keep_it_is_compiled_each_time(monkeypatch):
    """A package of root's, and a user without a home."""
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled(_double)(21) == 42
