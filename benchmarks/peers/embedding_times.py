"""Times texts to vectors, for the scripts of all engines."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_SINGLE = 200  # texts that are asked for one by one
_WARMUP = 64


def report(embed: Callable[[list[str]], Any], texts_path: str, vectors_path: str) -> None:
    """Embeds a file, then some of its texts alone; prints a line of JSON.

    It has `file`, texts per second, and `single`, the median milliseconds of one text.

    Args:
      embed: returns float32 [texts, width] vectors of norm 1.
      texts_path: a text on each line.
      vectors_path: .npy file for the vectors.
    """
    texts = Path(texts_path).read_text(encoding="utf-8").split("\n")[:-1]
    embed(texts[:_WARMUP])
    start = time.perf_counter()
    np.save(vectors_path, embed(texts))
    rate = len(texts) / (time.perf_counter() - start)
    for text in texts[:_WARMUP]:
        embed([text])
    times = []
    for text in texts[:_SINGLE]:
        start = time.perf_counter()
        embed([text])
        times.append(1000 * (time.perf_counter() - start))
    print(json.dumps({"file": rate, "single": float(np.median(times))}))
