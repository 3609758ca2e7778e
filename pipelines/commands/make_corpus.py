"""Writes the built-in corpus: the documentation strings of the installed Python packages.

  bert-tf make-corpus --output=corpus/builtin.txt

An existing corpus is kept.
"""

from absl import flags

from pipelines.common import flag_types
from pipelines.common.texts import counted

_OUTPUT = flag_types.define_path("output", None, "File to write.", required=True)
_DOCUMENTS = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1),
    "documents",
    None,
    "Maximum number of documents, for tests. Not given: all documents.",
)


def main() -> None:
    """Writes the corpus unless it exists."""
    from pipelines.corpus import builtin

    path = _OUTPUT.value
    counts = builtin.make(path, _DOCUMENTS.value)
    if counts is None:
        print(f"{path}: exists; nothing to do.")
        return
    print(
        f"{path}: {counted(counts['documents'], 'document')}, "
        f"{counted(counts['sentences'], 'sentence')}, "
        f"{counts['bytes'] / 1e6:.1f} MB"
    )
