"""What is found out about this machine, and what is asked of its C library."""

import platform
import subprocess
import sys

import pytest

# Prints how many pages the kernel cleared for a block of 40 MB that is freed and allocated again.
_ALLOCATE = """
import resource
from pipelines.common import machine

{first}
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * 40_000_000
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_freed_memory_is_kept(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)  # with large pages, faults are few
    faults = [
        int(subprocess.check_output([sys.executable, "-c", _ALLOCATE.format(first=first)]))
        for first in ("", "machine.keep_freed_memory()")
    ]
    assert faults[1] < 100 < 1000 < faults[0]
