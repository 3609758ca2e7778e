"""The text of --help: what a command does, with examples, and its flags by group."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from pipelines.common.flag_types import Flag, Group

_NARROWEST, _WIDEST = 60, 100  # columns
_MARGIN = " " * 6
_EVERYWHERE = (
    "--flagfile=FILE reads flags from a file, one on each line, with # before comments; flags on "
    "the command line override them. In names, - and _ are the same."
)


def show(text: str) -> None:
    """Prints a text; the reader may stop early."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Drops what is printed from now on, as its reader stopped early, like `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def page(program: str, about: str, known: Iterable[Flag]) -> str:
    """The help of a command, as wide as the terminal within reasonable limits.

    Args:
      program: The command, as the user calls it.
      about: What the command does: paragraphs, and indented examples.
      known: The flags of the command.
    """
    terminal = shutil.get_terminal_size((96, 24)).columns
    columns = min(max(terminal, _NARROWEST), _WIDEST)
    parts = [f"usage: {program} [--flag=value ...]"]
    for part in about.strip().split("\n\n"):
        parts.append(part.rstrip() if part.startswith(" ") else _filled(part, columns))
    found = sorted(known, key=lambda flag: not flag.required)  # the others in their order
    for heading in Group:
        if entries := [_entry(flag, columns) for flag in found if flag.group is heading]:
            parts.append("\n".join([f"{heading}:", *entries]))
    return "\n\n".join([*parts, _filled(_EVERYWHERE, columns)])


def _entry(flag: Flag, columns: int) -> str:
    """A flag with its placeholder, default and range, and below them its text."""
    usual = default(flag)
    notes = ("required" if flag.required else "", usual and f"default: {usual}", flag.parser.range)
    note = "; ".join(filter(None, notes))
    note = f"  ({note})" if note else ""
    value, about = flag.parser.placeholder, flag.help
    if "|" in value and len(f"  --{flag.name}={value}{note}") > columns:
        value, about = "NAME", f"{about} One of {value.replace('|', ', ')}."
    form = f"--[no_]{flag.name}" if flag.boolean else f"--{flag.name}={value}"
    parts = (f"  {form}{note}", f"{_MARGIN}{about}")
    return "\n".join(_filled(part, columns, _MARGIN) for part in parts)


def _filled(text: str, columns: int, margin: str = "") -> str:
    return textwrap.fill(text, columns, subsequent_indent=margin, break_on_hyphens=False)


def default(flag: Flag) -> str:
    """The default of a flag as it would be written; "" if it has none."""
    value: Any = flag.default
    if value in (None, {}):
        return ""
    if flag.boolean:
        return f"--{flag.name}" if value else f"--no_{flag.name}"
    parts = value if isinstance(value, list | tuple) else [value]
    return ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts)
