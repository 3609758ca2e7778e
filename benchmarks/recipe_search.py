r"""Searches for the recipe of the built-in run: candidates at equal seconds, the best ones longer.

  python -m benchmarks.recipe_search --corpus=CORPUS --work=/tmp/recipes [--minutes=1,2,4]

The search starts from `recipes/builtin.flags` as it was before, with batches of 16. Each candidate
changes one thing, and is trained by `bert-tf pretrain --minutes`. The best quarter is trained for
twice the time, and so on (successive halving; Jamieson and Talwalkar 2016, arXiv 1502.07943). The
start is always kept, and the last round has three seeds. Candidates are compared by the accuracy of
masked tokens in held-out documents, on the same examples for all: a model trained on other examples
is scored on the usual ones afterwards. Runs in --work are not repeated. Results go to
benchmarks/recipes.json, a picture to docs/guides.
"""

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from absl import app, flags

from benchmarks.workplace import Workplace

_CORPUS = flags.DEFINE_string("corpus", None, "Text files, as for write-examples.", required=True)
_WORK = flags.DEFINE_string("work", None, "Folder for what the runs write.", required=True)
_MINUTES = flags.DEFINE_list("minutes", ["1", "2", "4"], "Minutes of training of each round.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds of the candidates of the last round.")
_ONLY = flags.DEFINE_list("only", [], "Names of candidates (default: all).")
_RESULTS = flags.DEFINE_string("results", "benchmarks/recipes.json", "File of the results.")
_PICTURE = flags.DEFINE_string("picture", "docs/guides/recipes.png", "Plot of the first round.")

_RECIPE = "recipes/builtin.flags"
_KEPT = 1 / 4  # of the candidates, from round to round
_START = "start: batches of 16"
_START_FLAGS = ("--batch_size=16", "--learning_rate=1.4e-3", "--nopmi_embeddings")


class Candidate(NamedTuple):
    """A change of the recipe: flags of pretrain and of write-examples, and sizes of the model."""

    training: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    config: tuple[tuple[str, int], ...] = ()


_CANDIDATES = {
    _START: Candidate(),
    "first: AdamW, batches of 128, linear decay": Candidate(
        (
            *("--optimizer=adamw", "--batch_size=128", "--learning_rate=2e-3"),
            *("--decay_fraction=0.92", "--initializer_range=0.02"),
        )
    ),
    "AdamW": Candidate(("--optimizer=adamw",)),
    "AdamW, half the rate": Candidate(("--optimizer=adamw", "--learning_rate=7e-4")),
    "LAMB": Candidate(("--optimizer=lamb", "--learning_rate=5e-3")),
    "half the rate": Candidate(("--learning_rate=7e-4",)),
    "twice the rate": Candidate(("--learning_rate=2.8e-3",)),
    "batches of 8": Candidate(("--batch_size=8", "--learning_rate=1e-3")),
    "batches of 32": Candidate(("--batch_size=32", "--learning_rate=2e-3")),
    "batches of 32 at the same rate": Candidate(("--batch_size=32",)),
    "batches of 32 at twice the rate": Candidate(("--batch_size=32", "--learning_rate=2.8e-3")),
    "batches of 64": Candidate(("--batch_size=64", "--learning_rate=2.8e-3")),
    "linear decay": Candidate(("--decay_fraction=0.95",)),
    "decay of 15 %": Candidate(("--decay_fraction=0.15",)),
    "decay of 50 %": Candidate(("--decay_fraction=0.5",)),
    "beta 2 of 0.95": Candidate(("--beta_2=0.95",)),
    "beta 2 of 0.999": Candidate(("--beta_2=0.999",)),
    "first weights of 0.02": Candidate(("--initializer_range=0.02",)),
    "first weights of 0.1": Candidate(("--initializer_range=0.1",)),
    "warm-up of 50 steps": Candidate(("--warmup_steps=50",)),
    "warm-up of 800 steps": Candidate(("--warmup_steps=800",)),
    "weight decay of 0.1": Candidate(("--weight_decay=0.1",)),
    "dropout of 0.1": Candidate(("--dropout=0.1",)),
    "1 layer": Candidate(config=(("num_hidden_layers", 1),)),
    "4 layers": Candidate(config=(("num_hidden_layers", 4),)),
    "256 wide": Candidate(
        config=(("hidden_size", 256), ("num_attention_heads", 4), ("intermediate_size", 1024))
    ),
    "sequences of 32": Candidate(
        ("--batch_size=32",), ("--max_seq_length=32", "--max_predictions_per_seq=5")
    ),
    "sequences of 128": Candidate(
        ("--batch_size=8",), ("--max_seq_length=128", "--max_predictions_per_seq=20")
    ),
    "25 % masked": Candidate(
        (), ("--masked_lm_prob=0.25", "--max_predictions_per_seq=16", "--max_seq_length=64")
    ),
}


def _place() -> Workplace:
    return Workplace(Path(_WORK.value), _CORPUS.value)


def _model(config: tuple[tuple[str, int], ...]) -> str:
    """The value of --model: a size, or a file with changes of it."""
    if not config:
        return "tiny"
    tiny = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    values = {"vocab_size": 8192, **tiny, "intermediate_size": 512} | dict(config)
    path = Path(_WORK.value, "-".join(f"{k}-{v}" for k, v in config) + ".json")
    path.write_text(json.dumps(values))
    return str(path)


def _trained(name: str, minutes: str, seed: int) -> dict[str, Any]:
    """The report of a candidate, on the usual held-out examples."""
    candidate = _CANDIDATES[name]
    folder = Path(_WORK.value, "runs", f"{name.replace(' ', '_')}-{minutes}-{seed}")
    usual, common = _place().examples(()), ("--nosaved_model", f"--seed={seed}")
    model = f"--model={_model(candidate.config)}"
    recipe = (f"--flagfile={_RECIPE}", *_START_FLAGS, model)
    examples = _place().examples(candidate.examples)
    if not (folder / "report.json").exists():
        where = (f"--tfrecords={examples}", f"--output={folder}", f"--minutes={minutes}")
        _place().command("pretrain", *recipe, *candidate.training, *where, *common)
    report = json.loads((folder / "report.json").read_text())
    if examples == usual:
        return report
    again = Path(f"{folder}-scored")
    if not (again / "report.json").exists():
        # One step at a negligible learning rate, which leaves the model as it is.
        still = ("--steps=1", "--warmup_steps=0", "--learning_rate=1e-20", "--optimizer=adamw")
        given = (f"--init={folder}", "--nosinusoidal_positions", "--nopmi_embeddings")
        to = (f"--tfrecords={usual}", f"--output={again}", *given)
        _place().command("pretrain", *recipe, *candidate.training, *still, *to, *common)
    scored = json.loads((again / "report.json").read_text())
    return scored | {name: report[name] for name in ("steps", "sequences_per_second", "seconds")}


def _scores(name: str, minutes: str, seeds: int) -> dict[str, Any]:
    """The results of a candidate in a round."""
    reports = [_trained(name, minutes, seed) for seed in range(1, seeds + 1)]
    kept = ("masked_lm_accuracy", "next_sentence_accuracy", "perplexity", "steps")
    found = {key: [report[key] for report in reports] for key in kept}
    print(f"{name}, {minutes} min:", json.dumps(found), flush=True)
    return {"candidate": name, "minutes": float(minutes), **found}


def _mean(row: dict[str, Any]) -> float:
    return statistics.fmean(row["masked_lm_accuracy"])


def _draw(rows: list[dict[str, Any]], path: str) -> None:
    """Draws the first round: the accuracy of each candidate."""
    rows = sorted(rows, key=_mean)
    colors = ["tab:orange" if row["candidate"] == _START else "tab:blue" for row in rows]
    figure, axes = plt.subplots(figsize=(8, 0.28 * len(rows) + 1), layout="constrained")
    axes.barh([row["candidate"] for row in rows], [100 * _mean(row) for row in rows], color=colors)
    axes.set_xlabel(f"correct masked tokens after {rows[0]['minutes']:g} min, % (held out)")
    figure.savefig(path, dpi=110)


def main(_: list[str]) -> None:
    """Searches, and writes the results."""
    Path(_WORK.value).mkdir(parents=True, exist_ok=True)
    names, rounds = _ONLY.value or list(_CANDIDATES), []
    for number, minutes in enumerate(_MINUTES.value):
        last = number == len(_MINUTES.value) - 1
        rows = [_scores(name, minutes, _SEEDS.value if last else 1) for name in names]
        rounds.append(sorted(rows, key=_mean, reverse=True))
        names = [row["candidate"] for row in rounds[-1]][: max(2, round(_KEPT * len(names)))]
        names = list(dict.fromkeys([*names, _START]))  # with which all are compared
        Path(_RESULTS.value).write_text(json.dumps(rounds, indent=1) + "\n")
    _draw(rounds[0], _PICTURE.value)


if __name__ == "__main__":
    app.run(main)
