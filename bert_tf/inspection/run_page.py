"""The data of a page about a run of pre-training."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import weights
from bert_tf.inspection.pages import PageData, rounded
from bert_tf.pretraining import milestones
from bert_tf.pretraining.milestones import Line
from bert_tf.training import progress
from bert_tf.training.progress import Point
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import label
from pipelines.tokenizers.base import Tokenizer

_RUN, _REPORT = "run.json", "report.json"
_EMBEDDINGS = "encoder/embeddings/word_embeddings"
# The figures of a report that are shown in a line, in this order.
_FIGURES = (
    "masked_lm_accuracy",
    "next_token_accuracy",
    "denoising_accuracy",
    "next_sentence_accuracy",
    "sentence_order_accuracy",
    "replaced_token_accuracy",
    "replaced_token_found",
    "teacher_accuracy",
    "perplexity",
    "unigram_accuracy",
    "bigram_accuracy",
    "next_sentence_majority",
    "sentence_order_majority",
    "replaced_token_majority",
)
_MAX_POINTS = 600  # of a curve
_WORDS, _NEIGHBOURS = 2_000, 10
_MIN_LETTERS = 3  # of Latin words; shorter ones are mostly beginnings of words
_MIN_NORM = 1e-12  # lower bound of the lengths of vectors


def inspect(folder: str) -> PageData:
    """Inspects a run of pre-training, finished or not.

    Args:
      folder: folder of the run.

    Raises:
      InputError: the folder is not of such a run, or is damaged.
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
    words, parts = _neighbours(folder) if finished else (None, {})
    history = progress.read_history(f"{folder}/{progress.HISTORY}")
    steps = [phase["steps"] for phase in identity["phases"]]
    if None in steps:  # those of a time; the last ones so far
        steps = [report.get("steps") or max((point.step for point in history), default=0)]
    values = {
        "run": {
            "name": label(folder.rstrip("/").rsplit("/", 1)[-1]),
            "finished": finished,
            "steps": sum(steps),
            "objective": report.get("objective"),
            "parameters": report.get("parameters"),
            "seconds": rounded(report.get("seconds")),
            "config": identity["config"],
            "figures": {
                name: rounded(report[name]) for name in _FIGURES if report.get(name) is not None
            },
        },
        "history": thinned(history),
        "held_out": _of_evaluations(evaluations),
        "course": _course(lines),
        "words": words,
    }
    return PageData(values, parts)


def _identity(folder: str) -> dict[str, Any]:
    """The identity that a run has written.

    Raises:
      InputError: the folder is not of a run of pre-training.
    """
    path = f"{folder}/{_RUN}"
    if not files.gfile.exists(path):
        raise InputError(
            f"{folder}: is not a run (it has no {_RUN}); name the folder that bert-tf pretrain "
            "wrote. To inspect a model, give it a text, with --sentence=."
        )
    found = json_files.read(path, dict[str, Any])
    if not {"phases", "config"} <= found.keys():
        raise InputError(
            f"{folder}: is not a run of pre-training; give its model a text, with --sentence=."
        )
    return found


def _course(lines: list[Line]) -> dict[str, Any] | None:
    """The predictions for held-out sentences, by step; None if the run wrote none."""
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


def _neighbours(folder: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
    """Nearest neighbours of words, as JSON values and as bytes; an ELMo has no embeddings."""
    bundle = weights.read(folder)
    if _EMBEDDINGS not in bundle.weights:
        return None, {}
    found = word_neighbours(bundle.weights[_EMBEDDINGS], bundle.tokenizer())
    cosines = np.clip(np.rint(found.cosines * 100), -100, 100).astype(np.int8)
    return (
        {"words": found.words, "count": found.nearest.shape[1]},
        {"nearest": found.nearest.astype("<u2").tobytes(), "cosines": cosines.tobytes()},
    )


def thinned(points: Sequence[Point]) -> dict[str, Any]:
    """The curves of a history as JSON values.

    In long histories, each point is the mean of several neighbouring points.

    Returns:
      `steps`, the last step of each point; `together`, the number of points that became one;
      `values` of each curve by name, None where there is none.
    """
    together = max(1, math.ceil(len(points) / _MAX_POINTS))
    groups = [points[start : start + together] for start in range(0, len(points), together)]
    names = dict.fromkeys(name for point in points for name in point.curves())
    return {
        "steps": [group[-1].step for group in groups],
        "together": together,
        "values": {
            name: [_mean([point.curves().get(name, math.nan) for point in g]) for g in groups]
            for name in names
        },
    }


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return rounded(float(np.mean(known))) if known else None


def _of_evaluations(found: Mapping[int, Mapping[str, float | None]]) -> dict[str, Any]:
    """Metrics of held-out examples by step, in the form of `thinned`."""
    steps = sorted(found)
    names = dict.fromkeys(name for step in steps for name in found[step])
    return {
        "steps": steps,
        "together": 1,
        "values": {name: [rounded(found[step].get(name)) for step in steps] for name in names},
    }


class WordNeighbours(NamedTuple):
    """Words, and the nearest of them to each.

    Attributes:
      words: the words, in the order of their ids.
      nearest: uint16 [words, neighbours], indices of words, the nearest first.
      cosines: float32 [words, neighbours].
    """

    words: tuple[str, ...]
    nearest: np.ndarray
    cosines: np.ndarray


def word_neighbours(table: np.ndarray, tokenizer: Tokenizer) -> WordNeighbours:
    """The neighbours of frequent words among each other.

    Words are tokens of letters (three or more if Latin) that begin a word, with the lowest ids,
    which vocabularies give to frequent tokens. The mean embedding is subtracted before cosines are
    computed; without that, all embeddings would be similar.

    Args:
      table: float32 [vocabulary, width], the word embeddings.
      tokenizer: the tokenizer of the model.
    """
    vocabulary = tokenizer.vocabulary
    special = set(tokenizer.special_ids)
    named: dict[str, int] = {}
    for index, token in enumerate(vocabulary.tokens):
        word = vocabulary.plain([token])
        shortest = _MIN_LETTERS if word.isascii() else 1
        is_word = len(word) >= shortest and word.isalpha() and bool(tokenizer.begins_word[index])
        if is_word and index not in special:
            named.setdefault(word, index)
        if len(named) == _WORDS:
            break
    vectors = table[list(named.values())].astype(np.float64)
    vectors = vectors - table[: len(vocabulary)].mean(0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _MIN_NORM)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    count = min(_NEIGHBOURS, max(len(named) - 1, 0))
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    return WordNeighbours(
        tuple(named),
        nearest.astype(np.uint16),
        np.take_along_axis(cosines, nearest, 1).astype(np.float32),
    )
