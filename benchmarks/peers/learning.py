"""Examples, our learning rate and the time to a quality, for the peers' pre-training scripts."""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator

import numpy as np

Arrays = dict[str, np.ndarray]
# Of our recipe: sequences, and the peak of the learning rate; that of Muon is twice as high.
BATCH, RATE = 32, 1.4e-3
_WARMUP, _DECAY = 200, 0.3  # steps, and fraction of the time
_EVALUATED = 256  # sequences at a time
_EVERY = 10.0  # seconds of training between two evaluations


def arguments(about: str) -> argparse.Namespace:
    """The command line of such a script."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--examples", required=True, help="npz of benchmarks.quality")
    parser.add_argument("--recipe", choices=("ours", "defaults"), required=True)
    parser.add_argument("--minutes", type=float, required=True, help="maximum, of training")
    parser.add_argument("--goals", default="0.25,0.3", help="accuracies to reach")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def examples(path: str) -> tuple[Arrays, Arrays]:
    """Arrays of the training examples, in their order, and of the held-out ones."""
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files}
    return tuple(  # type: ignore[return-value]
        {name.split("/")[1]: array for name, array in parts.items() if name.startswith(part)}
        for part in ("train/", "held_out/")
    )


def batches(arrays: Arrays, size: int) -> Iterator[Arrays]:
    """Full batches in order, over and over."""
    count = len(arrays["input_word_ids"]) // size
    for number in itertools.cycle(range(count)):
        rows = slice(number * size, (number + 1) * size)
        yield {name: array[rows] for name, array in arrays.items()}


def rate_at(fraction: float, number: int, peak: float) -> float:
    """The learning rate of our recipe.

    Args:
      fraction: the part of the time that is over.
      number: of the step, from 1.
      peak: the highest rate; linear warm-up leads to it, linear decay from it to 0.
    """
    return peak * min(1.0, max(0.0, 1 - fraction) / _DECAY) * min(1.0, number / _WARMUP)


def report_seconds(
    step: Callable[[float, int], None],
    count_right: Callable[[Arrays], tuple[int, int]],
    held_out: Arrays,
    args: argparse.Namespace,
    **described: str,
) -> None:
    """Trains until all goals are reached or the time is over; prints a line of JSON.

    Args:
      step: trains on a batch, given the fraction of the time that is over, and its number from 1.
      count_right: returns how many masked tokens of a batch are predicted correctly, and how many
        there are. Its time does not count.
      held_out: the examples for that.
      args: the command line.
      **described: what was trained, for the report.
    """

    def accuracy() -> float:
        right = asked = 0
        for first in range(0, len(held_out["input_word_ids"]), _EVALUATED):
            rows = slice(first, first + _EVALUATED)
            found, count = count_right({name: array[rows] for name, array in held_out.items()})
            right, asked = right + found, asked + count
        return right / asked

    goals = [float(goal) for goal in args.goals.split(",")]
    reached: dict[str, float] = {}
    curve, spent, steps, due = [], 0.0, 0, _EVERY
    step(0.0, 1)  # compiles, which does not count
    while spent < 60 * args.minutes and len(reached) < len(goals):
        begin = time.perf_counter()
        step(spent / (60 * args.minutes), steps + 2)
        spent += time.perf_counter() - begin
        steps += 1
        if spent >= due or spent >= 60 * args.minutes:
            due = spent + _EVERY
            found = accuracy()
            curve.append([round(spent, 1), round(found, 4)])
            for goal in goals:
                if found >= goal:
                    reached.setdefault(f"{goal:g}", round(spent, 1))
    described |= {"recipe": args.recipe, "precision": args.precision}
    print(json.dumps({**described, "steps": steps, "reached": reached, "curve": curve}))
