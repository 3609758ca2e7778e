"""Timing of training steps and tokenizers, for our scripts and those of the peers.

A batch of a training step has 32 sequences of 128 random tokens, with 20 masked tokens each and a
next-sentence label. The model has 6 layers of width 384, dropout of 0.1 and AdamW; gradients are
clipped to norm 1.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

VOCABULARY, BATCH, LENGTH, PREDICTIONS = 30522, 32, 128, 20
LAYERS, WIDTH, HEADS = 6, 384, 12
_WARMUP, _STEPS = 3, 12
_TEXTS, PASSES = 4096, 3  # texts at a time, and passes over all, of a tokenizer


def parser(about: str, *precisions: str) -> argparse.ArgumentParser:
    """The arguments of such a script."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--precision", choices=precisions, default=precisions[0])
    return made


def random_batch(
    seed: int, batch_size: int = BATCH, length: int = LENGTH, predictions: int = PREDICTIONS
) -> dict[str, np.ndarray]:
    """A batch of int32 arrays.

    `ids`, `mask` and `segments` are [batch, length], `positions` and `labels` [batch, predictions],
    `next_sentence` is [batch].
    """
    rng = np.random.default_rng(seed)
    order = 1 + rng.random((batch_size, length - 1)).argsort(axis=1)
    batch = {
        "ids": rng.integers(5, VOCABULARY, (batch_size, length)),
        "mask": np.ones((batch_size, length)),
        "segments": np.tile(np.arange(length) >= length // 2, (batch_size, 1)),
        "positions": np.sort(order[:, :predictions], axis=1),
        "labels": rng.integers(5, VOCABULARY, (batch_size, predictions)),
        "next_sentence": rng.integers(0, 2, batch_size),
    }
    return {name: value.astype(np.int32) for name, value in batch.items()}


def report_steps(step: Callable[[], float], **described: str) -> None:
    """Times a training step and prints one JSON object as the last line of stdout.

    Args:
      step: makes one step and returns its loss.
      **described: what was timed, for the report.
    """
    seconds = []
    for _ in range(_WARMUP + _STEPS):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    seconds = seconds[_WARMUP:]
    print("step seconds:", *(f"{value:.3f}" for value in seconds), file=sys.stderr)
    print("last loss:", float(loss), file=sys.stderr)
    median = statistics.median(seconds)
    measured = {"step_seconds": round(median, 4), "sequences_per_second": round(BATCH / median, 2)}
    print(json.dumps({**described, **measured}))


def report_tokenizer(
    tokenize: Callable[[Sequence[Any]], Any], texts: Sequence[Any], passes: int = PASSES
) -> None:
    """Times a tokenizer and prints its megabytes of UTF-8 per second as JSON, in the best pass.

    Args:
      tokenize: tokenizes a batch of texts.
      texts: all texts, as str or UTF-8.
      passes: over all texts; before them, the first few texts are tokenized.
    """
    size = sum(len(text.encode() if isinstance(text, str) else text) for text in texts)
    tokenize(texts[:_TEXTS])
    seconds = []
    for _ in range(passes):
        start = time.perf_counter()
        for first in range(0, len(texts), _TEXTS):
            tokenize(texts[first : first + _TEXTS])
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"megabytes_per_second": size / 1e6 / min(seconds)}))
