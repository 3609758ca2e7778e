"""Writes the built-in corpus: the documentation strings of the installed Python packages.

python -m pipelines.make_corpus --output=corpus/builtin.txt
"""

import pipelines.quiet_start  # noqa: F401  isort: skip

from absl import flags

from pipelines import builtin_corpus, commands, files

_OUTPUT = flags.DEFINE_string("output", None, "File to write.", required=True)


def main() -> None:
    """Writes the corpus unless it is there."""
    path = _OUTPUT.value
    if files.gfile.exists(path):
        print(f"{path}: is there; nothing to do.")
        return
    counts = builtin_corpus.write(path)
    print(
        f"{path}: {counts['documents']:,} documents, {counts['sentences']:,} sentences, "
        f"{counts['bytes'] / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    commands.run(main)
