"""What there is to see in a run of pre-training: the numbers of its page."""

from typing import Any

import numpy as np

from bert_tf import weights
from bert_tf.inspection import curves, word_neighbours
from bert_tf.inspection.look import Look, rounded
from bert_tf.pretraining import milestones
from bert_tf.pretraining.milestones import Line
from bert_tf.training import progress
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import label

_RUN, _REPORT = "run.json", "report.json"
_WORDS = "encoder/embeddings/word_embeddings"
# Of a report, what it has to say in a line, in this order.
_FIGURES = (
    "masked_lm_accuracy",
    "next_sentence_accuracy",
    "perplexity",
    "unigram_accuracy",
    "bigram_accuracy",
    "next_sentence_majority",
)


def look(folder: str) -> Look:
    """Looks at a run of pre-training, finished or not.

    Args:
      folder: of the run.

    Raises:
      InputError: it is of no such run, or damaged.
    """
    identity = _identity(folder)
    report_path = f"{folder}/{_REPORT}"
    finished = files.gfile.exists(report_path)
    report = json_files.read(report_path, dict[str, Any], finite=False) if finished else {}
    lines = milestones.read(folder)
    evaluations = {line["step"]: line["held_out"] for line in lines if "held_out" in line}
    if finished and not evaluations:
        scores = [name for name in report if name.endswith(("_accuracy", "_loss", "perplexity"))]
        evaluations = {report["steps"]: {name: report[name] for name in scores}}
    words, parts = _words(folder) if finished else (None, {})
    values = {
        "run": {
            "name": label(folder.rstrip("/").rsplit("/", 1)[-1]),
            "finished": finished,
            "steps": sum(phase["steps"] for phase in identity["phases"]),
            "objective": report.get("objective"),
            "parameters": report.get("parameters"),
            "seconds": rounded(report.get("seconds")),
            "config": identity["config"],
            "figures": {name: rounded(report[name]) for name in _FIGURES if report.get(name)},
        },
        "history": curves.of_history(progress.read_history(f"{folder}/{progress.HISTORY}")),
        "held_out": curves.of_evaluations(evaluations),
        "course": _course(lines),
        "words": words,
    }
    return Look(values, parts)


def _identity(folder: str) -> dict[str, Any]:
    """What a run says that it is.

    Raises:
      InputError: it is no run of pre-training.
    """
    path = f"{folder}/{_RUN}"
    if not files.gfile.exists(path):
        raise InputError(
            f"{folder}: is no run (it has no {_RUN}); name the folder that make pretrain wrote. A "
            "model is looked into with --model= and --text=."
        )
    found = json_files.read(path, dict[str, Any])
    if not {"phases", "config"} <= found.keys():
        raise InputError(
            f"{folder}: is no run of pre-training; look into its model with --model= and --text=."
        )
    return found


def _course(lines: list[Line]) -> dict[str, Any] | None:
    """The guesses for the held-out sentences, by step; None where none were noted."""
    sentences = next((line["sentences"] for line in lines if "sentences" in line), None)
    found = sorted(
        ((line["step"], line["guesses"]) for line in lines if "guesses" in line),
        key=lambda item: item[0],
    )
    if not sentences or not found:
        return None
    return {
        "sentences": sentences,
        "steps": [step for step, _ in found],
        "guesses": [
            [{"tokens": list(one["tokens"].items()), "right": one["right"]} for one in guesses]
            for _, guesses in found
        ],
    }


def _words(folder: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Neighbours among the embeddings of words: as JSON values, and as bytes."""
    bundle = weights.read(folder)
    found = word_neighbours.find(bundle.weights[_WORDS], bundle.tokenizer())
    cosines = np.clip(np.rint(found.cosines * 100), -100, 100).astype(np.int8)
    return (
        {"words": found.words, "count": found.nearest.shape[1]},
        {"nearest": found.nearest.astype("<u2").tobytes(), "cosines": cosines.tobytes()},
    )
