"""Learns a WordPiece vocabulary from a corpus.

python -m pipelines.learn_vocabulary --input='corpus/*.txt' --output=vocab.txt --vocab_size=30000
"""

import pipelines.quiet_start  # noqa: F401  isort: skip

import dataclasses

from absl import flags

from pipelines import (
    commands,
    corpus,
    corpus_flags,
    files,
    manifest,
    text_flags,
    vocabulary,
    word_counts,
)
from pipelines.errors import InputError

_OUTPUT = flags.DEFINE_string("output", None, "The vocab.txt to write.", required=True)
_SIZE = flags.DEFINE_integer("vocab_size", 30_000, "Tokens, special ones included.")
_COVERAGE = flags.DEFINE_float(
    "character_coverage", 1.0, "Share of the running characters that get a token."
)
_SAMPLE = flags.DEFINE_integer("sample_megabytes", 200, "About how much text to learn from.")
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the sample.")


def main() -> None:
    """Learns the vocabulary unless it is there.

    Raises:
      InputError: one is there that was learned otherwise.
    """
    path = _OUTPUT.value
    corpus_files = corpus.open_corpus(corpus_flags.INPUT.value, corpus_flags.FORMAT.value)
    options = corpus.ReadOptions(corpus_flags.TEXT_FIELD.value, corpus_flags.UTF8_ERRORS.value)
    settings = {
        "vocab_size": _SIZE.value,
        "character_coverage": _COVERAGE.value,
        "sample_megabytes": _SAMPLE.value,
        "seed": _SEED.value,
        "lower_case": text_flags.lower_case() is not False,
        "strip_accents": text_flags.strip_accents(),
        **dataclasses.asdict(options),
    }
    identity = {"settings": settings, "inputs": list(map(corpus.identity, corpus_files))}
    manifest_path = f"{path}.json"
    if files.gfile.exists(path) and files.gfile.exists(manifest_path):
        other = manifest.difference(files.read_json(manifest_path), identity)
        if other:
            raise InputError(f"{path}: was learned with other {other}. Remove it to learn anew.")
        print(f"{path}: is there; nothing to do.")
        return
    words = word_counts.count_words(
        corpus_files,
        options,
        lower_case=settings["lower_case"],
        strip_accents=settings["strip_accents"],
        sample_bytes=_SAMPLE.value * 1_000_000,
        seed=_SEED.value,
    )
    tokens = vocabulary.learn(words, _SIZE.value, _COVERAGE.value)
    vocabulary.save(tokens, path)
    files.write_json(manifest_path, identity)
    print(f"{path}: {len(tokens):,} tokens from {words.total():,} words")


if __name__ == "__main__":
    commands.run(main)
