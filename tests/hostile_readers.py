"""A reader that crashes, hangs or fills the memory, for the tests of the fault injection."""

import os
import sys
import time
from pathlib import Path

from benchmarks.soak import mutations, samples
from benchmarks.soak.outcomes import Workspace
from benchmarks.soak.samples import Sample

_ACTIONS = {"1": os.abort, "2": lambda: time.sleep(60), "3": lambda: b"x" * 200_000_000}


def _read(path: str) -> None:
    _ACTIONS.get(Path(path).parent.name, bool)()


if __name__ == "__main__":
    folder, seed, *limits = sys.argv[1:]
    sample = Path(folder, "sample", "a.txt")
    sample.parent.mkdir(exist_ok=True)
    sample.touch()
    mutations._SECONDS, mutations._MEMORY = 3.0, 100_000_000
    samples.read = lambda _: [Sample(sample, _read)]
    mutations._read_many(Workspace(Path(folder), int(seed)), *map(int, limits))
