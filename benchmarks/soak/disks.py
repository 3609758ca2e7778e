"""Output folders that fail: full disks, missing or unreadable folders, two writers at once.

A command that has no space, or loses its output folder, reports this in one line and ends with the
status of bad input. When there is space again, the same command ends like an undisturbed one.
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.soak.outcomes import Case, Outcome, Workspace
from benchmarks.soak.steps import TIMEOUT, Attempt, Steps, last_line
from tests import commands

CATEGORY = "disks"
_PAGE = 4096  # bytes; files take whole pages
_AMPLE = 1 << 28  # bytes
_FULL = "no space left on the device"
_AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_EXPECTED_OF_TWO = ("another process is writing there", "exists already")
Fault = Callable[[Attempt, random.Random], list[str]]  # returns what is wrong with its result


def _full_disk(attempt: Attempt, rng: random.Random) -> list[str]:
    """The disk has less space than the output takes; then it has enough."""
    need = attempt.reference.bytes + _PAGE * (len(attempt.reference.contents) + 8)
    with _disk(attempt.folder, max(_PAGE, int(need * rng.random()))):
        done = attempt.run()
        failures = attempt.complaints(done) if done.returncode else []
        if done.returncode and _FULL not in done.stderr:
            failures.append(f"{attempt.name}: another message: {last_line(done.stderr)}")
        failures += attempt.partial_files("a full disk")
        subprocess.run(["mount", "-o", f"remount,size={_AMPLE}", attempt.folder], check=True)
        return failures + attempt.finish()


def _lost_disk(attempt: Attempt, rng: random.Random) -> list[str]:
    """The disk goes away while the command runs; its mount point stays."""
    with _disk(attempt.folder, _AMPLE):
        process = _started(attempt, rng)
        subprocess.run(["umount", "--lazy", attempt.folder], check=True)
        done = process.wait(TIMEOUT)
    # It may have ended before, or need nothing of what it has written.
    return attempt.complaints(done) if done.returncode else []


def _lost_folder(attempt: Attempt, rng: random.Random) -> list[str]:
    """The folder is removed while the command runs."""
    process = _started(attempt, rng)
    shutil.rmtree(attempt.folder, ignore_errors=True)
    done = process.wait(TIMEOUT)
    return attempt.complaints(done) if done.returncode else []


def _file_in_place(attempt: Attempt, _: random.Random) -> list[str]:
    """A file has the name of the output folder."""
    attempt.folder.rmdir()
    attempt.folder.write_text("mine")
    failures = attempt.complaints(attempt.run())
    if attempt.folder.read_text() != "mine":
        failures.append(f"{attempt.name}: overwrote a file")
    return failures


def _read_only(attempt: Attempt, _: random.Random) -> list[str]:
    """The disk is read-only."""
    with _disk(attempt.folder, _AMPLE):
        subprocess.run(["mount", "-o", "remount,ro", attempt.folder], check=True)
        return attempt.complaints(attempt.run())


def _unreadable(attempt: Attempt, _: random.Random) -> list[str]:
    """The user may not write to the folder."""
    attempt.folder.chmod(0o500)
    command = [*_AS_NOBODY, sys.executable, "-m", "bert_tf", *attempt.arguments]
    environment = {**os.environ, "HOME": "/nonexistent"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT, env=environment
    )
    return attempt.complaints(done)


def _twice(attempt: Attempt, rng: random.Random) -> list[str]:
    """Two processes run the same command at the same time."""
    processes = (_started(attempt, rng), attempt.start())
    both = [process.wait(TIMEOUT) for process in processes]
    failed = [done for done in both if done.returncode]
    failures = [text for done in failed for text in attempt.complaints(done)]
    failures += [
        f"{attempt.name}: {last_line(done.stderr)}"
        for done in failed
        if not any(text in done.stderr for text in _EXPECTED_OF_TWO)
    ]
    if len(failed) == 2:
        failures.append(f"{attempt.name}: both processes failed")
    return failures + attempt.finish()


def _started(attempt: Attempt, rng: random.Random) -> commands.Running:
    """The command after a random part of its time, or at its end."""
    process = attempt.start()
    end = time.perf_counter() + rng.uniform(0, attempt.reference.seconds)
    while process.poll() is None and time.perf_counter() < end:
        time.sleep(0.002)
    return process


@contextlib.contextmanager
def _disk(folder: Path, size: int) -> Iterator[None]:
    """Mounts a small disk in memory at a folder."""
    options = f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "soak", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False, stderr=subprocess.DEVNULL)


def _faults() -> Mapping[str, Fault]:
    """The faults that this user may cause: only root may mount disks and change the user."""
    found = {"lost folder": _lost_folder, "file in place": _file_in_place, "twice": _twice}
    if os.geteuid() == 0:
        found |= {"full disk": _full_disk, "lost disk": _lost_disk, "read-only disk": _read_only}
        if all(folder.stat().st_mode & 0o001 for folder in Path(os.__file__).parents):
            found["unreadable"] = _unreadable  # others can read this Python
    return found


def make(workspace: Workspace) -> Case:
    """Returns the cases."""
    available = Steps(workspace, CATEGORY)
    faults = list(_faults().items())

    def case(number: int) -> Outcome:
        rng = workspace.rng(CATEGORY, number)
        kind, fault = faults[number % len(faults)]
        attempt = available.attempt(rng, number, continuing=False)
        failures = [f"{kind}: {failure}" for failure in fault(attempt, rng)]
        return attempt.outcome({"tries": 1, kind: 1}, failures)

    return case
