"""Writes the built-in corpus: the documentation strings of the installed Python packages.

  bert-tf make-corpus --output=corpus/builtin.txt

A corpus that is there is left as it is.
"""

from absl import flags

from pipelines.common import flag_types
from pipelines.common.texts import counted

_OUTPUT = flag_types.define_path("output", None, "File to write.", required=True)
_MOST = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1),
    "documents",
    None,
    "Most documents to write, for trying things. Not given: all that there are.",
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
