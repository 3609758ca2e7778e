"""The text of --help: what a command does, with examples, and its flags by group."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from absl import flags

from pipelines.common import flag_types

_NARROWEST, _WIDEST = 60, 100  # columns
_NO_TERMINAL = (96, 24)  # columns and lines if the output is a file
_MARGIN = " " * 6
_EVERYWHERE = (
    "--flagfile=FILE reads flags from a file, one on each line, with # before comments; flags on "
    "the command line override them. In names, - and _ are the same."
)


def show(text: str) -> None:
    """Prints a text; the reader may stop early, as `head` does."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width() -> int:
    """Columns of the terminal, within reasonable limits."""
    return min(max(shutil.get_terminal_size(_NO_TERMINAL).columns, _NARROWEST), _WIDEST)


def page(program: str, about: str, known: Iterable[flags.Flag], columns: int) -> str:
    """The help of a command.

    Args:
      program: The command, as the user calls it.
      about: What the command does: paragraphs, and indented examples.
      known: The flags of the command.
      columns: Maximum width of all lines but the examples.
    """
    parts = [f"usage: {program} [--flag=value ...]"]
    for part in about.strip().split("\n\n"):
        parts.append(part.rstrip() if part.startswith(" ") else _filled(part, columns))
    found = sorted(known, key=flag_types.is_required, reverse=True)  # the others in their order
    for heading in flag_types.Group:
        entries = [_entry(each, columns) for each in found if flag_types.group_of(each) is heading]
        if entries:
            parts.append("\n".join([f"{heading}:", *entries]))
    return "\n\n".join([*parts, _filled(_EVERYWHERE, columns)])


def _entry(flag: flags.Flag, columns: int) -> str:
    """A flag with its placeholder, default and range, and below them its text."""
    usual = default(flag)
    notes = [
        "required" if flag_types.is_required(flag) else "",
        f"default: {usual}" if usual else "",
        getattr(flag.parser, "range", ""),
    ]
    note = "; ".join(filter(None, notes))
    note = f"  ({note})" if note else ""
    name, about = flag.name, flag.help
    value = flag_types.placeholder(flag)
    if "|" in value and len(f"  --{name}={value}{note}") > columns:
        value, about = "NAME", f"{about} One of {value.replace('|', ', ')}."
    form = f"--[no_]{name}" if flag.boolean else f"--{name}={value}"
    parts = (f"  {form}{note}", f"{_MARGIN}{about}")
    return "\n".join(_filled(part, columns, _MARGIN) for part in parts)


def _filled(text: str, columns: int, margin: str = "") -> str:
    return textwrap.fill(text, columns, subsequent_indent=margin, break_on_hyphens=False)


def default(flag: flags.Flag) -> str:
    """The default of a flag as it would be written; "" if it has none."""
    value: Any = flag.default
    if value is None:
        return ""
    if flag.boolean:
        return f"--{flag.name}" if value else f"--no_{flag.name}"
    parts = value if isinstance(value, list | tuple) else [value]
    return ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts)
