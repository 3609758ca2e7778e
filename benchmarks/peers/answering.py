"""Times raw text to logits: what the scripts of all engines share."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_BATCH, _CLIENTS = 32, 16
_THREADS = 2  # that compute batches of a file at once, for engines that do not do so themselves
_SECONDS = 2.0  # of each measurement
_FEWEST = 40  # single requests
_WARMUP = 5

Pairs = list[tuple[str, str]]
Answer = Callable[[Pairs], np.ndarray]
Predict = Callable[[Pairs], Any]


def measure(
    answer: Answer, requests: dict[str, Any], logits_path: str, predict: Predict | None = None
) -> dict[str, float]:
    """Times single requests, batches of mixed lengths, clients at once, and a file.

    Args:
      answer: float32 [pairs, labels] logits of text pairs.
      requests: `single`, pairs by the number of their tokens, and `pairs`, of mixed lengths.
      logits_path: file for the logits of the latter, .npy.
      predict: predicts for all pairs of a file; None: by `answer`, in batches of like lengths.

    Returns:
      `p50_N` and `p99_N`, milliseconds of a single request of N tokens, or of `mixed` lengths;
      `batch`, pairs a second in batches of 32 in the order given; `clients`, pairs a second of 16
      clients, each of which asks for one pair after the other; `file`, pairs a second of all of
      them, in any order.
    """
    pairs = [tuple(pair) for pair in requests["pairs"]]
    batches = [pairs[first : first + _BATCH] for first in range(0, len(pairs), _BATCH)]
    np.save(logits_path, np.concatenate([answer(batch) for batch in batches]))
    found: dict[str, float] = {}
    for tokens, single in (requests["single"] | {"mixed": pairs}).items():
        times = _latencies(answer, [tuple(pair) for pair in single])
        found[f"p50_{tokens}"], found[f"p99_{tokens}"] = np.percentile(times, (50, 99)).tolist()
    found["batch"] = _batches_per_second(answer, batches)
    found["clients"] = _clients_per_second(answer, pairs)
    found["file"] = _of_file_per_second(predict or _in_batches(answer), pairs)
    return found


def _latencies(answer: Answer, pairs: Pairs) -> list[float]:
    """Milliseconds of requests of one pair."""
    for pair in pairs[:_WARMUP]:
        answer([pair])
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < _FEWEST or time.perf_counter() < end:
        pair = pairs[len(times) % len(pairs)]
        begin = time.perf_counter()
        answer([pair])
        times.append(1000 * (time.perf_counter() - begin))
    return times


def _batches_per_second(answer: Answer, batches: list[Pairs]) -> float:
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + 2 * _SECONDS:
        for batch in batches:
            answer(batch)
            count += len(batch)
    return count / (time.perf_counter() - begin)


def _clients_per_second(answer: Answer, pairs: Pairs) -> float:
    counts = [0] * _CLIENTS
    begin = time.perf_counter()

    def ask(number: int) -> None:
        while time.perf_counter() < begin + 2 * _SECONDS:
            answer([pairs[(number + _CLIENTS * counts[number]) % len(pairs)]])
            counts[number] += 1

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(_CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return sum(counts) / (time.perf_counter() - begin)


def _of_file_per_second(predict: Predict, pairs: Pairs) -> float:
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + 2 * _SECONDS:
        predict(pairs)
        count += len(pairs)
    return count / (time.perf_counter() - begin)


def _in_batches(answer: Answer) -> Predict:
    """Answers pairs in batches of like lengths, several at once."""

    def predict(pairs: Pairs) -> None:
        ordered = sorted(pairs, key=lambda pair: -len(pair[0]) - len(pair[1]))
        batches = [ordered[first : first + _BATCH] for first in range(0, len(ordered), _BATCH)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(answer, batches))

    return predict


def report(
    answer: Answer, requests_path: str, logits_path: str, predict: Predict | None = None
) -> None:
    """Measures, and prints one JSON object as the last line.

    Args:
      answer: see `measure`.
      requests_path: file of the requests, JSON.
      logits_path: see `measure`.
      predict: see `measure`.
    """
    with open(requests_path, encoding="utf-8") as file:
        print(json.dumps(measure(answer, json.load(file), logits_path, predict)))
