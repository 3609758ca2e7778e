"""What the scripts of peers share that pre-train: the examples, and the seconds to a quality."""

import argparse
import json
import time
from collections.abc import Callable, Iterator

import numpy as np

Arrays = dict[str, np.ndarray]


def arguments(about: str) -> argparse.Namespace:
    """The command line of such a script."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--examples", required=True, help="npz of benchmarks.quality")
    parser.add_argument("--recipe", choices=("ours", "defaults"), required=True)
    parser.add_argument("--minutes", type=float, required=True, help="of training, at the most")
    parser.add_argument("--goals", default="0.25,0.3", help="accuracies to reach")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def examples(path: str) -> tuple[Arrays, Arrays]:
    """The arrays to train on, in the order that they are to be seen in, and those held out."""
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files}
    return tuple(  # type: ignore[return-value]
        {name.split("/")[1]: array for name, array in parts.items() if name.startswith(part)}
        for part in ("train/", "held_out/")
    )


def batches(arrays: Arrays, size: int) -> Iterator[Arrays]:
    """Whole batches in order; from the beginning again after the last."""
    count = len(arrays["input_word_ids"]) // size
    while True:
        for number in range(count):
            rows = slice(number * size, (number + 1) * size)
            yield {name: array[rows] for name, array in arrays.items()}


def rate_at(share: float, peak: float, decay: float = 0.3) -> float:
    """The rate of our recipe after a share of the time: at its peak, then falling to 0."""
    return peak * min(1.0, max(0.0, 1 - share) / decay)


def report_seconds(
    step: Callable[[float], None],
    accuracy: Callable[[], float],
    args: argparse.Namespace,
    every: float = 10.0,
    **described: object,
) -> None:
    """Trains until all goals are reached or the time is over; prints a line of JSON.

    Args:
      step: trains on a batch, given the share of the time that is over.
      accuracy: of masked tokens that were held out; its time does not count.
      args: of the command line.
      every: seconds of training between two evaluations.
      **described: what was trained, for the report.
    """
    goals = [float(goal) for goal in args.goals.split(",")]
    reached: dict[str, float] = {}
    curve, spent, steps, due = [], 0.0, 0, every
    step(0.0)  # compiles, which does not count
    while spent < 60 * args.minutes and len(reached) < len(goals):
        begin = time.perf_counter()
        step(spent / (60 * args.minutes))
        spent += time.perf_counter() - begin
        steps += 1
        if spent >= due or spent >= 60 * args.minutes:
            due = spent + every
            found = accuracy()
            curve.append([round(spent, 1), round(found, 4)])
            for goal in goals:
                if found >= goal:
                    reached.setdefault(f"{goal:g}", round(spent, 1))
    print(json.dumps({**described, "steps": steps, "reached": reached, "curve": curve}))
