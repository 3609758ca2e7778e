"""Writes the built-in corpus: the documentation strings of the installed Python packages.

  bert-tf make-corpus --output=corpus/builtin.txt

An existing corpus is kept.
"""

from pipelines.common.flag_types import Count, Path
from pipelines.common.texts import counted


def main(*, output: Path, documents: Count | None = None) -> None:
    """Writes the corpus unless it exists.

    Flags:
      output: File to write.
      documents: Maximum number of documents, for tests. Not given: all documents.
    """
    from pipelines.corpus import builtin

    counts = builtin.make(output, max_documents=documents)
    if counts is None:
        print(f"{output}: exists; nothing to do.")
        return
    print(
        f"{output}: {counted(counts['documents'], 'document')}, "
        f"{counted(counts['sentences'], 'sentence')}, "
        f"{counts['bytes'] / 1e6:.1f} MB"
    )
