r"""Fine-tunes with us and with Hugging Face transformers: the same weights, settings and seeds.

  python -m benchmarks.scores --peer_python=.venv-peers/bin/python --model=MODEL --data=DATA \
      --runs=mrpc:glue/MRPC:6,rte:glue/RTE:6,cola:glue/CoLA:3,stsb:glue/STS-B:3 --work=/tmp/scores
  python -m benchmarks.scores ... --peer_precision=bfloat16 \
      --runs=sst2:glue/SST-2:3,squad1:squad:1:2
  python -m benchmarks.scores ... --runs=pos:ud_ewt:1,choice:multichoice:1

Results found in --work are taken as they are, so that a long comparison can be stopped and gone on
with. Scores go to benchmarks/scores.json: the best dev score of each run, their mean, and the
precisions that the peer trained in.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags

_PEER_PYTHON = flags.DEFINE_string("peer_python", None, "Python with the peer.", required=True)
_MODEL = flags.DEFINE_string("model", None, "Hugging Face folder to start from.", required=True)
_DATA = flags.DEFINE_string("data", None, "Folder of the data folders.", required=True)
_RUNS = flags.DEFINE_list("runs", None, "TASK:FOLDER:SEEDS[:EPOCHS] each.", required=True)
_PRECISION = flags.DEFINE_enum(
    "peer_precision", "float32", ["float32", "bfloat16"], "The peer's; ours is --precision=auto."
)
_WORK = flags.DEFINE_string("work", None, "Folder for what the runs write.", required=True)

_RESULTS = Path("benchmarks/scores.json")
_PEER = "benchmarks/peers/hugging_face_finetune.py"
# The main metric of each task, by our name and the peer's.
_METRICS = {
    "cola": ("matthews", "matthews"),
    "stsb": ("pearson", "pearson"),
    "squad1": ("f1", "f1"),
}
_CHOICE: dict[str, Any] = {"batch": 16, "rate": "2e-5"}
_USUAL: dict[str, Any] = {"batch": 32, "rate": "5e-5"}


class Comparison(NamedTuple):
    """A task, its data, and how often to train it."""

    task: str
    data: Path
    seeds: int
    epochs: float


def _parse(entry: str) -> Comparison:
    task, folder, seeds, *epochs = entry.split(":")
    return Comparison(
        task, Path(_DATA.value, folder), int(seeds), float(epochs[0] if epochs else 3)
    )


def _ours(comparison: Comparison, work: Path) -> list[float]:
    output = work / "ours" / comparison.task
    settings = _CHOICE if comparison.task == "choice" else _USUAL
    if comparison.task == "choice":
        files = [f"--{split}={comparison.data}/arc_easy_{split}.csv" for split in ("train", "dev")]
    else:
        files = [f"--data={comparison.data}"]
    if not (output / "report.json").exists():
        subprocess.run(
            [
                *(sys.executable, "-m", "bert_tf", "finetune"),
                f"--task={comparison.task}",
                *files,
                f"--init={_MODEL.value}",
                f"--output={output}",
                f"--cache={work}/cache",
                f"--seeds={','.join(str(1 + seed) for seed in range(comparison.seeds))}",
                f"--epochs={comparison.epochs}",
                f"--batch_size={settings['batch']}",
                f"--learning_rate={settings['rate']}",
            ],
            check=True,
        )
    report = json.loads((output / "report.json").read_text())
    name = _METRICS.get(comparison.task, ("accuracy",))[0]
    by_seed = report["metrics"]["by_seed"]
    return [by_seed[str(1 + seed)][name] for seed in range(comparison.seeds)]


def _peers(comparison: Comparison, work: Path) -> tuple[list[float], list[str]]:
    """Scores of the seeds, and the precisions that they were trained in."""
    scores, precisions = [], set()
    settings = _CHOICE if comparison.task == "choice" else _USUAL
    for seed in range(1, comparison.seeds + 1):
        output = work / "peer" / f"{comparison.task}-{seed}.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        if not output.exists():
            subprocess.run(
                [
                    *(_PEER_PYTHON.value, _PEER, "--task", comparison.task),
                    *("--data", str(comparison.data), "--model", _MODEL.value),
                    *("--seed", str(seed), "--epochs", f"{comparison.epochs:g}"),
                    *("--batch", str(settings["batch"]), "--lr", settings["rate"]),
                    *("--pad", "longest", "--precision", _PRECISION.value),
                    *("--out", str(output)),
                ],
                check=True,
            )
        result = json.loads(output.read_text())
        name = _METRICS.get(comparison.task, ("", "accuracy"))[1]
        scores.append(max(epoch[name] for epoch in result["epochs"]))
        precisions.add(result["settings"]["precision"])
    return scores, sorted(precisions)


def main(_: list[str]) -> None:
    """Makes the comparisons asked for and merges them into the file."""
    results: dict[str, Any] = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    for comparison in map(_parse, _RUNS.value):
        ours = _ours(comparison, Path(_WORK.value))
        peer, precisions = _peers(comparison, Path(_WORK.value))
        results[comparison.task] = {
            "metric": _METRICS.get(comparison.task, ("accuracy",))[0],
            "epochs": comparison.epochs,
            "ours": ours,
            "peer": peer,
            "peer_precision": precisions,
            "ours_mean": statistics.fmean(ours),
            "peer_mean": statistics.fmean(peer),
        }
        _RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for task, row in results.items():
        print(
            f"{task:8} {row['metric']:10} ours {row['ours_mean']:.4f} peer {row['peer_mean']:.4f}"
        )


if __name__ == "__main__":
    app.run(main)
