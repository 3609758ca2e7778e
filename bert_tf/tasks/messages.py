"""What is told of examples and labels, and checked, whatever the shape of the task."""

import re
from collections.abc import Mapping, Sequence

from absl import logging

from pipelines.common.errors import InputError

_FEW_LABELS = 20
_FEW_EXAMPLES = 3  # of a label, on average
_MANY_LABELS = 200


def file_of(place: str) -> str:
    """The path in the place of an example: that before the line, or the article, of the file."""
    return re.split(r": (?=line |article )", place)[0]


def check_labels(counts: Mapping[str, int], place: str, role: str, named: bool = False) -> None:
    """Checks that labels are labels, not texts or numbers of another column.

    Args:
      counts: how often each occurs in the training data.
      place: of the first example.
      role: of their column, "label" or "tags".
      named: whether the user named that column, and so may have few examples of each label.

    Raises:
      InputError: most of many occur once, or they have few examples each, or are fractions.
    """
    once = [label for label, count in counts.items() if count == 1]
    if len(counts) > _FEW_LABELS and len(once) > len(counts) / 2:
        raise InputError(
            f"{file_of(place)}: of {len(counts)} different {role.removesuffix('s')}s {len(once)} "
            f"stand once, such as {shorten(once[0], 60)!r}: is that the column of the {role}? Name "
            f"it with --columns={role}=COLUMN; a column of numbers to predict is --task=regression."
        )
    if named or len(counts) <= _FEW_LABELS:
        return
    few = sum(counts.values()) < _FEW_EXAMPLES * len(counts)
    numbers = all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", label) for label in counts)
    if few or (numbers and any("." in label for label in counts)):
        raise InputError(
            f"{file_of(place)}: {sum(counts.values())} examples have {len(counts)} different "
            f"{role.removesuffix('s')}s, such as {shorten(min(counts), 60)!r}. If these are what "
            f"is to be learned, say so with --columns={role}=COLUMN; a column of numbers to "
            "predict is --task=regression."
        )
    if len(counts) >= _MANY_LABELS:
        logging.warning(
            "%s: has %d different %ss; if these are not what is to be learned, name the column "
            "with --columns=%s=COLUMN.",
            file_of(place),
            len(counts),
            role.removesuffix("s"),
            role,
        )


def check_known(label: str, known: Sequence[str], place: str, role: str) -> None:
    """Checks that a label occurs in the training data.

    Raises:
      InputError: it does not; where one of both is a number, that labels can be given names.
    """
    if not known or label in known:
        return
    remedy = "Mend the file, or add such examples to the training data."
    if label.isdecimal() != known[0].isdecimal():
        numbers = [label] if label.isdecimal() else known
        example = ",".join(f"{number}=NAME" for number in numbers[:2])
        remedy = f"Fine-tune with names for numbers: --label_map={example},... or --label_map=FILE."
    raise InputError(
        f"{place}: the {role} {label!r} does not occur in the training data, which has "
        f"{listed(list(map(repr, known)))}. {remedy}"
    )


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names with commas between them, the first ones of many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")


def shorten(text: str, limit: int = 300) -> str:
    """A text, cut if it is long, for reports."""
    return text if len(text) <= limit else f"{text[:limit]}…"
