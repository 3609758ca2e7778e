"""Names for labels that files have as numbers or codes."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.common.errors import InputError
from pipelines.labelled import tables
from pipelines.labelled.schema import TextExample, WordsExample

_NUMBERED = re.compile(r"[0-9]+\b")


def read(entries: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Parses the value of --label_map.

    Args:
      entries: LABEL=NAME each, or one file: of names, a line each, or of a label, a tab and its
        name.

    Returns:
      Names by label; and the names of a file without labels, which count from 0 or from 1.

    Raises:
      InputError: an entry is of another form, the file is missing or has no names, or a label or
        a name stands twice.
    """
    if len(entries) == 1 and "=" not in entries[0]:
        return _read_file(entries[0])
    found: dict[str, str] = {}
    for entry in entries:
        label, equals, name = map(str.strip, entry.partition("="))
        if not (equals and label and name):
            raise InputError(
                f"--label_map: {entry!r} is not of the form LABEL=NAME, such as 1=World; a file of "
                "names, a line each, will do too."
            )
        if label in found:
            raise InputError(f"--label_map: the label {label!r} stands twice.")
        found[label] = name
    return found, ()


def _read_file(path: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The names of a file by label, or in order; see `read`."""
    lines = [line.strip() for line in tables.read_text(path).splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path}: has no names; write one a line, in the order of the labels.")
    cells = [[cell.strip() for cell in line.split("\t")] for line in lines]
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if all(len(pair) == 2 for pair in cells):
        labels, names = zip(*cells, strict=True)
        if all(map(str.isdecimal, names)) and not all(map(str.isdecimal, labels)):
            labels, names = names, labels  # written the other way round
        _check_distinct(labels, path, "label")
    elif any(len(pair) > 1 for pair in cells) or lines[0][0] in "[{" or len(numbered) == len(lines):
        raise InputError(
            f"{path}: the line {lines[0][:40]!r} is neither a name nor a label, a tab and its "
            "name; write one of these a line, or --label_map=0=NAME,1=NAME,..."
        )
    else:
        labels, names = (), tuple(lines)
    _check_distinct(names, path, "name")
    return (dict(zip(labels, names, strict=True)), ()) if labels else ({}, names)


def _check_distinct(names: Sequence[str], place: str, what: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{place}: the {what} {twice!r} stands twice; labels need their own names."
        )


def number(names: Sequence[str], examples: Iterable[Any]) -> dict[str, str]:
    """Names by label, of names in order: labels count from 0 if a label is 0, else from 1.

    Raises:
      InputError: they may count from either: labels are numbers, but neither 0 nor the last.
    """
    there = {label for example in examples for label in _labels(example)}
    first = 0 if "0" in there else 1
    if first and str(len(names)) not in there and any(map(str.isdecimal, there)):
        raise InputError(
            f"--label_map: of {len(names)} names, is the first one that of the label 0 or 1? The "
            f"data have neither 0 nor {len(names)}; write a label, a tab and its name a line."
        )
    return {str(index): name for index, name in enumerate(names, first)}


def rename(examples: Sequence[Any], names: Mapping[str, str]) -> list[Any]:
    """Gives the labels, or tags, of examples their names; what has its name keeps it.

    Raises:
      InputError: a label has no name, or examples are of a shape that has no labels to name.
    """
    known = {**{name: name for name in names.values()}, **names}
    return [_renamed(example, known, names) for example in examples]


def _renamed(example: Any, known: Mapping[str, str], names: Mapping[str, str]) -> Any:
    missing = next((label for label in _labels(example) if label not in known), None)
    if missing is not None:
        raise InputError(
            f"{example.place}: the label {missing!r} has no name; --label_map names "
            f"{', '.join(names)}."
        )
    if isinstance(example, TextExample) and example.label is not None:
        return dataclasses.replace(example, label=known[example.label])
    if isinstance(example, WordsExample) and example.tags is not None:
        return dataclasses.replace(example, tags=tuple(known[tag] for tag in example.tags))
    return example


def _labels(example: Any) -> tuple[str, ...]:
    """The labels of an example that can be named."""
    if isinstance(example, TextExample):
        return () if example.label is None else (example.label,)
    if isinstance(example, WordsExample):
        return example.tags or ()
    raise InputError(f"{example.place}: --label_map is for labels and tags; this has neither.")


# How sets of premise and hypothesis mark that annotators did not agree: among which other labels.
_NO_GOLD = {
    "-": frozenset({"entailment", "contradiction"}),  # SNLI and MNLI
    "-1": frozenset({"0", "1", "2"}),  # SNLI as Hugging Face has it
}
_SEPARATOR = re.compile(r"\s*[,;|]\s*")
_NUMBERS = re.compile(r"[0-9]+([,;| ]+[0-9]+)+")
_BRACKETS = re.compile(r"\[.*\]|\{.*\}", re.DOTALL)


def without_undecided(examples: Sequence[TextExample], skipped: list[str]) -> list[TextExample]:
    """Leaves out the pairs of texts that annotators gave no common label.

    Args:
      examples: of a file.
      skipped: gets a line for each that is left out.
    """
    labels = {example.label for example in examples if example.text_b is not None}
    marks = {mark for mark, others in _NO_GOLD.items() if mark in labels and others <= labels}
    kept = []
    for example in examples:
        if example.label in marks:
            skipped.append(f"{example.place}: {example.label!r} says that annotators disagreed")
        else:
            kept.append(example)
    return kept


def check_single(examples: Sequence[TextExample]) -> None:
    """Checks that no text has several labels.

    Raises:
      InputError: a label is a list, or parts of it are labels of other texts.
    """
    labels = {example.label for example in examples if example.label is not None}
    several = {label for label in labels if _is_list(label)} | {
        label
        for label in labels
        if len(parts := _SEPARATOR.split(label)) > 1 and labels.issuperset(parts)
    }
    found = [example for example in examples if example.label in several]
    if found:
        raise InputError(
            f"{found[0].place}: the label {str(found[0].label)[:60]!r} has the form of several, as "
            f"have {len(found)} of {len(examples)} rows; a text has one label here: keep the rows "
            "of one label, and write it without brackets."
        )


def _is_list(label: str) -> bool:
    return bool(_NUMBERS.fullmatch(label) or _BRACKETS.fullmatch(label))
