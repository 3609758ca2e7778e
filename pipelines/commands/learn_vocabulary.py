"""Learns a WordPiece vocabulary from a corpus.

python -m bert_tf learn-vocabulary --input='corpus/*.txt' --output=vocab.txt --vocab_size=30000
"""

import pipelines.common.quiet_start  # noqa: F401  isort: skip

import dataclasses
from typing import Any, NotRequired, TypedDict

from absl import flags

from pipelines.commands import corpus_flags, text_flags
from pipelines.common import command_line, files, json_files, locks, manifest
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.tokenizers import word_counts, wordpiece_vocabulary

_OUTPUT = command_line.define_path("output", None, "The vocab.txt to write.", required=True)
_SIZE = flags.DEFINE_integer(
    "vocab_size", 30_000, "Tokens, special ones included.", lower_bound=1, upper_bound=1 << 24
)
_COVERAGE = flags.DEFINE_float(
    "character_coverage",
    1.0,
    "Share of the running characters that get a token.",
    lower_bound=0.0,
    upper_bound=1.0,
)
_SAMPLE = flags.DEFINE_integer(
    "sample_megabytes", 200, "About how much text to learn from.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the sample.")


class _Manifest(TypedDict):
    """What a vocabulary was learned from."""

    settings: dict[str, Any]
    inputs: list[dict[str, Any]]
    sha256: NotRequired[str]  # of the vocabulary


def main() -> None:
    """Learns the vocabulary unless it is there.

    Raises:
      InputError: one is there that was learned otherwise, or was not learned here.
    """
    path = _OUTPUT.value
    corpus_files = reader.open_corpus(corpus_flags.INPUT.value, corpus_flags.FORMAT.value)
    options = reader.ReadOptions(corpus_flags.TEXT_FIELD.value, corpus_flags.UTF8_ERRORS.value)
    chosen = text_flags.chosen()
    settings = {
        "vocab_size": _SIZE.value,
        "character_coverage": _COVERAGE.value,
        "sample_megabytes": _SAMPLE.value,
        "seed": _SEED.value,
        "lower_case": chosen.get("lower_case", True),
        "strip_accents": chosen.get("strip_accents"),
        **dataclasses.asdict(options),
    }
    identity = {"settings": settings, "inputs": list(map(reader.identity, corpus_files))}
    with locks.held_file(files.partial_of(path), path):
        if _is_finished(path, identity):
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
        vocabulary = wordpiece_vocabulary.learn(words, _SIZE.value, _COVERAGE.value)
        # The manifest first: a kill between the two leaves no vocabulary of unknown origin.
        json_files.write(_manifest_path(path), {**identity, "sha256": vocabulary.sha256})
        vocabulary.write(path)
    print(f"{path}: {len(vocabulary):,} tokens from {words.total():,} words")


def _manifest_path(path: str) -> str:
    return f"{path}.json"


def _is_finished(path: str, identity: dict[str, Any]) -> bool:
    """Whether the vocabulary is there as it would be learned.

    Raises:
      InputError: another file is there, or one that was learned otherwise.
    """
    manifest_path = _manifest_path(path)
    known = files.gfile.exists(manifest_path)
    found = json_files.read(manifest_path, _Manifest) if known else None
    if not files.gfile.exists(path):
        return False
    if found is None:
        raise InputError(
            f"{path}: is there, and was not learned here (it has no {manifest_path}). Name another "
            "--output, or use it as it is (VOCAB=)."
        )
    if found.get("sha256") not in (None, files.sha256(path)):
        raise InputError(
            f"{path}: was changed since it was learned. Move it away to learn it anew, or use it "
            "as it is (VOCAB=)."
        )
    other = manifest.difference(found, identity)
    if other:
        raise InputError(f"{path}: was learned with other {other}. Remove it to learn anew.")
    return True


if __name__ == "__main__":
    command_line.run(main)
