"""Writes the built-in corpus: the documentation strings of the installed Python packages.

python -m bert_tf make-corpus --output=corpus/builtin.txt
"""

import pipelines.common.quiet_start  # noqa: F401  isort: skip

from typing import Any

from pipelines.common import command_line, files, json_files, locks
from pipelines.common.errors import InputError
from pipelines.corpus import builtin

_MARK = {"made_by": "pipelines.make_corpus"}
_OUTPUT = command_line.define_path("output", None, "File to write.", required=True)


def _mark(path: str) -> None:
    """Writes the file that says whose work the corpus is.

    Raises:
      InputError: a file of another is there.
    """
    if files.gfile.exists(path) and json_files.read(path, Any) != _MARK:
        raise InputError(f"{path}: is there, and is not of a corpus; name another --output.")
    json_files.write(path, _MARK)


def main() -> None:
    """Writes the corpus unless it is there."""
    path = _OUTPUT.value
    if files.gfile.exists(path):
        print(f"{path}: is there; nothing to do.")
        return
    with locks.held_file(files.partial_of(path), path):
        _mark(f"{path}.json")
        counts = builtin.write(path)
    print(
        f"{path}: {counts['documents']:,} documents, {counts['sentences']:,} sentences, "
        f"{counts['bytes'] / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    command_line.run(main)
