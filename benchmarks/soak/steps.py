"""The commands that are killed or run out of space, with small inputs, and their outputs."""

import dataclasses
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.soak import small_inputs, trees
from benchmarks.soak.outcomes import Outcome, Workspace
from benchmarks.soak.small_inputs import SmallInputs
from tests import commands

TIMEOUT = 600.0  # seconds of a command of debug size on a slow machine
Arguments = Callable[[SmallInputs, str], list[str]]


@dataclasses.dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
      arguments: returns its command line for inputs and an output folder.
      weight: relative frequency among the steps.
      refuses: whether a second run reports that its output exists.
      numbered: whether a second run writes another version next to the first.
      continues: whether it goes on with other work after an error.
    """

    arguments: Arguments
    weight: int = 1
    refuses: bool = False
    numbered: bool = False
    continues: bool = False

    def begin(self, inputs: SmallInputs, folder: Path) -> list[str]:
        """Creates the output folder and returns the command line."""
        folder.mkdir(parents=True)
        return self.arguments(inputs, str(folder))


def _vocabulary(kind: str) -> Arguments:
    return lambda inputs, output: [
        "learn-vocabulary", f"--corpus={inputs.corpus}", f"--output={output}/vocabulary",
        f"--kind={kind}", "--vocab_size=300",
    ]  # fmt: skip


def _examples(workers: int) -> Arguments:
    return lambda inputs, output: [
        "write-examples", f"--corpus={inputs.corpus}", f"--vocab={inputs.vocab}",
        f"--output={output}/examples", "--max_seq_length=32", "--max_predictions_per_seq=5",
        "--dupe_factor=2", "--held_out_fraction=0.1", f"--workers={workers}",
    ]  # fmt: skip


def _pretraining(*more: str) -> Arguments:
    return lambda inputs, output: [
        "pretrain", f"--tfrecords={inputs.examples}", f"--output={output}/run", "--steps=12",
        f"--model={inputs.config}", "--batch_size=8", "--warmup_steps=2", "--save_every=3",
        "--log_every=3", "--evaluate_every=6", "--precision=float32", *more,
    ]  # fmt: skip


def _finetuning(inputs: SmallInputs, output: str) -> list[str]:
    return [
        "finetune", "--task=mood=classification", f"--data={inputs.texts}", f"--init={inputs.init}",
        f"--output={output}/run", f"--cache={output}/cache", "--epochs=1.5", "--batch_size=8",
        "--max_seq_length=32", "--learning_rate=2e-3", "--seeds=1,2", "--evaluations=2",
        "--precision=float32",
    ]  # fmt: skip


def _conversion(form: str) -> Arguments:
    return lambda inputs, output: [
        "convert", f"--input={inputs.models['pretrained']}", f"--output={output}/model",
        f"--format={form}",
    ]  # fmt: skip


def _export(inputs: SmallInputs, output: str) -> list[str]:
    tasks = f"mood={inputs.models['mood']} pretrained={inputs.models['pretrained']}"
    return ["export", f"--tasks={tasks}", f"--output={output}/bert"]


def _hub(inputs: SmallInputs, output: str) -> list[str]:
    return ["export-hub", f"--model={inputs.models['pretrained']}", f"--output={output}/hub"]


def _experiments(inputs: SmallInputs, output: str) -> list[str]:
    return [
        "experiments", f"--corpus={inputs.corpus}", f"--output={output}/experiments",
        f"--tasks=mood:classification={inputs.texts}", "--budget=trial",
    ]  # fmt: skip


def _vectors(inputs: SmallInputs, output: str) -> list[str]:
    return [
        "embed", f"--model={inputs.models['pretrained']}", f"--input={inputs.texts}/train.tsv",
        f"--output={output}/vectors.npy",
    ]  # fmt: skip


# Experiments and those that write SavedModels take the longest by far.
STEPS = {
    "vocabulary": Step(_vocabulary("wordpiece"), weight=3),
    "vocabulary of bytes": Step(_vocabulary("byte_bpe"), weight=3),
    "examples": Step(_examples(1), weight=3),
    "examples, 2 workers": Step(_examples(2), weight=3),
    "pre-training": Step(_pretraining("--no_saved_model"), weight=3),
    "pre-training and its SavedModel": Step(_pretraining()),
    "fine-tuning": Step(_finetuning, weight=6),
    "conversion to ours": Step(_conversion("bert_tf"), weight=2, refuses=True),
    "conversion to tf1": Step(_conversion("tf1"), weight=2, refuses=True),
    "conversion to huggingface": Step(_conversion("huggingface"), weight=2, refuses=True),
    "export": Step(_export, numbered=True),
    "hub export": Step(_hub, refuses=True),
    "vectors": Step(_vectors, weight=3),
    "experiments": Step(_experiments, continues=True),
}


@dataclasses.dataclass(frozen=True)
class Reference:
    """A run that was never interrupted.

    Attributes:
      contents: digests of the files of its output.
      bytes: total size of these files.
      seconds: time that the run took.
      changes: number of changes of names and sizes that were seen in its output folder.
    """

    contents: dict[str, str]
    bytes: int
    seconds: float
    changes: int


class Steps:
    """Makes attempts at random steps, and reference runs when first needed.

    Args:
      workspace: the workspace.
      category: name of the folder of all outputs.
    """

    def __init__(self, workspace: Workspace, category: str):
        self.inputs = small_inputs.make(workspace.folder)
        self._folder = workspace.folder / category
        shutil.rmtree(self._folder, ignore_errors=True)
        self._references: dict[str, Reference] = {}
        self._locks = {name: threading.Lock() for name in STEPS}

    def attempt(self, rng: random.Random, number: int, continuing: bool = True) -> "Attempt":
        """A random step; without `continuing`, one that ends at its first error."""
        steps = {name: step for name, step in STEPS.items() if continuing or not step.continues}
        (name,) = rng.choices(list(steps), [step.weight for step in steps.values()])
        return Attempt(name, self.inputs, self._folder / str(number) / "out", self.reference(name))

    def reference(self, name: str) -> Reference:
        """The uninterrupted run of a step."""
        with self._locks[name]:
            if name not in self._references:
                self._references[name] = self._run(name)
            return self._references[name]

    def _run(self, name: str) -> Reference:
        folder = self._folder / name.replace(" ", "-")
        arguments = STEPS[name].begin(self.inputs, folder)
        begin = time.perf_counter()
        process = commands.Running(*arguments)
        changes, last = 0, state(folder)

        def watch() -> bool:
            nonlocal changes, last
            now = state(folder)
            changes, last = changes + (now != last), now
            return False

        process.kill_when(watch)
        done = process.wait()
        if done.returncode:
            raise RuntimeError(f"{name} failed without a fault:\n{done.stderr[-2000:]}")
        seconds = time.perf_counter() - begin
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return Reference(trees.contents(folder), size, seconds, changes)


class Attempt:
    """One step with an output folder of its own."""

    def __init__(self, name: str, inputs: SmallInputs, folder: Path, reference: Reference):
        self.name, self.folder, self.reference = name, folder, reference
        self.arguments = STEPS[name].begin(inputs, folder)

    def start(self) -> commands.Running:
        """Starts the command."""
        return commands.Running(*self.arguments)

    def run(self) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end."""
        return self.start().wait(TIMEOUT)

    def finish(self) -> list[str]:
        """Runs the command to its end after an interruption; returns what is wrong."""
        done, step = self.run(), STEPS[self.name]
        exists = step.refuses and done.returncode == 2 and "exists already" in done.stderr
        if done.returncode and not exists:
            return [f"{self.name}: ended with {done.returncode}: {last_line(done.stderr)}"]
        found = trees.contents(self.folder)
        if step.numbered:
            found = _first_version(found)
        difference = trees.difference(found, self.reference.contents)
        return [f"{self.name}: {difference}"] if difference else []

    def complaints(self, done: subprocess.CompletedProcess[str]) -> list[str]:
        """What is wrong with how a command refused: it must print one line and end with 2."""
        last = last_line(done.stderr)
        if "Traceback" in done.stderr:
            return [f"{self.name}: a traceback: {last}"]
        if done.returncode != 2 or not last.startswith("error: "):
            return [f"{self.name}: ended with {done.returncode}: {last}"]
        return []

    def partial_files(self, fault: str) -> list[str]:
        """A line if a partially written file has its final name after a fault."""
        path = trees.partially_written(self.folder, self.reference.contents)
        return [f"{self.name}: {path} is partially written after {fault}"] if path else []

    def outcome(self, counts: dict[str, int], failures: list[str]) -> Outcome:
        """The outcome; removes the output if nothing failed."""
        if not failures:
            shutil.rmtree(self.folder.parent)
        return Outcome(counts, tuple(failures))


def state(folder: Path) -> list[tuple[str, int]]:
    """Paths and sizes of all files below a folder, which may be changing."""
    found = []
    for at, _, names in os.walk(folder):
        for name in names:
            path = f"{at}/{name}"
            try:
                found.append((path, os.stat(path).st_size))
            except FileNotFoundError:
                continue
    return sorted(found)


def _first_version(found: dict[str, str]) -> dict[str, str]:
    """The contents of a folder of versions without versions that equal the first one."""
    versions: dict[str, dict[str, str]] = {}
    for path, digest in found.items():
        folder, version, rest = path.split("/", 2)
        versions.setdefault(f"{folder}/{version}", {})[rest] = digest
    first = min(versions, default="")
    return {
        f"{version}/{rest}": digest
        for version, files in versions.items()
        if version == first or files != versions[first]
        for rest, digest in files.items()
    }


def last_line(text: str) -> str:
    """The last line of the output of a command."""
    return (text.strip().splitlines() or ["(nothing)"])[-1][:300]
