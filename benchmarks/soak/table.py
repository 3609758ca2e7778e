"""The record of a run, and the table of the README that is written from it."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.common import files, json_files

_README = Path(__file__).parents[2] / "README.md"
_RECORD = "benchmarks/soak.json"  # the record that the README shows
_BEGIN, _END = "<!-- soak: begin -->", "<!-- soak: end -->"
# By category: the fault, the name of the count of attempts, and the results, with their counts.
_ROWS = {
    "kills": ("SIGKILL at random moments and while files are written, then the same command again",
              "kills", "ends with the same bits; no partially written file"),
    "corruptions": ("bytes of outputs flipped, cut, zeroed, removed", "corruptions",
                    "{reported:,} reported by an error that names the file or its folder; "
                    "{harmless:,} harmless; {not detected, in a format without checksums:,} not "
                    "noticed, in formats without checksums"),
    "disks": ("full disks, lost folders, two commands on one output", "tries",
              "one clear line; the next run ends with the same bits"),
    "requests": ("requests of 32 clients, of mixed lengths", "requests",
                 "the same answers as alone; constant memory"),
    "mutations": ("tables, corpora, vectors, models and archives of other programs with changed "
                  "bytes and sizes", "files",
                  "{reported:,} reported by an error that names the file; {read:,} read; at most "
                  "10 s and 1 GiB for each"),
    "messages": ("requests over HTTP and gRPC with changed bytes and sizes", "messages",
                 "{refused:,} refused; {answered:,} answered; {closed:,} incomplete, so that the "
                 "connection ended; others are answered meanwhile"),
}  # fmt: skip


def write(path: str, about: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds results to the record, and to the table if it is the record of the README.

    Categories without new results keep those of their last run.

    Args:
      path: file of the record.
      about: date, machine and settings of the run.
      results: counts and failures by category.
    """
    known = json_files.read_whole(path, dict[str, Any]) or {}
    record = {**known, **{name: {**about, **result} for name, result in results.items()}}
    record = {name: record[name] for name in _ROWS if name in record}
    json_files.write(path, record)
    if Path(path).resolve() == (_README.parent / _RECORD).resolve():
        text = _README.read_text("utf-8")
        files.write_text(str(_README), with_table(text, record))


def with_table(text: str, record: Mapping[str, Mapping[str, Any]]) -> str:
    """A document with the table of a record between its marks.

    Raises:
      ValueError: the document has no marks.
    """
    before, mark, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not mark or not end:
        raise ValueError(f"the document lacks {_BEGIN} and {_END}.")
    lines = ["| fault | times | result | failed |", "|---|---|---|---|"]
    for name, result in record.items():
        fault, count, template = _ROWS[name]
        counts = Counter({key: value for key, value in result.items() if isinstance(value, int)})
        found, failed = template.format_map(counts), len(result["failures"])
        lines.append(f"| {fault} | {counts[count]:,} | {found} | {failed} |")
    table = "\n".join(lines)
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"
