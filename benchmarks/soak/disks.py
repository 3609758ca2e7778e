"""Output folders that fail: full disks, missing or unreadable folders, two writers at once.

A command that has no space, or loses its output folder, reports this in one line and ends with the
status of bad input. When there is space again, the same command ends like an undisturbed one.
"""

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.soak import small_inputs, steps, trees
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from benchmarks.soak.steps import STEPS, TIMEOUT, References, last_line
from tests import commands

CATEGORY = "disks"
_PAGE = 4096  # bytes; files take whole pages
_AMPLE = 1 << 28  # bytes
_FULL = "no space left on the device"
_NOBODY = "65534"
_EXPECTED_OF_TWO = ("another process is writing there", "is there already")


class _Attempt:
    """One step with an output folder of its own; its methods return what went wrong."""

    def __init__(self, name: str, references: References, folder: Path, rng: random.Random):
        self.name, self.folder, self.rng = name, folder, rng
        self.reference = references[name]
        self.arguments = STEPS[name].begin(references.inputs, folder)

    def _run(self, *prefix: str) -> subprocess.CompletedProcess[str]:
        return commands.Running(*prefix, *self.arguments).wait(TIMEOUT)

    def _complaints(self, done: subprocess.CompletedProcess[str]) -> list[str]:
        """Faults in how the command refused, which it had to do."""
        found = steps.complaint(self.name, done)
        return [found] if found else []

    def _finish(self) -> list[str]:
        return steps.finish(self.name, self.arguments, self.folder, self.reference)

    def _started(self) -> commands.Running:
        """The command after a random part of its time, or at its end."""
        process = commands.Running(*self.arguments)
        end = time.perf_counter() + self.rng.uniform(0, self.reference.seconds)
        while process.poll() is None and time.perf_counter() < end:
            time.sleep(0.002)
        return process

    def full_disk(self) -> list[str]:
        """The disk has less space than the output takes; then it has enough."""
        need = self.reference.bytes + _PAGE * (len(self.reference.contents) + 8)
        with _disk(self.folder, max(_PAGE, int(need * self.rng.random()))):
            done = self._run()
            failures = self._complaints(done) if done.returncode else []
            if done.returncode and _FULL not in done.stderr:
                failures.append(f"{self.name}: another message: {last_line(done.stderr)}")
            partial = trees.partially_written(self.folder, self.reference.contents)
            if partial:
                failures.append(f"{self.name}: {partial} is partially written on a full disk")
            subprocess.run(["mount", "-o", f"remount,size={_AMPLE}", self.folder], check=True)
            return failures + self._finish()

    def lost_disk(self) -> list[str]:
        """The disk goes away while the command runs; its mount point stays."""
        with _disk(self.folder, _AMPLE):
            process = self._started()
            subprocess.run(["umount", "--lazy", self.folder], check=True)
            done = process.wait(TIMEOUT)
        # It may have ended before, or need nothing of what it has written.
        return self._complaints(done) if done.returncode else []

    def lost_folder(self) -> list[str]:
        """The folder is removed while the command runs."""
        process = self._started()
        shutil.rmtree(self.folder, ignore_errors=True)
        done = process.wait(TIMEOUT)
        return self._complaints(done) if done.returncode else []

    def file_in_place(self) -> list[str]:
        """A file has the name of the output folder."""
        self.folder.rmdir()
        self.folder.write_text("mine")
        failures = self._complaints(self._run())
        if self.folder.read_text() != "mine":
            failures.append(f"{self.name}: overwrote a file")
        return failures

    def read_only(self) -> list[str]:
        """The disk is read-only."""
        with _disk(self.folder, _AMPLE):
            subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)
            return self._complaints(self._run())

    def unreadable(self) -> list[str]:
        """The user may not write to the folder."""
        self.folder.chmod(0o500)
        return self._complaints(self._run("benchmarks.soak.as_user", _NOBODY))

    def twice(self) -> list[str]:
        """Two processes run the same command at the same time."""
        processes = (self._started(), commands.Running(*self.arguments))
        both = [process.wait(TIMEOUT) for process in processes]
        failed = [done for done in both if done.returncode]
        failures = [text for done in failed for text in self._complaints(done)]
        failures += [
            f"{self.name}: {last_line(done.stderr)}"
            for done in failed
            if not any(text in done.stderr for text in _EXPECTED_OF_TWO)
        ]
        if len(failed) == 2:
            failures.append(f"{self.name}: both processes failed")
        return failures + self._finish()


@contextlib.contextmanager
def _disk(folder: Path, size: int) -> Iterator[None]:
    """Mounts a small disk in memory at a folder."""
    options = f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "soak", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False, stderr=subprocess.DEVNULL)


def _kinds() -> Mapping[str, Callable[[_Attempt], list[str]]]:
    """The faults that this user may cause: only root may mount disks and change the user."""
    found = {
        "lost folder": _Attempt.lost_folder,
        "file in place": _Attempt.file_in_place,
        "twice": _Attempt.twice,
    }
    if os.geteuid() == 0:
        found |= {
            "full disk": _Attempt.full_disk,
            "lost disk": _Attempt.lost_disk,
            "read-only disk": _Attempt.read_only,
        }
        if all(folder.stat().st_mode & 0o001 for folder in Path(os.__file__).parents):
            found["unreadable"] = _Attempt.unreadable  # others can read this Python
    return found


def make(workspace: Workspace) -> Case:
    """Returns the cases."""
    folder = workspace.folder / CATEGORY
    shutil.rmtree(folder, ignore_errors=True)
    references = References(small_inputs.make(workspace.folder), folder / "reference")
    kinds = list(_kinds().items())

    def case(number: int) -> Outcome:
        rng = workspace.rng(CATEGORY, number)
        kind, run = kinds[number % len(kinds)]
        name = steps.choose(rng, prepared=False)
        output = folder / str(number) / "out"
        failures = run(_Attempt(name, references, output, rng))
        if not failures:
            shutil.rmtree(output.parent)
        return Outcome({"tries": 1, kind: 1}, tuple(f"{kind}: {failure}" for failure in failures))

    return case
