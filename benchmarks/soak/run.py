r"""Injects faults for some minutes, counts them, and reports wrong results.

  python -m benchmarks.soak --minutes=60 --record=benchmarks/soak.json
  python -m benchmarks.soak --only=disks,kills --minutes=5
  python -m benchmarks.soak --seed=7 --case=kills:12

Each case follows from the seed and its number, so a case that failed can be run again alone. How
far a command is when it is killed depends on the machine, so a failed kill may take several tries.
"""

import argparse
import contextlib
import dataclasses
import importlib
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.processes import parsed, place
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from pipelines.common.machine import cores

# Imported once; all commands and cases are forked from that process.
_PRELOADED = [
    "pipelines.common.quiet_worker", "bert_tf.experiments.run", "bert_tf.export.hub",
    "bert_tf.finetuning.sweep", "bert_tf.pretraining.run", "bert_tf.vectors.run",
    "bert_tf.serving.predictor", "pipelines.pretraining.example_writer",
    "pipelines.tokenizers.learning",
]  # fmt: skip


_PROGRESS = 60.0  # seconds between two lines with the counts so far


@dataclasses.dataclass(frozen=True)
class Category:
    """A category of faults: its fraction of the time, and the number of concurrent cases."""

    fraction: float
    concurrent: int = 1


CATEGORIES = {
    "kills": Category(0.45, concurrent=cores()),
    "corruptions": Category(0.2, concurrent=cores()),
    "disks": Category(0.15),
    "requests": Category(0.1),
    "mutations": Category(0.05, concurrent=cores()),
    "messages": Category(0.05),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the cases that the arguments select; the exit status is 1 if one failed."""
    args = _parse(arguments)
    multiprocessing.set_forkserver_preload(_PRELOADED)
    with _folder(args.work) as folder:
        workspace = Workspace(folder, args.seed)
        print(f"seed {workspace.seed}, in {folder}", flush=True)
        total = sum(CATEGORIES[name].fraction for name in args.only)
        failed = False
        for name in args.only:
            minutes = args.minutes * CATEGORIES[name].fraction / total
            result = _run(name, dataclasses.replace(workspace, minutes=minutes), args.case)
            failed = failed or bool(result["failures"])
            if args.record and args.case is None:  # a repeated case is not counted again
                from benchmarks.soak import table

                table.write(args.record, _about(args), {name: result})
    if failed:
        raise SystemExit(1)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, with `only` as a list of names and `case` as a number or None."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.soak", None, __doc__, formatter_class=form)
    parser.add_argument(
        "--minutes", type=float, default=60, help="about the whole time (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all cases (%(default)s)")
    parser.add_argument("--only", help=f"categories, separated by commas: {', '.join(CATEGORIES)}")
    parser.add_argument("--case", help="a single case, such as kills:12")
    parser.add_argument("--record", help="JSON file of the counts; soak.json is that of the README")
    parser.add_argument("--work", type=Path, help="folder of all outputs (default: temporary)")
    args = parsed(parser, arguments)
    if args.minutes <= 0:
        parser.error(f"--minutes={args.minutes:g}: give a number above 0")
    args.only = args.only.split(",") if args.only else list(CATEGORIES)
    if args.case:
        name, _, digits = args.case.partition(":")
        if not digits.isdecimal():
            parser.error(f"--case={args.case}: give a category and a number, such as kills:12")
        args.only, args.case = [name], int(digits)
    for name in args.only:
        if name not in CATEGORIES:
            parser.error(f"unknown category {name!r}; give {', '.join(CATEGORIES)}")
    return args


@contextlib.contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    if work:
        work.mkdir(parents=True, exist_ok=True)
        yield work.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="bert-tf-soak-") as name:
        os.chmod(name, 0o755)  # for the other user of `disks`
        yield Path(name)


def _run(name: str, workspace: Workspace, number: int | None) -> dict[str, Any]:
    """Runs cases of a category, at least one; returns the counts and the failures."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    begin, cases = time.monotonic(), 0
    end, concurrent = begin + 60 * workspace.minutes, CATEGORIES[name].concurrent
    shown = begin
    with _cases(name, workspace) as case, ThreadPoolExecutor(concurrent) as pool:
        for case_number, outcome in _outcomes(case, pool, concurrent, number, end):
            cases += 1
            counts.update(outcome.counts)
            for failure in outcome.failures:
                failures.append(f"{name}:{case_number}: {failure}")
                print(f"failed: --seed={workspace.seed} --case={failures[-1]}", flush=True)
            if (now := time.monotonic()) > shown + _PROGRESS:
                left = max(0, round((end - now) / 60))
                print(f"{name}: {json.dumps(counts)}; {left} minutes left", flush=True)
                shown = now
    seconds = time.monotonic() - begin
    found = {"cases": cases, "seconds": round(seconds), **counts}
    print(f"{name}: {json.dumps(found)}; failures: {len(failures)}", flush=True)
    return {**found, "failures": failures}


def _outcomes(
    case: Case, pool: ThreadPoolExecutor, concurrent: int, only: int | None, end: float
) -> Iterator[tuple[int, Outcome]]:
    """Yields numbers and outcomes of cases until `end`, at least `concurrent`; or of `only`."""
    if only is not None:
        yield only, _outcome(case, only)
        return
    numbers = itertools.count()
    first = itertools.islice(numbers, concurrent)
    running = {pool.submit(_outcome, case, number): number for number in first}
    while running:
        done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()
            if time.monotonic() < end:
                number = next(numbers)
                running[pool.submit(_outcome, case, number)] = number


def _outcome(case: Case, number: int) -> Outcome:
    """The outcome of a case; an exception, such as that of a timeout, is a failure."""
    try:
        return case(number)
    except Exception as error:
        traceback.print_exc()
        return Outcome({}, (f"{type(error).__name__}: {str(error)[:300]}",))


@contextlib.contextmanager
def _cases(name: str, workspace: Workspace) -> Iterator[Case]:
    made = importlib.import_module(f"{__package__}.{name}").make(workspace)
    serves = isinstance(made, contextlib.AbstractContextManager)
    with made if serves else contextlib.nullcontext(made) as case:
        yield case


def _about(args: argparse.Namespace) -> dict[str, Any]:
    """Date, settings and versions of a run."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "minutes": args.minutes,
        "seed": args.seed,
        "machine": place(),
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
    }
