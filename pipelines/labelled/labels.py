"""Names for labels that files have as numbers or codes, and checks of labels."""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8
from pipelines.labelled import text_lines
from pipelines.labelled.schema import MultiLabelExample, TextExample, WordsExample

_NUMBERED = re.compile(r"[0-9]+\b")
# The mark of a pair whose annotators disagreed: of SNLI and MNLI; and as Hugging Face has SNLI.
_NO_GOLD, _NO_GOLD_NUMBER = "-", "-1"
_NUMBERS_OF_NLI = frozenset("012")
# Usual names of files with a label, a tab and its name per line.
BESIDE = ("mapping.txt", "label_map.txt", "label_map.tsv", "labels.txt")
_SEPARATOR = re.compile(r"\s*[,;|]\s*")
_NUMBERS = re.compile(r"[0-9]+([,;| ]+[0-9]+)+")
_BRACKETS = re.compile(r"\[.*\]|\{.*\}", re.DOTALL)


def read(entries: Sequence[str], encoding: str = UTF8) -> tuple[dict[str, str], tuple[str, ...]]:
    """Parses --label_map: entries LABEL=NAME, or a file with a name (or label, tab, name) per line.

    Returns names by label; and the names of a file without labels, which count from 0 or 1.

    Raises:
      InputError: an entry has another form, the file is missing or empty, or a label or name is
        repeated.
    """
    if len(entries) == 1 and "=" not in entries[0]:
        return _read_file(entries[0], encoding)
    found: dict[str, str] = {}
    for entry in entries:
        label, equals, name = map(str.strip, entry.partition("="))
        if not (equals and label and name):
            raise InputError(
                f"--label_map: {entry!r} is not of the form LABEL=NAME, such as 1=World; a file "
                "with a name per line is accepted, too."
            )
        if label in found:
            raise InputError(f"--label_map: the label {label!r} is repeated.")
        found[label] = name
    return found, ()


def _read_file(path: str, encoding: str) -> tuple[dict[str, str], tuple[str, ...]]:
    lines = [
        line.strip() for line in text_lines.read_text(path, encoding).splitlines() if line.strip()
    ]
    if not lines:
        raise InputError(f"{path}: has no names; write one per line, in the order of the labels.")
    cells = [[cell.strip() for cell in line.split("\t")] for line in lines]
    numbered = [line for line in lines if _NUMBERED.match(line)]
    width = len(cells[0])
    # After a number and its name, others may follow: an emoji of TweetEval also has a description.
    numbers_first = width > 1 and all(pair[0].isdecimal() for pair in cells)
    if all(len(pair) == width for pair in cells) and (width == 2 or numbers_first):
        labels, names = zip(*(pair[:2] for pair in cells), strict=True)
        if all(map(str.isdecimal, names)) and not all(map(str.isdecimal, labels)):
            labels, names = names, labels  # in reverse order
        _check_distinct(labels, path, "label")
    elif any(len(pair) > 1 for pair in cells) or lines[0][0] in "[{" or len(numbered) == len(lines):
        raise InputError(
            f"{path}: the line {lines[0][:40]!r} is neither a name nor a label, a tab and its "
            "name; write one of these per line, or --label_map=0=NAME,1=NAME,..."
        )
    else:
        labels, names = (), tuple(lines)
    _check_distinct(names, path, "name")
    return (dict(zip(labels, names, strict=True)), ()) if labels else ({}, names)


def beside(path: str, encoding: str = UTF8) -> tuple[str, dict[str, str]] | None:
    """Returns the usual file of label names in the folder of a file, and its names by label."""
    for name in BESIDE:
        file = os.path.join(os.path.dirname(path), name)
        if not files.gfile.exists(file):
            continue
        try:
            names, _ = _read_file(file, encoding)
        except InputError as error:
            logging.warning("Labels keep their names in the data: %s", error)
            continue
        if names:
            return file, names
    return None


def are_named(examples: Iterable[Any], names: Mapping[str, str]) -> bool:
    """Returns whether some labels of examples have names."""
    return any(label in names for example in examples for label in _labels(example))


def _check_distinct(names: Sequence[str], place: str, what: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{place}: the {what} {twice!r} is repeated; each label needs its own name."
        )


def number(names: Sequence[str], examples: Iterable[Any]) -> dict[str, str]:
    """Returns names by label, from names in order: from 0 if a label is 0, otherwise from 1.

    Raises InputError if it is ambiguous: labels are numbers, but neither 0 nor the last.
    """
    there = {label for example in examples for label in _labels(example)}
    first = 0 if "0" in there else 1
    if first and str(len(names)) not in there and any(map(str.isdecimal, there)):
        raise InputError(
            f"--label_map: does the first of {len(names)} names belong to the label 0 or 1? The "
            f"data have neither 0 nor {len(names)}; write a label, a tab and its name per line."
        )
    return {str(index): name for index, name in enumerate(names, first)}


def rename(
    examples: Sequence[Any], names: Mapping[str, str], source: str = "--label_map"
) -> list[Any]:
    """Replaces labels or tags by their names; raises InputError for others. Names are kept.

    Args:
      examples: the examples.
      names: names by label.
      source: where they are from, for messages.
    """
    known = {**{name: name for name in names.values()}, **names}
    for example in examples:
        missing = next((label for label in _labels(example) if label not in known), None)
        if missing is not None:
            other = "" if source == "--label_map" else " If it is for other labels, rename it."
            raise InputError(
                f"{example.place}: the label {missing!r} has no name; {source} names "
                f"{', '.join(names)}.{other}"
            )
    return [_renamed(example, known) for example in examples]


def _renamed(example: Any, known: Mapping[str, str]) -> Any:
    if isinstance(example, TextExample) and example.label is not None:
        return dataclasses.replace(example, label=known[example.label])
    if isinstance(example, MultiLabelExample) and example.labels is not None:
        named = dict.fromkeys(known[name] for name in example.labels)
        return dataclasses.replace(example, labels=tuple(named))
    if isinstance(example, WordsExample) and example.tags is not None:
        return dataclasses.replace(example, tags=tuple(known[tag] for tag in example.tags))
    return example


def _labels(example: Any) -> tuple[str, ...]:
    """Returns the labels of an example that can be named."""
    if isinstance(example, TextExample):
        return () if example.label is None else (example.label,)
    if isinstance(example, MultiLabelExample):
        return example.labels or ()
    if isinstance(example, WordsExample):
        return example.tags or ()
    raise InputError(f"{example.place}: --label_map is for labels and tags; this has neither.")


def without_undecided(examples: Sequence[TextExample], skipped: list[str]) -> list[TextExample]:
    """Removes pairs without a label that annotators agreed on; adds messages to `skipped`."""
    labels = {example.label for example in examples if example.text_b is not None}
    # Next to "+", or to one other label alone, it is a label.
    marks = {_NO_GOLD} if len(labels - {None, _NO_GOLD}) > 1 and "+" not in labels else set()
    if labels - {None, _NO_GOLD, _NO_GOLD_NUMBER} == _NUMBERS_OF_NLI:
        marks.add(_NO_GOLD_NUMBER)
    kept = []
    for example in examples:
        if example.label in marks:
            skipped.append(f"{example.place}: {example.label!r} means that annotators disagreed")
        else:
            kept.append(example)
    return kept


def check_single(examples: Sequence[TextExample]) -> None:
    """Raises InputError if a label is a list, or its parts are labels of other texts."""
    labels = {example.label for example in examples if example.label is not None}
    several = {
        label for label in labels if _NUMBERS.fullmatch(label) or _BRACKETS.fullmatch(label)
    } | {
        label
        for label in labels
        if len(parts := _SEPARATOR.split(label)) > 1 and labels.issuperset(parts)
    }
    found = [example for example in examples if example.label in several]
    if found:
        raise InputError(
            f"{found[0].place}: the label {str(found[0].label)[:60]!r} is a list, as are "
            f"those of {len(found)} of {len(examples)} rows. If a text may have several labels, "
            "give --task=multilabel; otherwise keep the rows of one label, without brackets."
        )
