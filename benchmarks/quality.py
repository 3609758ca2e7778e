r"""Seconds of training to a quality, on the same examples: ours, Hugging Face's BERT, KerasHub's.

  python -m benchmarks.quality --tfrecords=tfrecords/pretraining --work=/tmp/quality \
      --peer_python=.venv-peers/bin/python [--minutes=4,12]

All train BERT-Tiny on the examples of the built-in run, in the same order, and are scored on the
same held-out documents. Peers run with our recipe as far as their libraries support it, with the
softmax at the masked positions alone, in the precision in which they are faster; and with their own
defaults. Compiling and scoring do not count. The first number of --minutes is for ours, the second
for the peers. Results go to benchmarks/quality.json.
"""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks.peers.learning import BATCH
from benchmarks.processes import computed, json_of
from pipelines.pretraining import example_reader

_TFRECORDS = flags.DEFINE_string("tfrecords", None, "Examples of the built-in run.", required=True)
_WORK = flags.DEFINE_string("work", None, "Folder for what the runs write.", required=True)
_PEER_PYTHON = flags.DEFINE_string("peer_python", None, "Python with the peers.", required=True)
_MINUTES = flags.DEFINE_list(
    "minutes", ["4", "12"], "Minutes of our training, and maximum of the peers'."
)
_GOALS = flags.DEFINE_list("goals", ["0.25", "0.3"], "Accuracies of masked tokens to reach.")

_RESULTS = Path("benchmarks/quality.json")
_PEERS = Path("benchmarks/peers")
_BATCH = 512
_SEQUENCES = 400 * _BATCH  # to train on
_SEED = 1
_SHORT = "--minutes=0.25"  # of a run that only tells how fast a precision is


def _examples(path: Path) -> None:
    """Writes the examples for the peers."""
    files = example_reader.open_examples(_TFRECORDS.value)
    held_out = example_reader.open_examples(_TFRECORDS.value, held_out=True)
    training = example_reader.training_batches(files, _BATCH, _SEED).take(_SEQUENCES // _BATCH)
    arrays = {}
    for part, batches in (
        ("train", training),
        ("held_out", example_reader.evaluation_batches(held_out, _BATCH)),
    ):
        each = list(batches.as_numpy_iterator())
        for name in each[0]:
            arrays[f"{part}/{name}"] = np.concatenate([batch[name] for batch in each])
    np.savez(path, allow_pickle=False, **arrays)


def _ours(work: Path) -> dict[str, Any]:
    """Our run, and the seconds that it took to each goal."""
    folder = work / "ours"
    if not (folder / "report.json").exists():
        command = [
            *(sys.executable, "-m", "bert_tf", "pretrain", "--flagfile=recipes/builtin.flags"),
            *(f"--tfrecords={_TFRECORDS.value}", f"--output={folder}", f"--seed={_SEED}"),
            *(f"--minutes={_MINUTES.value[0]}", "--evaluate_every=100", "--nosaved_model"),
        ]
        subprocess.run(command, check=True)
    report = json.loads((folder / "report.json").read_text())
    points = [json.loads(line) for line in (folder / "history.jsonl").open()]
    lines = (folder / "milestones.jsonl").read_text().split("\n")
    scored = [line for line in map(json.loads, filter(None, lines)) if "held_out" in line]
    # Compilation, before the second point, does not count.
    seconds = itertools.accumulate(
        (point["step"] - last["step"]) * BATCH / point["sequences_per_second"]
        for last, point in itertools.pairwise(points[1:])
    )
    at = dict(zip((point["step"] for point in points[2:]), seconds, strict=True))
    curve = [(at[s["step"]], s["held_out"]["masked_lm_accuracy"]) for s in scored]
    reached = {
        goal: next((round(second, 1) for second, found in curve if found >= float(goal)), None)
        for goal in _GOALS.value
    }
    return {
        "peer": "ours",
        "recipe": "ours",
        "precision": report["precision"],
        "steps": report["steps"],
        "reached": {goal: seconds for goal, seconds in reached.items() if seconds is not None},
        "curve": [[round(second, 1), round(found, 4)] for second, found in curve],
    }


def main(_: list[str]) -> None:
    """Runs ours and the peers, and writes the results."""
    work = Path(_WORK.value)
    work.mkdir(parents=True, exist_ok=True)
    examples = work / "examples.npz"
    if not examples.exists():
        _examples(examples)
    rows = [_ours(work)]
    for recipe in ("ours", "defaults"):
        for script in ("keras_hub_pretraining.py", "hugging_face_pretraining.py"):
            limits = (f"--goals={','.join(_GOALS.value)}", f"--seed={_SEED}")
            given = (f"--examples={examples}", f"--recipe={recipe}", *limits)
            command = [_PEER_PYTHON.value, str(_PEERS / script), *given]
            if recipe == "ours":
                precisions = computed([("float32",), ("bfloat16",)])
                tried = [(*command, f"--precision={p}", _SHORT) for (p,) in precisions]
                fastest = max(map(json_of, map(list, tried)), key=lambda row: row["steps"])
                command.append(f"--precision={fastest['precision']}")
            rows.append(json_of([*command, f"--minutes={_MINUTES.value[1]}"]))
            _RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(row["peer"], row["recipe"], row["precision"], row["reached"], row["curve"][-1])


if __name__ == "__main__":
    app.run(main)
