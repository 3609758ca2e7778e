r"""BERT's relatives on the built-in corpus at equal compute: fine-tuned scores, three seeds.

  python -m benchmarks.relatives --corpus=CORPUS --work=/tmp/relatives --glue=GLUE --seconds=120

Every model is tiny (2 layers, 128 wide; students have 1 layer) and is trained by
`recipes/builtin.flags`, which was found for BERT, with batches of 16. The number of its steps
follows from its speed, measured first, alone on the machine. A teacher's training is not counted.
Runs in --work are not repeated. Results go to benchmarks/relatives.json.
"""

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags

from benchmarks.workplace import Workplace

_CORPUS = flags.DEFINE_string("corpus", None, "Text files, as for write-examples.", required=True)
_WORK = flags.DEFINE_string("work", None, "Folder for what the runs write.", required=True)
_GLUE = flags.DEFINE_string("glue", None, "Folder with SST-2 and MRPC of GLUE.", required=True)
_SECONDS = flags.DEFINE_integer("seconds", 120, "Seconds of training of each model.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds of pre-training.")
_RESULTS = flags.DEFINE_string("results", "benchmarks/relatives.json", "File of the results.")

_COMMON = ("--batch_size=16", "--nosaved_model", "--save_every=100000")
_RECIPE = ("--flagfile=recipes/builtin.flags", *_COMMON)
_STUDENT = ("--flagfile=recipes/distillation.flags", *_COMMON)
_MEASURED_STEPS = 300
_TASKS = {"sst2": "SST-2", "mrpc": "MRPC"}
_TUNING = ("--train_examples=3000", "--learning_rate=3e-4", "--epochs=3")


class Arm(NamedTuple):
    """A model: its examples, and flags of its training."""

    examples: tuple[str, ...]
    training: tuple[str, ...]
    kind: str = "wordpiece"  # of the vocabulary


_MLM = ("--objective=mlm", "--masking=dynamic")
_ORDER = ("--objective=mlm_sop", "--whole_word_mask", "--max_ngram=3")
_ONE_LAYER = {"num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 2}
_TEACHER = "masked LM"
_ARMS = {
    "BERT": Arm((), ("--model=tiny",)),
    "ALBERT": Arm(_ORDER, ("--model=albert-tiny",), "sentencepiece"),
    _TEACHER: Arm(_MLM, ("--model=tiny",)),
    "ELECTRA": Arm(("--objective=replaced_token",), ("--model=electra-tiny",)),
    "1 layer, alone": Arm(_MLM, ("--model={one_layer}",)),
    "1 layer, distilled": Arm(_MLM, ("--student=1", "--teacher={teacher}")),
}


def _place() -> Workplace:
    return Workplace(Path(_WORK.value), _CORPUS.value)


def _trained(name: str, steps: int, seed: int) -> Path:
    """The folder of a model."""
    arm, work = _ARMS[name], Path(_WORK.value)
    folder = work / f"{name.replace(' ', '_').replace(',', '')}-{steps}-{seed}"
    if not (folder / "report.json").exists():
        one_layer = work / "one_layer.json"
        one_layer.write_text(
            json.dumps({"vocab_size": 8192, "intermediate_size": 512, **_ONE_LAYER})
        )
        student = any("--teacher" in flag for flag in arm.training)
        places = {"one_layer": one_layer, "teacher": work / "teacher"}
        flags_of = [flag.format(**places) for flag in arm.training]
        where = (
            f"--tfrecords={_place().examples(arm.examples, arm.kind)}",
            f"--output={folder}",
            f"--seed={seed}",
        )
        recipe = _STUDENT if student else _RECIPE
        command = "distill" if student else "pretrain"
        _place().command(command, *recipe, *flags_of, *where, f"--steps={steps}")
    return folder


def _rate(name: str) -> float:
    """Steps per second, by the last half of a short run."""
    history = (_trained(name, _MEASURED_STEPS, 1) / "history.jsonl").read_text().splitlines()
    rates = [json.loads(line)["sequences_per_second"] for line in history]
    return statistics.median(rates[len(rates) // 2 :]) / 16  # sequences of a step


def _score(model: Path, task: str, seed: int) -> float:
    output = model.with_name(f"{model.name}-{task}")
    if not (output / "report.json").exists():
        data = (f"--task={task}", f"--data={_GLUE.value}/{_TASKS[task]}", f"--init={model}")
        places = (f"--output={output}", f"--cache={_WORK.value}/cache", f"--seeds={seed}")
        _place().command("finetune", *data, *places, *_TUNING)
    metrics = json.loads((output / "report.json").read_text())["metrics"]["median"]
    return metrics["accuracy"]


def main(_: list[str]) -> None:
    """Trains, fine-tunes, and writes the results."""
    Path(_WORK.value).mkdir(parents=True, exist_ok=True)
    teacher = Path(_WORK.value, "teacher")
    found: dict[str, dict[str, Any]] = {}
    steps: dict[str, int] = {}
    for name in _ARMS:
        if not teacher.exists() and name == "1 layer, distilled":
            teacher.symlink_to(_trained(_TEACHER, steps[_TEACHER], 1).resolve())
        steps[name] = round(_SECONDS.value * _rate(name))
    for seed in range(1, _SEEDS.value + 1):
        for name in _ARMS:
            model = _trained(name, steps[name], seed)
            row: dict[str, Any] = found.setdefault(name, {"steps": steps[name]})
            for task in _TASKS:
                row.setdefault(task, []).append(_score(model, task, seed))
            report = json.loads((model / "report.json").read_text())
            row.setdefault("masked_lm_accuracy", []).append(report.get("masked_lm_accuracy"))
            print(name, json.dumps(row), flush=True)
        Path(_RESULTS.value).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    app.run(main)
