"""Examples that are drawn from the training data: a dev part, and a smaller training part."""

import itertools
import warnings
from collections import Counter
from typing import Any

import numpy as np
from absl import logging
from sklearn.model_selection import StratifiedGroupKFold

from bert_tf.tasks import Task
from pipelines.common.errors import InputError

_SPLIT_SEED = 0  # decides which examples become dev: the same in every run
_NEIGHBOURS = 20  # sentences in a row that are drawn together where documents are not marked


def with_dev(
    task: Task, parts: dict[str, list[Any]], fraction: float, fold: tuple[int, int] | None = None
) -> dict[str, list[Any]]:
    """Takes dev from the training data, unless it has files of its own.

    Examples with labels that the rest does not have stay in training.

    Args:
      task: the task.
      parts: examples by split.
      fraction: of the training data.
      fold: number of a fold from 0, and the number of folds: dev is that fold.

    Raises:
      InputError: a fold is asked for, and dev has files of its own, or there are too few examples.
    """
    train = parts.pop("all", None) or parts.pop("train", None)
    if train is None:
        return parts
    classes = [task.classes(example) or {""} for example in train]  # none is one, too
    if any(name.startswith("dev") for name in parts):
        if fold:
            raise InputError(
                "--folds: scores parts of the training data in turn, and there is dev data; name a "
                "file of training data alone (--train=FILE, without --data)."
            )
        return {"train": train, **parts}
    held_out = _fold(train, classes, *fold) if fold else _held_out(train, fraction, classes)
    dev = [example for index, example in enumerate(train) if index in held_out]
    rest = [example for index, example in enumerate(train) if index not in held_out]
    return {"train": rest, **({"dev": dev} if dev else {}), **parts}


def _fold(examples: list[Any], classes: list[set[str]], number: int, folds: int) -> set[int]:
    """Indices of a fold of the examples; those of one text or document stay together.

    Labels that the rest lacks stay in training. Where there is one document, such as that of a file
    that marks none, runs of neighbours stay together.
    """
    groups = list(map(_group, examples))
    if len(set(groups)) == 1:
        logging.info("folds share the one text or document that there is.")
        size = min(_NEIGHBOURS, len(examples) // folds) or 1
        groups = [index // size for index in range(len(examples))]
    ids = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    if len(ids) < folds:
        raise InputError(f"--folds={folds}: {len(ids)} texts or documents are too few to split.")
    names = [min(each) for each in classes]  # of several labels, one decides
    if max(Counter(names).values()) < folds:
        raise InputError(
            f"--folds={folds}: no label has so many examples; give fewer folds, so that each has "
            "an example of the most frequent label."
        )
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=_SPLIT_SEED)
    with warnings.catch_warnings():  # of classes with fewer examples than folds
        warnings.simplefilter("ignore", UserWarning)
        parts = list(splitter.split(examples, names, [ids[group] for group in groups]))
    found, total = [], Counter(itertools.chain(*classes))
    for _, held_out in parts:
        own = Counter(itertools.chain(*(classes[n] for n in held_out)))
        lacking = {groups[n] for n in held_out if any(own[x] == total[x] for x in classes[n])}
        found.append({n for n in held_out.tolist() if groups[n] not in lacking})
    if empty := [index + 1 for index, fold in enumerate(found) if not fold]:
        raise InputError(
            f"--folds={folds}: fold {empty[0]} has only texts or documents whose labels are in no "
            "other fold; give fewer folds, or more examples of these labels."
        )
    return found[number]


def drawn(examples: list[Any], count: int | None) -> list[Any]:
    """A random subset, in the order of the examples; a smaller one is part of a larger one."""
    if count is None or count >= len(examples):
        return examples
    drawn = np.random.default_rng(_SPLIT_SEED).permutation(len(examples))[:count]
    return [examples[index] for index in sorted(drawn)]


def _held_out(examples: list[Any], fraction: float, classes: list[set[str]]) -> set[int]:
    """Indices of about that fraction of the examples, and of each class, drawn by group.

    Examples of one context, document, first text or source stay together: otherwise dev would
    score what was memorized in training. Where groups are too large for that, runs of neighbours
    are drawn.
    """
    groups: dict[Any, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(_group(example), []).append(index)
    wanted = round(fraction * len(examples))
    held_out = _draw(list(groups.values()), wanted, classes)
    if len(held_out) < wanted / 2:
        logging.info(
            "dev and training share texts or documents: most of %d examples are of a few.",
            len(examples),
        )
        size, numbers = min(_NEIGHBOURS, wanted), list(range(len(examples)))
        runs = [numbers[begin : begin + size] for begin in range(0, len(numbers), size)]
        held_out = _draw(runs, wanted, classes)
    return held_out


def _draw(groups: list[list[int]], wanted: int, classes: list[set[str]]) -> set[int]:
    """The members of random groups, at most as many as wanted; others have all classes, too.

    Groups whose classes all have less than their share come first, so that a rare label has
    examples in dev, by which its threshold is chosen.
    """
    total = Counter(itertools.chain(*classes))
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(groups))
    drawn: set[int] = set()
    have: Counter[str] = Counter()
    for stratified in (True, False):
        for group in (groups[index] for index in order):
            of_group = Counter(itertools.chain(*(classes[index] for index in group)))
            fits = len(drawn) + len(group) <= wanted and group[0] not in drawn
            fits &= all(have[x] + n < total[x] for x, n in of_group.items())
            full = any(have[x] >= total[x] * wanted / len(classes) for x in of_group)
            if fits and not (stratified and full):
                drawn.update(group)
                have += of_group
    return drawn


def _group(example: Any) -> Any:
    """The text, or the number of the document, that an example may share with others."""
    names = ("context", "document", "text_a", "texts", "source", "key")
    value = next(getattr(example, name) for name in names if hasattr(example, name))
    return value[0] if isinstance(value, tuple) else value
