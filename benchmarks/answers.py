"""Raw text pairs to logits: ours and other engines, in one run.

A peer is measured with one thread and with all of them for a computation, ours equally often with
its own choice; each figure is the best of these and of two rounds.
"""

import csv
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import computed, json_of, row
from bert_tf import weights
from bert_tf.export import saved_model
from pipelines.common.machine import cores
from pipelines.tokenizers.base import Tokenizer

_LENGTHS = (8, 32, 128)  # tokens of single requests
_SINGLE = 40  # different single requests of each length
_ROUNDS = 2
_PEERS = ("onnxruntime", "openvino", "torch", "keras_hub")
_REDUCED = (("onnxruntime", "int8"), ("openvino", "bfloat16"), ("torch", "bfloat16"))
_MAX_LOSS = 0.005  # of the accuracy, in reduced precision
_LATENCIES = ("p50", "p99")

Figures = dict[str, float]
Key = tuple[str, str, str]  # ours or peer, engine, precision


def compare(model: str, dev: str, folder: Path, peer: Callable[..., Any]) -> dict[str, Any]:
    """Measures all engines.

    Args:
      model: folder of a model that was fine-tuned for RTE.
      dev: labelled file of RTE.
      folder: folder for temporary files.
      peer: runs a script of the peers and returns its JSON.

    Returns:
      The rows of all figures.
    """
    requests, labels = _requests(model, dev)
    (folder / "requests.json").write_text(json.dumps(requests))
    measured = _Measurements(folder, labels)
    versions = _export(model, dev, folder)
    threads = sorted({1, cores()})
    for _ in range(_ROUNDS):
        for _ in threads:
            for engine in ("auto", "tensorflow"):
                run = functools.partial(_ours, versions["float32"], f"--engine={engine}")
                measured.measure(("ours", engine, "float32"), run)
            for precision in versions.keys() - {"float32"}:
                run = functools.partial(_ours, versions[precision], f"--precision={precision}")
                measured.measure(("ours", "auto", precision), run)
        for engine, precision in (*((name, "float32") for name in _PEERS), *computed(_REDUCED)):
            for count in threads:
                flags = (f"--engine={engine}", f"--precision={precision}", f"--threads={count}")
                run = functools.partial(peer, "inference.py", f"--model={folder}/hf", *flags)
                measured.measure(("peer", engine, precision), run)
    return measured.rows()


def _export(model: str, dev: str, folder: Path) -> dict[str, str]:
    """Writes the model in all formats; returns versions by precision, if they keep the accuracy."""
    command = [sys.executable, "-m", "bert_tf"]
    convert = [f"--input={model}", f"--output={folder}/hf", "--format=huggingface"]
    subprocess.run([*command, "convert", *convert], check=True)
    found = {}
    for precision in ("float32", *sorted({each[-1] for each in computed(_REDUCED)})):
        output = f"{folder}/{precision}"
        task = [f"--tasks=rte={model}", f"--output={output}", f"--precision={precision}"]
        if precision != "float32":
            task.append(f"--dev=rte={dev}")
        done = subprocess.run([*command, "export", *task], check=precision == "float32")
        if done.returncode == 0:
            found[precision] = saved_model.newest(output)
    return found


def _ours(path: str, *flags: str) -> Figures:
    return json_of([sys.executable, "-m", "benchmarks.inference", f"--export={path}", *flags])


def _requests(model: str, dev: str) -> tuple[dict[str, Any], np.ndarray]:
    """The requests, and the labels of those of mixed lengths."""
    with open(dev, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    pairs = [(each["sentence1"], each["sentence2"]) for each in rows]
    labels = [("entailment", "not_entailment").index(each["label"]) for each in rows]
    tokenizer = weights.read(model).tokenizer()
    words = [word for first, _ in pairs for word in first.split()]
    single = {str(tokens): _single(tokenizer, words, tokens) for tokens in _LENGTHS}
    return {"pairs": pairs, "single": single}, np.array(labels)


def _single(tokenizer: Tokenizer, words: list[str], tokens: int) -> list[tuple[str, str]]:
    """Pairs of a number of tokens, with the three special ones."""
    counted = zip(words, map(len, tokenizer.tokenize(words).to_list()), strict=True)
    return [_pair(counted, tokens - 3) for _ in range(_SINGLE)]


def _pair(counted: Iterator[tuple[str, int]], left: int) -> tuple[str, str]:
    """The next words with their numbers of tokens that fit."""
    taken = []
    while left:
        word, count = next(counted)
        if count <= left:
            taken.append(word)
            left -= count
    return " ".join(taken[:-1]), taken[-1]


class _Measurements:
    """The best of each figure, and accuracies.

    Args:
      folder: folder of the requests and the logits.
      labels: int [pairs] labels of the requests of mixed lengths.
    """

    def __init__(self, folder: Path, labels: np.ndarray):
        self._folder, self._labels = folder, labels
        self._best: dict[Key, Figures] = {}
        self._accuracies: dict[Key, float] = {}
        self._differences: dict[Key, float] = {}
        self._reference: np.ndarray | None = None

    def measure(self, key: Key, run: Callable[..., Figures]) -> None:
        """Runs a script and keeps figures that are better than before."""
        logits = self._folder / "logits.npy"
        fresh = run(f"--requests={self._folder}/requests.json", f"--logits={logits}")
        known = self._best.setdefault(key, fresh)
        for name, value in fresh.items():
            better = min if name.startswith(_LATENCIES) else max
            known[name] = better(known[name], value)
        found = np.load(logits)
        if self._reference is None:
            self._reference = found
        self._accuracies[key] = float((found.argmax(-1) == self._labels).mean())
        self._differences[key] = float(np.abs(found - self._reference).max())

    def rows(self) -> dict[str, Any]:
        """Ours and each peer in float32, and ours and the fastest peer in any precision."""
        found: dict[str, Any] = {}
        limit = self._accuracies["ours", "auto", "float32"] - _MAX_LOSS
        kept = [key for key, accuracy in self._accuracies.items() if accuracy >= limit]
        for name in next(iter(self._best.values())):
            for ours in ("auto", "tensorflow"):
                for peer in _PEERS:
                    keys = ("ours", ours, "float32"), ("peer", peer, "float32")
                    found[f"answers_{name}_{ours}_{peer}"] = self._row(name, *keys)
            best = min if name.startswith(_LATENCIES) else max
            fastest = (
                best((key for key in kept if key[0] == side), key=lambda k: self._best[k][name])
                for side in ("ours", "peer")
            )
            found[f"answers_{name}_any_precision"] = self._row(name, *fastest)
        return found

    def _row(self, name: str, ours: Key, peer: Key) -> dict[str, Any]:
        """A row of rates, so that a ratio above 1 means that ours is faster."""
        mine, theirs, unit = self._best[ours][name], self._best[peer][name], "pairs/s"
        if name.startswith(_LATENCIES):
            mine, theirs, unit = 1000 / mine, 1000 / theirs, "1/s"
        sides = (
            f"{key[1]} in {key[2]} (accuracy {self._accuracies[key]:.4f}, logits within "
            f"{self._differences[key]:.1g})"
            for key in (ours, peer)
        )
        text = f"RTE, text to logits, {_describe(name)}: ours {', peer '.join(sides)}"
        return row(mine, theirs, unit, text)


def _describe(name: str) -> str:
    """The description of a figure."""
    if name.startswith(_LATENCIES):
        quantile, length = name.split("_")
        lengths = "mixed lengths" if length == "mixed" else f"{length} tokens"
        return f"single requests, {quantile} of {lengths}"
    return {
        "batch": "batches of 32 of mixed lengths",
        "clients": "16 clients at once",
        "file": "a file, in any order",
    }[name]
