"""What is found out about this machine, and what is asked of its C library."""

import platform
import subprocess
import sys

import pytest

# Prints how many pages the kernel cleared for blocks of 80 MB that are freed and allocated again.
_ALLOCATE = """
import resource
import threading
from pipelines.common import machine

def allocate():
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        b"x" * 40_000_000, b"y" * 40_000_000
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    print(faults)

{first}
{run}
"""


@pytest.mark.parametrize("run", ["allocate()", "threading.Thread(target=allocate).start()"])
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_freed_memory_is_kept(run, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)  # with large pages, faults are few
    faults = [
        int(subprocess.check_output([sys.executable, "-c", _ALLOCATE.format(first=first, run=run)]))
        for first in ("", "machine.keep_freed_memory()")
    ]
    assert faults[1] < 100 < 1000 < faults[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_ARENA_MAX", "4"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1048576")],
)
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_settings_of_the_environment_are_followed(name, value, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setenv(name, value)
    script = _ALLOCATE.format(first="machine.keep_freed_memory()", run="allocate()")
    assert int(subprocess.check_output([sys.executable, "-c", script])) > 1000
