"""Requests of raw text pairs to logits: ours beside other engines, in one run.

A peer is measured with one thread and with all of them for a computation, ours as often as it
chooses by itself; each figure is the best of these, and of two rounds.
"""

import csv
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import json_of, row
from bert_tf import weights
from bert_tf.export import saved_model
from pipelines.common.threads import cores
from pipelines.tokenizers.base import Tokenizer

_LENGTHS = (8, 32, 128)  # tokens of single requests
_SINGLE = 40  # different single requests of each length
_ROUNDS = 2
_PEERS = ("onnxruntime", "openvino", "torch", "keras_hub")
_REDUCED = (("onnxruntime", "int8"), ("openvino", "bfloat16"), ("torch", "bfloat16"))
_MOST_LOSS = 0.005  # of the accuracy, in less than float32
_BETTER_LOW = ("p50", "p99")

Figures = dict[str, float]


def compare(model: str, dev: str, folder: Path, peer: Callable[..., Any]) -> dict[str, Any]:
    """The rows of all figures.

    Args:
      model: folder of a model that was fine-tuned for RTE.
      dev: its labelled file.
      folder: for what is written meanwhile.
      peer: runs a script of the peers and returns its JSON.
    """
    requests, labels = _requests(model, dev)
    (folder / "requests.json").write_text(json.dumps(requests))
    measured = _Measured(folder, labels)
    versions = _export(model, dev, folder)
    for _ in range(_ROUNDS):
        for _ in _threads():
            for engine in ("auto", "tensorflow"):
                measured.note("ours", engine, "float32", _ours(versions["float32"], engine))
            for precision in ("int8", "bfloat16"):
                if precision in versions:
                    more = _ours(versions[precision], "auto", precision)
                    measured.note("ours", "auto", precision, more)
        for engine, precision in (*((name, "float32") for name in _PEERS), *_REDUCED):
            for threads in _threads():
                given = (f"--engine={engine}", f"--precision={precision}", f"--threads={threads}")
                run = functools.partial(peer, "inference.py", f"--model={folder}/hf", *given)
                measured.note("peer", engine, precision, run)
    return measured.rows()


def _threads() -> list[int]:
    """Of one computation, as peers are measured."""
    return sorted({1, cores()})


def _export(model: str, dev: str, folder: Path) -> dict[str, str]:
    """The model in all formats; returns the versions by their precision, where it keeps scores."""
    command = [sys.executable, "-m", "bert_tf"]
    convert = [f"--input={model}", f"--output={folder}/hf", "--format=huggingface"]
    subprocess.run([*command, "convert", *convert], check=True)
    found = {}
    for precision in ("float32", "int8", "bfloat16"):
        output = f"{folder}/{precision}"
        task = [f"--tasks=rte={model}", f"--output={output}", f"--precision={precision}"]
        if precision != "float32":
            task.append(f"--dev=rte={dev}")
        done = subprocess.run([*command, "export", *task], check=precision == "float32")
        if done.returncode == 0:
            found[precision] = saved_model.newest(output)
    return found


def _ours(path: str, engine: str, precision: str | None = None) -> Callable[..., Figures]:
    command = [sys.executable, "-m", "benchmarks.inference", f"--export={path}"]
    command += [f"--engine={engine}", *([f"--precision={precision}"] if precision else [])]
    return lambda *given: json_of([*command, *given])


def _requests(model: str, dev: str) -> tuple[dict[str, Any], list[int]]:
    """The requests, and the labels of those of mixed lengths."""
    with open(dev, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    pairs = [(each["sentence1"], each["sentence2"]) for each in rows]
    labels = [("entailment", "not_entailment").index(each["label"]) for each in rows]
    tokenizer = weights.read(model).tokenizer()
    words = [word for first, _ in pairs for word in first.split()]
    single = {str(tokens): _single(tokenizer, words, tokens) for tokens in _LENGTHS}
    return {"pairs": pairs, "single": single}, labels


def _single(tokenizer: Tokenizer, words: list[str], tokens: int) -> list[tuple[str, str]]:
    """Pairs that have so many tokens, with the three special ones."""
    pieces = zip(words, map(len, tokenizer.tokenize(words).to_list()), strict=True)
    return [_pair(pieces, tokens - 3) for _ in range(_SINGLE)]


def _pair(words: Iterator[tuple[str, int]], left: int) -> tuple[str, str]:
    """The next words, with their numbers of tokens, of which those are taken that fit."""
    taken = []
    while left:
        word, count = next(words)
        if count <= left:
            taken.append(word)
            left -= count
    return " ".join(taken[:-1]), taken[-1]


class _Measured:
    """What was measured, the best of each figure.

    Args:
      folder: has the requests, and gets the logits.
      labels: of the requests of mixed lengths.
    """

    def __init__(self, folder: Path, labels: Iterable[int]):
        self._folder, self._labels = folder, np.array(list(labels))
        self._best: dict[tuple[str, str, str], Figures] = {}
        self._accuracies: dict[tuple[str, str, str], float] = {}
        self._apart: dict[tuple[str, str, str], float] = {}

    def note(self, whose: str, engine: str, precision: str, run: Callable[..., Figures]) -> None:
        """Measures, and keeps what is better than before."""
        logits = self._folder / "logits.npy"
        fresh = run(f"--requests={self._folder}/requests.json", f"--logits={logits}")
        key = whose, engine, precision
        known = self._best.setdefault(key, fresh)
        for name, value in fresh.items():
            better = min if name.startswith(_BETTER_LOW) else max
            known[name] = better(known[name], value)
        found = np.load(logits)
        self._accuracies[key] = float((found.argmax(-1) == self._labels).mean())
        full = self._folder / "full.npy"
        if not full.exists():
            np.save(full, found)
        self._apart[key] = float(np.abs(found - np.load(full)).max())

    def rows(self) -> dict[str, Any]:
        """Ours beside each peer in float32, and beside the fastest in any precision."""
        found: dict[str, Any] = {}
        peers = {key: value for key, value in self._best.items() if key[0] == "peer"}
        full = {key: value for key, value in peers.items() if key[2] == "float32"}
        kept = {key: value for key, value in self._best.items() if self._keeps(key)}
        for name in next(iter(self._best.values())):
            for ours in ("auto", "tensorflow"):
                for peer in full:
                    found[f"answers_{name}_{ours}_{peer[1]}"] = self._row(
                        name, ("ours", ours, "float32"), peer
                    )
            fastest = {
                whose: self._fastest(name, [key for key in kept if key[0] == whose])
                for whose in ("ours", "peer")
            }
            found[f"answers_{name}_any_precision"] = self._row(
                name, fastest["ours"], fastest["peer"]
            )
        return found

    def _keeps(self, key: tuple[str, str, str]) -> bool:
        full = self._accuracies["ours", "auto", "float32"]
        return self._accuracies[key] >= full - _MOST_LOSS

    def _fastest(self, name: str, keys: list[tuple[str, str, str]]) -> tuple[str, str, str]:
        low = name.startswith(_BETTER_LOW)
        return (min if low else max)(keys, key=lambda key: self._best[key][name])

    def _row(
        self, name: str, ours: tuple[str, str, str], peer: tuple[str, str, str]
    ) -> dict[str, Any]:
        """Rates, so that a ratio above 1 says that ours is faster."""
        mine, theirs, unit = self._best[ours][name], self._best[peer][name], "pairs/s"
        if name.startswith(_BETTER_LOW):
            mine, theirs, unit = 1000 / mine, 1000 / theirs, "1/s"
        told = _told(name)
        sides = (
            f"{key[1]} in {key[2]} (accuracy {self._accuracies[key]:.4f}, logits within "
            f"{self._apart[key]:.1g})"
            for key in (ours, peer)
        )
        return row(mine, theirs, unit, f"RTE, text to logits, {told}: ours {', peer '.join(sides)}")


def _told(name: str) -> str:
    """What a figure is of."""
    if name.startswith(_BETTER_LOW):
        quantile, length = name.split("_")
        lengths = "mixed lengths" if length == "mixed" else f"{length} tokens"
        return f"single requests, {quantile} of {lengths}"
    return {
        "batch": "batches of 32 of mixed lengths",
        "clients": "16 clients at once",
        "file": "a file, in any order",
    }[name]
