r"""Fine-tunes for GLUE with ours and with Hugging Face: the same weights, settings and seeds.

  python -m benchmarks.scores --peer_python=.venv-peers/bin/python --model=MODEL --data=DATA \
      --work=/tmp/scores mrpc:glue/MRPC:6 rte:glue/RTE:6 cola:glue/CoLA:3 stsb:glue/STS-B:3
  python -m benchmarks.scores ... --peer_precision=bfloat16 sst2:glue/SST-2:3

Results in --work are not computed again, so a long comparison can be interrupted and resumed.
Scores go to benchmarks/scores.json, by model and task: the best dev score of each run, their mean,
and the precisions of the peer.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_RESULTS = Path("benchmarks/scores.json")
_PEER = "benchmarks/peers/hugging_face_finetune.py"
_METRICS = {"cola": "matthews", "stsb": "pearson"}  # others: accuracy
_BATCH, _RATE = "32", "5e-5"


class Comparison(NamedTuple):
    """A task, the folder of its data, the number of seeds, and the epochs."""

    task: str
    data: str
    seeds: int
    epochs: float = 3

    @property
    def metric(self) -> str:
        """The main metric of the task."""
        return _METRICS.get(self.task, "accuracy")


def _parse(entry: str) -> Comparison:
    task, folder, seeds, *epochs = entry.split(":")
    return Comparison(task, folder, int(seeds), *map(float, epochs))


def _ours(comparison: Comparison, args: argparse.Namespace) -> list[float]:
    output = args.work / "ours" / comparison.task
    seeds = [str(1 + seed) for seed in range(comparison.seeds)]
    if not (output / "report.json").exists():
        command = [
            *(sys.executable, "-m", "bert_tf", "finetune", f"--task={comparison.task}"),
            *(f"--data={args.data}/{comparison.data}", f"--init={args.model}"),
            *(f"--output={output}", f"--cache={args.work}/cache", f"--seeds={','.join(seeds)}"),
            *(f"--epochs={comparison.epochs}", f"--batch_size={_BATCH}"),
            f"--learning_rate={_RATE}",
        ]
        subprocess.run(command, check=True)
    by_seed = json.loads((output / "report.json").read_text())["metrics"]["by_seed"]
    return [by_seed[seed][comparison.metric] for seed in seeds]


def _peers(comparison: Comparison, args: argparse.Namespace) -> tuple[list[float], list[str]]:
    """Scores of the seeds, and the precisions that they were trained in."""
    scores, precisions = [], set()
    for seed in range(1, comparison.seeds + 1):
        output = args.work / "peer" / f"{comparison.task}-{seed}.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        if not output.exists():
            command = [
                *(args.peer_python, _PEER, f"--task={comparison.task}", f"--model={args.model}"),
                *(f"--data={args.data}/{comparison.data}", f"--seed={seed}", "--pad=longest"),
                *(f"--epochs={comparison.epochs:g}", f"--batch={_BATCH}", f"--lr={_RATE}"),
                *(f"--precision={args.peer_precision}", f"--out={output}"),
            ]
            subprocess.run(command, check=True)
        result = json.loads(output.read_text())
        scores.append(max(epoch[comparison.metric] for epoch in result["epochs"]))
        precisions.add(result["settings"]["precision"])
    return scores, sorted(precisions)


def main() -> None:
    """Makes the comparisons and merges them into the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer_python", required=True, help="Python with the peer")
    parser.add_argument("--model", required=True, help="Hugging Face folder of the initial weights")
    parser.add_argument("--data", required=True, help="parent of the folders of the data")
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    precisions = ("float32", "bfloat16")
    parser.add_argument("--peer_precision", choices=precisions, default=precisions[0])
    parser.add_argument("runs", type=_parse, nargs="+", metavar="TASK:FOLDER:SEEDS[:EPOCHS]")
    args = parser.parse_args()
    results: dict[str, Any] = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    rows = results.setdefault(Path(args.model).name, {})
    for comparison in args.runs:
        ours = _ours(comparison, args)
        peer, precisions_of_peer = _peers(comparison, args)
        rows[comparison.task] = {
            "metric": comparison.metric,
            "epochs": comparison.epochs,
            "ours": ours,
            "peer": peer,
            "peer_precision": precisions_of_peer,
            "ours_mean": statistics.fmean(ours),
            "peer_mean": statistics.fmean(peer),
        }
        _RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for task, row in rows.items():
        means = f"ours {row['ours_mean']:.4f} peer {row['peer_mean']:.4f}"
        print(f"{task:8} {row['metric']:10} {means}")


if __name__ == "__main__":
    main()
