"""Writes the built-in labelled texts: paragraphs of the standard library's docstrings, by topic.

  bert-tf make-labelled --output=tfrecords/topics

They let one try fine-tuning without data of one's own: train.tsv, dev.tsv and test.tsv, which share
no module. Existing ones are kept.
"""

from pipelines.common.flag_types import Path
from pipelines.common.texts import counted


def main(*, output: Path) -> None:
    """Writes the texts unless they exist.

    Flags:
      output: Folder to write to.
    """
    from pipelines.corpus import builtin_labels

    counts = builtin_labels.make(output)
    if counts is None:
        print(f"{output}: exists; nothing to do.")
        return
    print(
        f"{output}: " + ", ".join(f"{counted(n, 'text')} in {file}" for file, n in counts.items())
    )
