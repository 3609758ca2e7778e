"""Examples that are drawn from the training data: a dev part, and a smaller training part."""

from typing import Any

import numpy as np
from absl import logging

from bert_tf.tasks import Task

_SPLIT_SEED = 0  # decides which examples become dev: the same in every run
_NEIGHBOURS = 20  # sentences in a row that are drawn together where documents are not marked


def with_dev(task: Task, parts: dict[str, list[Any]], fraction: float) -> dict[str, list[Any]]:
    """Takes dev from the training data, unless it has files of its own.

    Examples with labels that the rest does not have stay in training.
    """
    train = parts.pop("all", None) or parts.pop("train", None)
    if train is None:
        return parts
    if any(name.startswith("dev") for name in parts):
        return {"train": train, **parts}
    held_out = _held_out(train, fraction)
    kept = set().union(*(task.classes(x) for i, x in enumerate(train) if i not in held_out))
    held_out = {index for index in held_out if task.classes(train[index]) <= kept}
    dev = [example for index, example in enumerate(train) if index in held_out]
    rest = [example for index, example in enumerate(train) if index not in held_out]
    return {"train": rest, **({"dev": dev} if dev else {}), **parts}


def drawn(examples: list[Any], count: int | None) -> list[Any]:
    """A random subset, in the order of the examples; a smaller one is part of a larger one."""
    if count is None or count >= len(examples):
        return examples
    drawn = np.random.default_rng(_SPLIT_SEED).permutation(len(examples))[:count]
    return [examples[index] for index in sorted(drawn)]


def _held_out(examples: list[Any], fraction: float) -> set[int]:
    """Indices of about that fraction of the examples, drawn by group.

    Examples of one context, document, first text or source stay together: otherwise dev would
    score what was memorized in training. Where groups are too large for that, runs of neighbours
    are drawn.
    """
    wanted = round(fraction * len(examples))
    groups: dict[Any, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(_group(example), []).append(index)
    held_out = _draw(list(groups.values()), wanted)
    if len(held_out) < wanted / 2:
        logging.info(
            "dev and training share texts or documents: most of %d examples are of a few.",
            len(examples),
        )
        size, numbers = min(_NEIGHBOURS, wanted), list(range(len(examples)))
        runs = [numbers[begin : begin + size] for begin in range(0, len(numbers), size)]
        held_out = _draw(runs, wanted)
    return held_out


def _draw(groups: list[list[int]], wanted: int) -> set[int]:
    """The members of random groups, at most as many as wanted."""
    drawn: set[int] = set()
    for index in np.random.default_rng(_SPLIT_SEED).permutation(len(groups)):
        if len(drawn) + len(groups[index]) <= wanted:
            drawn.update(groups[index])
    return drawn


def _group(example: Any) -> Any:
    """The text, or the number of the document, that an example may share with others."""
    names = ("context", "document", "text_a", "texts", "source", "key")
    value = next(getattr(example, name) for name in names if hasattr(example, name))
    return value[0] if isinstance(value, tuple) else value
