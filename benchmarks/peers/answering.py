"""Times raw text to logits, for the scripts of all engines."""

import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_BATCH, _CLIENTS = 32, 16
_THREADS = 2  # that compute batches of a file at once, for engines that do not do so themselves
_SECONDS = 2.0  # of the measurement of single requests; others take twice as long
_MIN_REQUESTS = 40
_WARMUP = 5

Pairs = list[tuple[str, str]]
Answer = Callable[[Pairs], np.ndarray]
Predict = Callable[[Pairs], Any]


def report(
    answer: Answer, requests_path: str, logits_path: str, predict: Predict | None = None
) -> None:
    """Times single requests, batches, concurrent clients and a file; prints a line of JSON.

    The JSON object has `p50_N` and `p99_N`, milliseconds of a single request of N tokens, or of
    `mixed` lengths; and pairs per second: `batch`, in batches of 32 in the given order; `clients`,
    of 16 clients, each of which sends one pair after the other; `file`, of all pairs in any order.

    Args:
      answer: returns float32 [pairs, labels] logits of text pairs.
      requests_path: JSON file with `single`, pairs by their number of tokens, and `pairs`, of mixed
        lengths.
      logits_path: .npy file for the logits of the latter.
      predict: predicts all pairs of a file; None: by `answer`, in batches of similar lengths.
    """
    with open(requests_path, encoding="utf-8") as file:
        requests = json.load(file)
    pairs = [tuple(pair) for pair in requests["pairs"]]
    batches = [pairs[first : first + _BATCH] for first in range(0, len(pairs), _BATCH)]
    np.save(logits_path, np.concatenate([answer(batch) for batch in batches]))
    found: dict[str, float] = {}
    for tokens, single in (requests["single"] | {"mixed": pairs}).items():
        times = _latencies(answer, [tuple(pair) for pair in single])
        found[f"p50_{tokens}"], found[f"p99_{tokens}"] = np.percentile(times, (50, 99)).tolist()
    found["batch"] = _rate(lambda: [answer(batch) for batch in batches], len(pairs))
    found["clients"] = _rate_of_clients(answer, pairs)
    predict = predict or _in_batches(answer)
    found["file"] = _rate(lambda: predict(pairs), len(pairs))
    print(json.dumps(found))


def _latencies(answer: Answer, pairs: Pairs) -> list[float]:
    """Milliseconds of requests of one pair."""
    for pair in pairs[:_WARMUP]:
        answer([pair])
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    for pair in itertools.cycle(pairs):
        begin = time.perf_counter()
        answer([pair])
        times.append(1000 * (time.perf_counter() - begin))
        if len(times) >= _MIN_REQUESTS and time.perf_counter() >= end:
            return times
    return times


def _rate(run: Callable[[], Any], pairs: int) -> float:
    """Pairs per second of a function that answers so many pairs."""
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + 2 * _SECONDS:
        run()
        count += pairs
    return count / (time.perf_counter() - begin)


def _rate_of_clients(answer: Answer, pairs: Pairs) -> float:
    counts = [0] * _CLIENTS
    begin = time.perf_counter()

    def ask(number: int) -> None:
        while time.perf_counter() < begin + 2 * _SECONDS:
            answer([pairs[(number + _CLIENTS * counts[number]) % len(pairs)]])
            counts[number] += 1

    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(ask, range(_CLIENTS)))
    return sum(counts) / (time.perf_counter() - begin)


def _in_batches(answer: Answer) -> Predict:
    """Answers pairs in batches of similar lengths, several at once."""

    def predict(pairs: Pairs) -> None:
        ordered = sorted(pairs, key=lambda pair: -len(pair[0]) - len(pair[1]))
        batches = [ordered[first : first + _BATCH] for first in range(0, len(ordered), _BATCH)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(answer, batches))

    return predict
