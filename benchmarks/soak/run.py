r"""Tries faults for some minutes, counts them, and says what came of each.

  python -m benchmarks.soak --minutes=60 --record=benchmarks/soak.json
  python -m benchmarks.soak --only=inputs,kills --minutes=5
  python -m benchmarks.soak --seed=7 --case=kills:12

Each case is drawn from the seed and its number, so that one that failed can be run again alone. It
is found again on the same machine at least: how far a command is when it is killed is a matter of
time, and so a case of kills may need several runs.
"""

import concurrent.futures
import contextlib
import dataclasses
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks.soak import children
from benchmarks.soak.outcomes import Case, Outcome, Place
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Limits
from pipelines.common.threads import cores


@dataclasses.dataclass(frozen=True)
class Room:
    """A kind of cases.

    Attributes:
      share: of the time.
      limit: seconds that a case may take in a process of its own; None: its cases are commands,
        which have theirs.
      at_once: how many are tried at a time.
    """

    share: float
    limit: float | None = None
    at_once: int = 1


ROOMS = {
    "kills": Room(0.40, at_once=cores()),
    "corruptions": Room(0.15, limit=300),
    "inputs": Room(0.20, limit=1200),
    "bodies": Room(0.05, limit=600),
    "disks": Room(0.10),
    "requests": Room(0.10),
}
_NAMES = ", ".join(ROOMS)
_MINUTES = flag_types.define_number(
    "minutes", 60.0, "Minutes that all of it takes, or a little more.", float, Limits(above=0)
)
_SEED = flag_types.define_number("seed", 0, "Seed of all cases.", int, Limits(least=0))
_ONLY = flags.DEFINE_list("only", [], f"What to try, of {_NAMES}. Not given: all.")
_CASE = flags.DEFINE_string("case", None, "One case, such as kills:12. Not given: as many as fit.")
_RECORD = flags.DEFINE_string(
    "record",
    None,
    "File of the counts, benchmarks/soak.json for those of the README, whose table is written, "
    "too; --case writes none. Not given: they are printed only.",
)
_WORK = flags.DEFINE_string(
    "work", None, "Folder for what is tried. Not given: a temporary one, which is removed."
)


def main() -> None:
    """Tries what is asked for; the status is 1 where something failed."""
    rooms, number = _asked()
    children.preload()
    with _folder() as folder:
        place = Place(folder, _SEED.value)
        print(f"seed {place.seed}, in {folder}", flush=True)
        whole = sum(ROOMS[name].share for name in rooms)
        failed = False
        for name in rooms:
            minutes = _MINUTES.value * ROOMS[name].share / whole
            result = _try(name, place, minutes, number)
            failed = failed or bool(result["failures"])
            if _RECORD.value and number is None:  # one case is tried again, and counted already
                from benchmarks.soak import table

                table.write(_RECORD.value, _about(), {name: result})
    if failed:
        raise SystemExit(1)


def _asked() -> tuple[list[str], int | None]:
    """The rooms to try, and the number of the only case, if there is one."""
    rooms = _ONLY.value or list(ROOMS)
    number = None
    if _CASE.value:
        name, _, digits = _CASE.value.partition(":")
        if not digits.isdecimal():
            raise InputError(f"--case={_CASE.value}: give a name and a number, such as kills:12.")
        rooms, number = [name], int(digits)
    for name in rooms:
        if name not in ROOMS:
            raise InputError(f"{name}: is nothing to try; there are {_NAMES}.")
    return rooms, number


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    if _WORK.value:
        folder = Path(_WORK.value).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="bert-tf-soak-") as name:
        os.chmod(name, 0o755)  # other users take part, see `disks`
        yield Path(name)


def _try(name: str, place: Place, minutes: float, number: int | None) -> dict[str, Any]:
    """Tries cases of a room, one at least; gives the counts and the failures."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    begin, tried = time.monotonic(), 0
    end = begin + 60 * minutes
    with _cases(name, place, minutes) as case, ThreadPoolExecutor(ROOMS[name].at_once) as pool:
        for case_number, outcome in _outcomes(case, pool, ROOMS[name].at_once, number, end):
            tried += 1
            counts.update(outcome.counts)
            for failure in outcome.failures:
                failures.append(f"{name}:{case_number}: {failure}")
                print(f"failed: --seed={place.seed} --case={failures[-1]}", flush=True)
    seconds = time.monotonic() - begin
    found = {"cases": tried, "seconds": round(seconds), **counts}
    print(f"{name}: {json.dumps(found)}; failures: {len(failures)}", flush=True)
    return {**found, "failures": failures}


def _outcomes(
    case: Case, pool: ThreadPoolExecutor, at_once: int, only: int | None, end: float
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of cases with their numbers, until a time is over; of as many at the least."""
    if only is not None:
        yield only, _outcome(case, only)
        return
    numbers = itertools.count()
    first = itertools.islice(numbers, at_once)
    running = {pool.submit(_outcome, case, number): number for number in first}
    while running:
        done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()
            if time.monotonic() < end:
                number = next(numbers)
                running[pool.submit(_outcome, case, number)] = number


def _outcome(case: Case, number: int) -> Outcome:
    """What comes of a case; what it cannot cope with, a command that hangs, say, is a failure."""
    try:
        return case(number)
    except Exception as error:
        traceback.print_exc()
        return Outcome({}, (f"{type(error).__name__}: {str(error)[:300]}",))


@contextlib.contextmanager
def _cases(name: str, place: Place, minutes: float) -> Iterator[Case]:
    """The cases of a room, in a process of their own where they are not processes."""
    module, limit = f"{__package__}.{name}", ROOMS[name].limit
    if limit is not None:
        with contextlib.closing(children.Child(module, place, limit)) as child:
            yield child
        return
    made = importlib.import_module(module)
    if name == "requests":
        with made.make(place, minutes) as case:
            yield case
    else:
        yield made.make(place)


def _about() -> dict[str, Any]:
    """When and where it was tried."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "minutes": _MINUTES.value,
        "seed": _SEED.value,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
    }
