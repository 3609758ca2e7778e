"""The commands that are killed, or have no room, with small inputs; and what they leave."""

import dataclasses
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.soak import trees
from benchmarks.soak.small import Small
from tests import commands
from tests.bert_tf.experiments import small_plan

RUNNING = 600.0  # seconds that a command of debug size may take, however slow the machine
Words = Callable[[Small, str], list[str]]


@dataclasses.dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
      words: it and its flags, of the inputs and the output.
      weight: how often it is tried, beside the others.
      refuses: whether it says so, when it is run once more, that its output is there.
      numbered: whether it then writes another version beside the one that is there.
      prepare: puts into the output what a command goes on from, of the inputs; None: nothing.
    """

    words: Words
    weight: int = 1
    refuses: bool = False
    numbered: bool = False
    prepare: Callable[[Small, Path], object] | None = None

    def begin(self, small: Small, folder: Path) -> list[str]:
        """Makes the folder of the output; returns the command."""
        folder.mkdir(parents=True)
        if self.prepare:
            self.prepare(small, folder)
        return self.words(small, str(folder))


def _vocabulary(kind: str) -> Words:
    return lambda small, output: [
        "learn-vocabulary", f"--input={small.corpus}", f"--output={output}/vocabulary",
        f"--kind={kind}", "--vocab_size=300",
    ]  # fmt: skip


def _examples(workers: int) -> Words:
    return lambda small, output: [
        "write-examples", f"--input={small.corpus}", f"--vocab={small.vocab}",
        f"--output={output}/examples", "--max_seq_length=32", "--max_predictions_per_seq=5",
        "--dupe_factor=2", "--held_out_fraction=0.1", f"--workers={workers}",
    ]  # fmt: skip


def _pretraining(*more: str) -> Words:
    return lambda small, output: [
        "pretrain", f"--tfrecords={small.examples}", f"--output={output}/run", "--steps=12",
        f"--model={small.config}", "--batch_size=8", "--warmup_steps=2", "--save_every=3",
        "--log_every=3", "--evaluate_every=6", "--precision=float32", "--no_tensorboard", *more,
    ]  # fmt: skip


def _finetuning(small: Small, output: str) -> list[str]:
    return [
        "finetune", "--task=mood=classification", f"--data={small.texts}", f"--init={small.init}",
        f"--output={output}/run", f"--cache={output}/cache", "--epochs=1.5", "--batch_size=8",
        "--max_length=32", "--learning_rate=2e-3", "--seeds=1,2", "--evaluations=2",
        "--precision=float32", "--no_tensorboard",
    ]  # fmt: skip


def _conversion(form: str) -> Words:
    return lambda small, output: [
        "convert", f"--input={small.model('pretrained')}", f"--output={output}/model",
        f"--format={form}",
    ]  # fmt: skip


def _export(small: Small, output: str) -> list[str]:
    tasks = f"mood={small.model('mood')} pretrained={small.model('pretrained')}"
    return ["export", f"--tasks={tasks}", f"--output={output}/bert"]


def _hub(small: Small, output: str) -> list[str]:
    return ["export-hub", f"--model={small.model('pretrained')}", f"--output={output}/hub"]


def _experiments(small: Small, output: str) -> list[str]:
    return [
        "experiments", f"--corpus={small.corpus}", f"--output={output}/experiments",
        "--only=curves", f"--budget={small_plan.BUDGET}",
        f"--vocab_size={small_plan.VOCABULARY}", "--processes=1",
    ]  # fmt: skip


def _vectors(small: Small, output: str) -> list[str]:
    return [
        "embed", f"--model={small.model('pretrained')}", f"--input={small.texts}/train.tsv",
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
    # They begin with a plan, which is made of the speed of the machine: this one is fixed.
    "experiments": Step(
        _experiments,
        prepare=lambda small, folder: shutil.copytree(small.experiments, folder / "experiments"),
    ),
}


def drawn(rng: random.Random, prepared: bool = True) -> str:
    """The name of a step.

    Args:
      rng: draws it.
      prepared: whether it may be one whose output is not empty at first.
    """
    steps = {name: step for name, step in STEPS.items() if prepared or not step.prepare}
    (name,) = rng.choices(list(steps), [step.weight for step in steps.values()])
    return name


@dataclasses.dataclass(frozen=True)
class Whole:
    """A run that was never stopped.

    Attributes:
      contents: of its folder.
      bytes: in it.
      seconds: that it took.
      changes: of names and sizes in its folder, as far as they were seen.
    """

    contents: dict[str, str]
    bytes: int
    seconds: float
    changes: int


class Runs:
    """Runs of the steps that were never stopped, each made when it is first asked for.

    Args:
      small: the inputs.
      folder: for their outputs.
    """

    def __init__(self, small: Small, folder: Path):
        self.small, self._folder = small, folder
        self._found: dict[str, Whole] = {}
        self._locks = {name: threading.Lock() for name in STEPS}

    def __getitem__(self, name: str) -> Whole:
        with self._locks[name]:
            if name not in self._found:
                self._found[name] = self._run(name)
            return self._found[name]

    def _run(self, name: str) -> Whole:
        folder = self._folder / name.replace(" ", "-")
        words = STEPS[name].begin(self.small, folder)
        begin = time.perf_counter()
        process = commands.Running(*words)
        changes, last = 0, state(folder)

        def look() -> bool:
            nonlocal changes, last
            now = state(folder)
            changes, last = changes + (now != last), now
            return False

        process.kill_when(look)
        done = process.wait()
        if done.returncode:
            raise RuntimeError(f"{name} failed, never stopped:\n{done.stderr[-2000:]}")
        seconds = time.perf_counter() - begin
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return Whole(trees.contents(folder), size, seconds, changes)


def state(folder: Path) -> list[tuple[str, int]]:
    """Names and sizes of all files below a folder, at this moment or nearly."""
    found = []
    for at, _, names in os.walk(folder):
        for name in names:
            path = f"{at}/{name}"
            try:
                found.append((path, os.stat(path).st_size))
            except FileNotFoundError:
                continue
    return sorted(found)


def finish(name: str, words: list[str], folder: Path, whole: Whole) -> list[str]:
    """Runs a command to its end, after whatever came before; says what is not as it should be.

    Args:
      name: of the step.
      words: the command.
      folder: of its output.
      whole: what a run leaves that was never stopped.
    """
    step = STEPS[name]
    done = commands.Running(*words).wait(RUNNING)
    there = step.refuses and done.returncode == 2 and "is there already" in done.stderr
    if done.returncode and not there:
        return [f"{name}: ended with {done.returncode}: {last_line(done.stderr)}"]
    found = trees.contents(folder)
    if step.numbered:
        found = _first_version(found)
    other = trees.difference(found, whole.contents)
    return [f"{name}: {other}"] if other else []


def _first_version(found: dict[str, str]) -> dict[str, str]:
    """The contents of a folder of versions without those that equal the first one."""
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
    """The last line of what a command said."""
    return (text.strip().splitlines() or ["(nothing)"])[-1][:300]


def complaint(name: str, done: subprocess.CompletedProcess[str]) -> str | None:
    """What is wrong with how a command refused; None if it was one line and the status of it."""
    if "Traceback" in done.stderr:
        return f"{name}: a traceback: {last_line(done.stderr)}"
    if done.returncode != 2 or not last_line(done.stderr).startswith("error: "):
        return f"{name}: ended with {done.returncode}: {last_line(done.stderr)}"
    return None
