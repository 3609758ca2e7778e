"""Foreign files of which bytes are changed and sizes lie.

Each is read, or refused by an error that names it; the process survives, and time and memory are
bounded. Measured are the seconds of one file, and the growth of the largest resident memory of the
process that reads many. Changed values are not noticed where a format has no checksums.
"""

import json
import random
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path

from benchmarks.soak import changes, samples
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from benchmarks.soak.samples import Sample
from pipelines.common.errors import InputError
from tests import commands

CATEGORY = "mutations"
FILES = 5000  # of a case
_SECONDS = 10.0  # of the processor for a file; most take a thousandth of it
_WAIT = 60.0  # seconds of a file that waits, or on a busy machine
_MEMORY = 1 << 30  # bytes
_MAX_ADDRESSES = 1 << 34  # bytes: the machine survives, too


def make(workspace: Workspace) -> Case:
    """Returns the cases, each of `FILES` files; the samples are written once."""
    samples.write(workspace.folder / "samples")
    return lambda number: run(workspace, number * FILES, (number + 1) * FILES)


def run(workspace: Workspace, first: int, end: int) -> Outcome:
    """Reads the files with the numbers from `first` to `end`, in processes of their own."""
    counts: Counter[str] = Counter(files=end - first)
    failures: list[str] = []
    while first < end:
        arguments = (workspace.folder, workspace.seed, first, end)
        done = commands.Running(__name__, *arguments).wait((end - first) * _WAIT)
        for line in done.stdout.splitlines():
            number, result, *failure = json.loads(line)
            counts[result] += 1
            first = number + 1
            failures += failure
        if first < end:  # the process ended while it read this file
            is_late = -done.returncode in (signal.SIGPROF, signal.SIGALRM)
            what = "took too long" if is_late else "crashed"
            last = done.stderr.strip().splitlines()[-1:]
            failures.append(f"{first}: {what}, status {done.returncode} {last}")
            first += 1
    return Outcome(dict(counts), tuple(failures))


def _read_many(workspace: Workspace, first: int, end: int) -> None:
    """Reads mutated files, and prints the number and the result of each."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESSES, resource.RLIM_INFINITY))
    copy = workspace.folder / CATEGORY / f"from-{first}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(workspace.folder / "samples", copy)
    known = samples.read(copy)
    for sample in known:  # undamaged: also what is imported on demand is not counted below
        sample.read(str(sample.path))
    contents = [sample.path.read_bytes() for sample in known]
    weights = [sample.weight for sample in known]
    for number in range(first, end):
        rng = workspace.rng(CATEGORY, number)
        (index,) = rng.choices(range(len(known)), weights)
        sample, path = known[index], known[index].path
        path.write_bytes(mutated(sample, contents[index], rng))
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        signal.setitimer(signal.ITIMER_REAL, _WAIT)
        before = _peak()
        result, failure = outcome(sample, path)
        if _peak() > before + _MEMORY:
            failure = f"took {_peak() - before:,} bytes"
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        named = []
        if failure:
            kept = workspace.folder / CATEGORY / str(number)
            shutil.copytree(path.parent, kept, dirs_exist_ok=True)
            named = [f"{number}: {kept / path.name}: {failure}"]
        print(json.dumps([number, result, *named]), flush=True)
        path.write_bytes(contents[index])
    shutil.rmtree(copy)


def _peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def outcome(sample: Sample, path: Path) -> tuple[str, str | None]:
    """The result of reading a mutated file, and what is wrong with it."""
    try:
        sample.read(str(path))
    except InputError as error:
        file = "" if sample.whole_folder else path.name.partition(".")[0]
        named = str(path.parent) in str(error) and file in str(error)
        return "reported", None if named else f"the error does not name it: {error}"
    except Exception as error:
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    return "read", None


def mutated(sample: Sample, content: bytes, rng: random.Random) -> bytes:
    """The content of a sample with changes: in what it packs, or after it was packed."""
    if rng.random() < 0.5:
        return changes.changed_bytes(content, rng)
    parts = sample.unpack(content)
    name = rng.choice(sorted(parts))
    if sample.path.suffix == ".json" and rng.random() < 0.5:
        value = changes.changed_json(json.loads(content), rng)
        parts[name] = json.dumps(value).encode()
    else:
        parts[name] = changes.changed_bytes(parts[name], rng)
    return sample.pack(parts)


if __name__ == "__main__":
    folder, seed, *limits = sys.argv[1:]
    _read_many(Workspace(Path(folder), int(seed)), *map(int, limits))
