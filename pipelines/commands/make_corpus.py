"""Writes the built-in corpus: the documentation strings of the installed Python packages.

bert-tf make-corpus --output=corpus/builtin.txt
"""

from absl import flags

from pipelines.common import command_line

_OUTPUT = command_line.define_path("output", None, "File to write.", required=True)
_MOST = flags.DEFINE_integer(
    "documents", None, "Documents at the most, for trying things; all.", lower_bound=1
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
        f"{path}: {counts['documents']:,} documents, {counts['sentences']:,} sentences, "
        f"{counts['bytes'] / 1e6:.1f} MB"
    )
