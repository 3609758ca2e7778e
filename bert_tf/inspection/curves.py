"""The curves of a run, thinned to what a page shows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.inspection.look import rounded
from bert_tf.training.progress import Point

_MOST_POINTS = 600  # of a curve


def of_history(points: Sequence[Point]) -> dict[str, Any]:
    """The curves of a history as JSON values.

    Of long histories, each point is the mean of as many neighbouring ones as it takes.

    Returns:
      `steps`, the last one of each point; `together`, how many points were made one; `values` of
      each curve by name, None where there is none.
    """
    together = max(1, math.ceil(len(points) / _MOST_POINTS))
    groups = [points[start : start + together] for start in range(0, len(points), together)]
    names = points[0].curves() if points else ()
    return {
        "steps": [group[-1].step for group in groups],
        "together": together,
        "values": {
            name: [_mean([point.curves().get(name, math.nan) for point in g]) for g in groups]
            for name in names
        },
    }


def of_evaluations(found: Mapping[int, Mapping[str, float | None]]) -> dict[str, Any]:
    """Metrics of held-out examples by step, in the form of `of_history`."""
    steps = sorted(found)
    names = dict.fromkeys(name for step in steps for name in found[step])
    return {
        "steps": steps,
        "together": 1,
        "values": {name: [rounded(found[step].get(name)) for step in steps] for name in names},
    }


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return rounded(float(np.mean(known))) if known else None
