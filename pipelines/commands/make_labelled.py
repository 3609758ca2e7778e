"""Writes the built-in labelled texts: paragraphs of docstrings with the package they come from.

  bert-tf make-labelled --output=tfrecords/packages

They let one try fine-tuning without data of one's own: train.tsv, dev.tsv and test.tsv, which share
no module. Existing ones are kept.
"""

from pipelines.common.flag_types import Count, Path
from pipelines.common.texts import counted


def main(*, output: Path, texts: Count = 500) -> None:
    """Writes the texts unless they exist.

    Flags:
      output: Folder to write to.
      texts: Maximum number of texts of a class.
    """
    from pipelines.corpus import builtin_labels

    counts = builtin_labels.make(output, texts=texts)
    if counts is None:
        print(f"{output}: exists; nothing to do.")
        return
    print(
        f"{output}: " + ", ".join(f"{counted(n, 'text')} in {file}" for file, n in counts.items())
    )
