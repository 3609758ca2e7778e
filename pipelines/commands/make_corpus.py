"""Writes the built-in corpus: the documentation strings of the installed Python packages.

  bert-tf make-corpus --output=corpus/builtin.txt

A corpus that is there is left as it is.
"""

from pipelines.common import flag_types
from pipelines.common.flag_groups import Group, group
from pipelines.common.flag_types import Limits
from pipelines.common.texts import counted

with group(Group.DATA):
    _OUTPUT = flag_types.define_path("output", None, "File to write.", required=True)
    _MOST = flag_types.define_number(
        "documents",
        None,
        "Most documents to write, for trying things. Not given: all that there are.",
        int,
        Limits(least=1),
    )


def main() -> None:
    """Writes the corpus unless it is there."""
    from pipelines.corpus import builtin

    path = _OUTPUT.value
    counts = builtin.make(path, _MOST.value)
    if counts is None:
        print(f"{path}: is there; nothing to do.")
        return
    print(
        f"{path}: {counted(counts['documents'], 'document')}, "
        f"{counted(counts['sentences'], 'sentence')}, "
        f"{counts['bytes'] / 1e6:.1f} MB"
    )
