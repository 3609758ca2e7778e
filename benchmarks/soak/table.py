"""The record of a run, and the table of the README that is made of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.common import files, json_files

_README = Path(__file__).parents[2] / "README.md"
_OURS = "benchmarks/soak.json"  # that whose figures the README has
_BEGIN, _END = "<!-- soak: begin -->", "<!-- soak: end -->"
# By room: what was done, what of its counts says how often, and what must have come of it.
_ROWS = {
    "kills": ("SIGKILL at random moments, then the same command again", "kills",
              "ends with the same bits; no half-written file"),
    "corruptions": ("bytes of outputs flipped, cut, zeroed, removed", "corruptions",
                    "named in a line, or harmless"),
    "inputs": ("files and flags, random or mutated", "inputs", "right, or one clear line"),
    "bodies": ("bodies of requests, likewise", "inputs", "an answer, or a refusal in a line"),
    "disks": ("full disks, lost folders, two commands on one output", "tries",
              "one clear line; the next run ends with the same bits"),
    "requests": ("requests of 32 clients, of mixed lengths", "requests",
                 "answers as alone; memory stays"),
}  # fmt: skip


def write(path: str, about: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes the record; the table, too, where it is the record of the README.

    Rooms that were not tried this time stay as they are in the record, with the run that they
    are of.

    Args:
      path: of the record.
      about: when and where the rooms were tried.
      results: counts and failures by room.
    """
    known = json_files.read_whole(path, dict[str, Any]) or {}
    record = {**known, **{name: {**about, **result} for name, result in results.items()}}
    record = {name: record[name] for name in _ROWS if name in record}
    json_files.write(path, record)
    if Path(path).resolve() == (_README.parent / _OURS).resolve():
        text = _README.read_text("utf-8")
        files.write_text(str(_README), with_table(text, record))


def with_table(text: str, record: Mapping[str, Mapping[str, Any]]) -> str:
    """A document with the table of a record between its marks.

    Raises:
      ValueError: it has no marks.
    """
    before, mark, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not mark or not end:
        raise ValueError(f"the document lacks {_BEGIN} and {_END}.")
    return f"{before}{_BEGIN}\n{render(record)}\n{_END}{after}"


def render(record: Mapping[str, Mapping[str, Any]]) -> str:
    """The table: what was tried, how often, what must come of it, and how often it did not."""
    lines = ["| tried | times | what must come of it | failed |", "|---|---|---|---|"]
    for name, result in record.items():
        what, count, must = _ROWS[name]
        failed = len(result["failures"])
        lines.append(f"| {what} | {result.get(count, 0):,} | {must} | {failed} |")
    return "\n".join(lines)
