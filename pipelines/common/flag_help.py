"""What --help prints: what a command does, with examples, and its flags by group."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from absl import flags

from pipelines.common import flag_groups, flag_types

_NARROWEST, _WIDEST = 60, 100  # columns
_NO_TERMINAL = (96, 24)  # columns and lines where the output is a file
_MARGIN = " " * 6
_EVERYWHERE = (
    "Flags may stand in a file, one a line, with # before comments: --flagfile=FILE; those after "
    "it override those in it. In names, - and _ are the same."
)


def show(text: str) -> None:
    """Prints a text, as much of it as who reads it wants: `head` stops early."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width() -> int:
    """How wide help is to be: as wide as the terminal, within reason."""
    return min(max(shutil.get_terminal_size(_NO_TERMINAL).columns, _NARROWEST), _WIDEST)


def page(program: str, about: str, known: Iterable[flags.Flag], columns: int) -> str:
    """The help of a command.

    Args:
      program: the command, as the user calls it.
      about: what it does: paragraphs, and examples that are indented.
      known: its flags.
      columns: how wide lines may be; those of examples stay as they are.
    """
    parts = [f"usage: {program} [--flag=value ...]", *_paragraphs(about, columns)]
    found = list(known)
    for heading in flag_groups.Group:
        group = [flag for flag in found if flag_groups.group_of(flag) is heading]
        group.sort(key=flag_types.is_required, reverse=True)  # the others in their order
        if group:
            entries = (_entry(flag, columns) for flag in group)
            parts.append("\n".join([f"{heading}:", *entries]))
    parts.append(_filled(_EVERYWHERE, columns))
    return "\n\n".join(parts)


def _paragraphs(about: str, columns: int) -> list[str]:
    """Paragraphs, wrapped anew; those that are indented stay as they are."""
    return [
        part.rstrip() if part.startswith(" ") else _filled(part, columns)
        for part in about.strip().split("\n\n")
    ]


def _entry(flag: flags.Flag, columns: int) -> str:
    """A flag with what may be given, its default and its range; below, what it means."""
    notes = ["required"] if flag_types.is_required(flag) else []
    default = _default(flag)
    if default:
        notes.append(f"default: {default}")
    notes += filter(None, [getattr(flag.parser, "range", "")])
    shown, about = flag_types.placeholder(flag), flag.help
    note = f"  ({'; '.join(notes)})" if notes else ""
    if "|" in shown and len(f"  {_form(flag, shown)}{note}") > columns:
        choices = shown.split("|")
        shown, about = "NAME", f"{about} One of {', '.join(choices)}."
    parts = (f"  {_form(flag, shown)}{note}", f"{_MARGIN}{about}")
    return "\n".join(_filled(part, columns, _MARGIN) for part in parts)


def _filled(text: str, columns: int, margin: str = "") -> str:
    """A text in lines; the margin is that of all but the first one."""
    return textwrap.fill(text, columns, subsequent_indent=margin, break_on_hyphens=False)


def _form(flag: flags.Flag, value: str) -> str:
    """A flag as it is written, with a placeholder for its value."""
    return f"--[no_]{flag.name}" if flag.boolean else f"--{flag.name}={value}"


def _default(flag: flags.Flag) -> str:
    """The default of a flag as it is written; "" where there is none."""
    value: Any = flag.default
    if value is None:
        return ""
    if flag.boolean:
        return f"--{flag.name}" if value else f"--no_{flag.name}"
    parts = value if isinstance(value, list | tuple) else [value]
    return ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts)
