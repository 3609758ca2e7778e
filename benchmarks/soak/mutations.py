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

from benchmarks.soak import samples
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from benchmarks.soak.samples import Sample
from pipelines.common.errors import InputError
from tests import commands

CATEGORY = "mutations"
FILES = 1000  # of a case
_SECONDS = 10.0  # of a file; on a slow or busy machine, most take a thousandth of it
_MEMORY = 1 << 30  # bytes
_MAX_ADDRESSES = 1 << 34  # bytes: the machine survives, too
_LENGTH = 1 << 20  # bytes of a mutated file
_NUMBERS = (b"0", b"-1", b"1", b"65536", b"999999999", b"4294967296", b"9" * 30, b"1e999", b"nan")
_SIZES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 40) + 1, (1 << 63) - 1)
_NASTY = (
    b"\n", b"\r", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"((((", b"[[[[", b'{"a":', b'"', b"\t",
    b",", b"<", b"</", b"&x;", b"{}", b"null", b"NaN", b"\x1f\x8b\x08\0", b"PK\x03\x04", b"ARROW1",
)  # fmt: skip


def make(workspace: Workspace) -> Case:
    """Returns the cases, each of `FILES` files; the samples are written once."""
    samples.write(workspace.folder / "samples")
    return lambda number: run(workspace, number * FILES, (number + 1) * FILES)


def run(workspace: Workspace, first: int, end: int, module: str = __name__) -> Outcome:
    """Reads the files with the numbers from `first` to `end`, in processes that run a module."""
    counts: Counter[str] = Counter(files=end - first)
    failures: list[str] = []
    while first < end:
        arguments = (workspace.folder, workspace.seed, first, end)
        done = commands.Running(module, *arguments).wait((end - first) * _SECONDS)
        for line in done.stdout.splitlines():
            number, result, *failure = json.loads(line)
            counts[result] += 1
            first = number + 1
            failures += failure
        if first < end:  # the process ended while it read this file
            what = "took too long" if done.returncode == -signal.SIGALRM else "crashed"
            last = done.stderr.strip().splitlines()[-1:]
            failures.append(f"{first}: {what}, status {done.returncode} {last}")
            first += 1
    return Outcome(dict(counts), tuple(failures))


def _read_many(workspace: Workspace, first: int, end: int) -> None:
    """Reads mutated files, and prints the number and the result of each."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESSES, resource.RLIM_INFINITY))
    known = samples.read(workspace.folder / "samples")
    for sample in known:  # undamaged: also what is imported on demand is not counted below
        sample.read(str(sample.path))
    for number in range(first, end):
        folder = workspace.folder / CATEGORY / str(number)
        rng = workspace.rng(CATEGORY, number)
        sample = rng.choice(known)
        path = mutate(sample, folder, rng)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        before = _peak()
        result, failure = outcome(sample, path)
        if _peak() > before + _MEMORY:
            failure = f"took {_peak() - before:,} bytes"
        signal.setitimer(signal.ITIMER_REAL, 0)
        named = [f"{number}: {path}: {failure}"] if failure else []
        print(json.dumps([number, result, *named]), flush=True)
        if not failure:
            shutil.rmtree(folder)


def _peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def outcome(sample: Sample, path: Path) -> tuple[str, str | None]:
    """The result of reading a mutated file, and what is wrong with it."""
    try:
        sample.read(str(path))
    except InputError as error:
        file = "" if sample.whole_folder else path.name.partition(".")[0]
        named = path.parent.name in str(error) and file in str(error)
        return "reported", None if named else f"the error does not name it: {error}"
    except Exception as error:
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    return "read", None


def mutate(sample: Sample, folder: Path, rng: random.Random) -> Path:
    """Writes a copy of a sample with changes, in its content or after it was packed."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sample.path.parent, folder)
    path = folder / sample.path.name
    parts = sample.unpack(sample.path.read_bytes())
    inside = rng.random() < 0.5
    if inside:
        name = rng.choice(sorted(parts))
        parts[name] = _mutated(parts[name], rng)
    content = sample.pack(parts)
    path.write_bytes(content if inside else _mutated(content, rng))
    return path


def _mutated(content: bytes, rng: random.Random) -> bytes:
    """Bytes after one to four changes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        span = data[start : start + rng.choice((1, 4, 30, 300))]
        kind = rng.randrange(7)
        if kind == 0 and start < len(data):
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[start : start + len(span)]
        elif kind == 2 and rng.random() < 0.3:
            del data[start:]
        elif kind == 3:
            data[start:start] = span * rng.choice((1, 2, 100, 10_000))
        elif kind == 4:
            nasty = rng.choice(_NASTY) * rng.choice((1, 1, 3, 1000, 100_000))
            data[start : start + rng.choice((0, len(nasty)))] = nasty
        elif kind == 5:
            size = rng.choice((1, 2, 4, 8))
            value = rng.choice(_SIZES) % (1 << 8 * size)
            data[start : start + size] = value.to_bytes(size, rng.choice(("little", "big")))
        else:
            numbers = list(samples.DIGITS.finditer(data))
            if numbers:
                found = rng.choice(numbers)
                data[found.start() : found.end()] = rng.choice(_NUMBERS)
        del data[_LENGTH:]
    return bytes(data)


if __name__ == "__main__":
    folder, seed, *limits = sys.argv[1:]
    _read_many(Workspace(Path(folder), int(seed)), *map(int, limits))
