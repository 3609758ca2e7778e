"""Labels that are not one class a text: none that annotators agreed on, or several."""

import re
from collections.abc import Sequence

from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample

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
