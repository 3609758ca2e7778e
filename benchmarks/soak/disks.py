"""Places that fail: full disks, folders that are files, unreadable or lost, and two at once.

A command that has no room, or loses its place, says so in one line and ends with the status of bad
input. When there is room again, the same command ends as one that had it all the time.
"""

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.soak import small, trees
from benchmarks.soak.outcomes import Case, Outcome, Place
from benchmarks.soak.steps import RUNNING, STEPS, Runs, complaint, drawn, finish, last_line
from tests import commands

ROOM = "disks"
_PAGE = 4096  # bytes; a file takes whole ones
_AMPLE = 1 << 28  # bytes
_FULL = "no space left on the device"
_NOBODY = "65534"


class _Trial:
    """One step in a folder of its own.

    Args:
      name: of the step.
      runs: that were never stopped.
      folder: for its output.
      rng: decides what is left open.
    """

    def __init__(self, name: str, runs: Runs, folder: Path, rng: random.Random):
        self.name, self.folder, self.rng = name, folder, rng
        self.whole = runs[name]
        self.words = STEPS[name].begin(runs.small, folder)

    def _complaints(self, done: subprocess.CompletedProcess[str]) -> list[str]:
        """What is wrong with how the command refused."""
        found = complaint(self.name, done)
        return [found] if found else []

    def _begun(self) -> commands.Running:
        """The command, which has run for a part of its time that is drawn, or to its end."""
        process = commands.Running(*self.words)
        end = time.perf_counter() + self.rng.uniform(0, self.whole.seconds)
        while process.poll() is None and time.perf_counter() < end:
            time.sleep(0.002)
        return process

    def full_disk(self) -> list[str]:
        """There is less room than the output takes; then there is enough."""
        need = self.whole.bytes + _PAGE * (len(self.whole.contents) + 8)
        room = max(_PAGE, int(need * self.rng.random()))
        with _disk(self.folder, room):
            done = commands.Running(*self.words).wait(RUNNING)
            failures = self._complaints(done) if done.returncode else []
            if done.returncode and _FULL not in done.stderr:
                failures.append(f"{self.name}: does not tell: {last_line(done.stderr)}")
            half = trees.half_written(self.folder, self.whole.contents)
            if half:
                failures.append(f"{self.name}: half of {half} on a full disk")
            subprocess.run(["mount", "-o", f"remount,size={_AMPLE}", self.folder], check=True)
            return failures + finish(self.name, self.words, self.folder, self.whole)

    def lost_disk(self) -> list[str]:
        """The disk goes away while the command runs; the folder where it was stays."""
        with _disk(self.folder, _AMPLE):
            process = self._begun()
            subprocess.run(["umount", "--lazy", self.folder], check=True)
            done = process.wait(RUNNING)
        # It may have ended, or what it wrote later may not need the rest.
        return self._complaints(done) if done.returncode else []

    def lost_folder(self) -> list[str]:
        """The folder is removed while the command runs."""
        process = self._begun()
        shutil.rmtree(self.folder, ignore_errors=True)
        done = process.wait(RUNNING)
        return self._complaints(done) if done.returncode else []

    def file_in_place(self) -> list[str]:
        """A file stands where a folder is to be."""
        self.folder.rmdir()
        self.folder.write_text("mine")
        done = commands.Running(*self.words).wait(RUNNING)
        failures = self._complaints(done)
        if self.folder.read_text() != "mine":
            failures.append(f"{self.name}: wrote over a file")
        return failures

    def read_only(self) -> list[str]:
        """The disk can be read only."""
        with _disk(self.folder, _AMPLE):
            subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)
            return self._complaints(commands.Running(*self.words).wait(RUNNING))

    def unreadable(self) -> list[str]:
        """Somebody runs it who may not write there."""
        self.folder.chmod(0o500)
        words = ["benchmarks.soak.as_user", _NOBODY, *self.words]
        done = commands.Running(*words).wait(RUNNING)
        return self._complaints(done)

    def twice(self) -> list[str]:
        """Two processes run the same command at a time."""
        processes = (self._begun(), commands.Running(*self.words))
        both = [process.wait(RUNNING) for process in processes]
        failures = [text for done in both if done.returncode for text in self._complaints(done)]
        told = ("another process is writing there", "is there already")
        bad = [d for d in both if d.returncode and not any(text in d.stderr for text in told)]
        failures += [f"{self.name}: {last_line(done.stderr)}" for done in bad]
        if all(done.returncode for done in both):
            failures.append(f"{self.name}: neither of two ended well")
        return failures + finish(self.name, self.words, self.folder, self.whole)


@contextlib.contextmanager
def _disk(folder: Path, size: int) -> Iterator[None]:
    """A small disk in memory, at a folder."""
    options = f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "soak", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False, stderr=subprocess.DEVNULL)


_KINDS = {
    "full disk": _Trial.full_disk,
    "lost disk": _Trial.lost_disk,
    "lost folder": _Trial.lost_folder,
    "file in place": _Trial.file_in_place,
    "read-only disk": _Trial.read_only,
    "unreadable": _Trial.unreadable,
    "twice": _Trial.twice,
}
# Of root, who may mount, and be others.
_OF_ROOT = ("full disk", "lost disk", "read-only disk", "unreadable")


def _is_open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


def make(place: Place) -> Case:
    """Gives the cases; without the rights to mount, those that need none."""
    folder = place.folder / ROOM
    shutil.rmtree(folder, ignore_errors=True)
    runs = Runs(small.make(place.folder), folder / "whole")
    kinds = [kind for kind in _KINDS if os.geteuid() == 0 or kind not in _OF_ROOT]
    if not _is_open_to_all(Path(os.__file__)):  # Python itself is not there for others
        kinds = [kind for kind in kinds if kind != "unreadable"]

    def case(number: int) -> Outcome:
        rng = place.rng(ROOM, number)
        kind, name = kinds[number % len(kinds)], drawn(rng, prepared=False)
        at = folder / str(number) / "out"
        failures = _KINDS[kind](_Trial(name, runs, at, rng))
        if not failures:
            shutil.rmtree(at.parent)
        told = tuple(f"{kind}: {failure}" for failure in failures)
        return Outcome({"tries": 1, kind: 1}, told)

    return case
