"""Learns a vocabulary from the words of a corpus, in memory bounded by sampling."""

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import tensorflow as tf
from tqdm import tqdm

from pipelines.common import checksums, files, json_files, locks, manifest, texts
from pipelines.common.errors import InputError
from pipelines.common.runners import LocalRunner, Runner, Workers
from pipelines.corpus import reader
from pipelines.tokenizers import coverage, registry
from pipelines.tokenizers.settings import LearningSettings
from pipelines.tokenizers.vocabulary import Vocabulary

_THIS_PROCESS = Workers()
_RANGE_BYTES = 1 << 24
_BATCH_CHARACTERS = 2_000_000


class _LearningManifest(TypedDict):
    """What a vocabulary was learned from."""

    settings: dict[str, Any]
    inputs: list[dict[str, Any]]
    sha256: NotRequired[str]  # of the vocabulary


def learn(
    corpus: list[reader.CorpusFile],
    options: reader.ReadOptions,
    settings: LearningSettings,
    chosen: dict[str, bool],
    path: str,
    runner: Runner | None = None,
) -> tuple[Vocabulary, int] | None:
    """Learns a vocabulary and writes it, unless it exists.

    Args:
      corpus: files to learn from.
      options: how they are read.
      settings: of the vocabulary.
      chosen: settings of the tokenizer that the user chose.
      path: output: a file, or a folder if the vocabulary has several files.
      runner: where the corpus is read; None: in processes of this machine, one per core.

    Returns:
      The vocabulary and the number of words it was learned from; None if it exists.

    Raises:
      InputError: another vocabulary is there, or the corpus is bad or too small.
    """
    kind, _, split_words = registry.KINDS[settings.kind]
    tokenizer = kind.learning_settings(chosen)
    with (
        locks.held_file(files.partial_of(path), path),
        (runner or LocalRunner()).started(f"{path}.steps", __name__) as workers,
    ):
        identity = {
            "settings": {**settings.describe(), **tokenizer, **dataclasses.asdict(options)},
            "inputs": [dataclasses.asdict(file) for file in corpus],
        }
        if _is_finished(path, identity):
            return None
        strips = kind.learned.get("strip_accents") or tokenizer.get("lower_case")
        if strips and "strip_accents" not in chosen:
            coverage.warn_of_stripping(coverage.sample(corpus, options))
        words = count_words(
            corpus,
            options,
            functools.partial(split_words, **tokenizer),
            sample_bytes=settings.sample_megabytes * 1_000_000,
            seed=settings.seed,
            workers=workers,
        )
        vocabulary = kind.learn(words, settings.vocab_size, settings.character_coverage)
        found = dict(workers.map(files.sha256, [file.path for file in corpus]))
        inputs = [{**dataclasses.asdict(file), "sha256": found[file.path]} for file in corpus]
        made_from = {**identity, "inputs": inputs, "sha256": vocabulary.sha256}
        # The manifest first: a kill between the two leaves no vocabulary of unknown origin.
        json_files.write(f"{path}.json", made_from)
        vocabulary.write(path)
    return vocabulary, words.total()


def _is_finished(path: str, identity: dict[str, Any]) -> bool:
    """Returns whether the vocabulary exists; raises InputError if it is not the one to learn."""
    manifest_path = f"{path}.json"
    known = files.gfile.exists(manifest_path)
    found = json_files.read(manifest_path, _LearningManifest) if known else None
    is_empty = files.gfile.isdir(path) and not files.gfile.listdir(path)
    if not files.gfile.exists(path) or (found is None and is_empty):
        return False
    if found is None:
        raise InputError(
            f"{path}: exists, and was not learned here (it has no {manifest_path}). Name another "
            "--output, or use it as it is (VOCAB=)."
        )
    # The checksum of the file or, if the vocabulary is a folder, of its files.
    is_folder = files.gfile.isdir(path)
    checksum = registry.load(path).sha256 if is_folder else files.sha256(path)
    if found.get("sha256") not in (None, checksum):
        raise InputError(
            f"{path}: was changed since it was learned. Move it away to learn it again, or use it "
            "as it is (VOCAB=)."
        )
    other = manifest.difference(found, identity)
    if other:
        raise InputError(f"{path}: was learned with other {other}. Remove it to learn it again.")
    return True


def count_words(
    corpus_files: list[reader.CorpusFile],
    options: reader.ReadOptions,
    split: Callable[[list[str]], tf.Tensor],
    *,
    sample_bytes: int,
    seed: int,
    workers: Workers = _THIS_PROCESS,
) -> collections.Counter[bytes]:
    """Counts the words of all documents or of a sample of about `sample_bytes`.

    Documents are sampled by a hash: the same corpus and seed give the same sample. `split`, which
    returns the words of texts, must be picklable.
    """
    fraction = min(1.0, sample_bytes / sum(file.size for file in corpus_files))
    ranges = reader.plan_ranges(corpus_files, _RANGE_BYTES)
    function = functools.partial(_count_range, options, split, fraction, seed)
    with tqdm(total=len(ranges), desc="count words", unit="part") as bar:
        return workers.count(function, ranges, bar.update)


def _count_range(
    options: reader.ReadOptions,
    split: Callable[[list[str]], tf.Tensor],
    fraction: float,
    seed: int,
    file_range: reader.FileRange,
) -> collections.Counter[bytes]:
    """Counts the words of the sampled documents of a range."""
    words: collections.Counter[bytes] = collections.Counter()
    chosen = (
        section
        for number, section in enumerate(reader.read_sections(file_range, options))
        if checksums.stable_hash("sample", seed, *section.document, number)
        < fraction * checksums.HASH_RANGE
    )
    for batch in texts.blocks(chosen, lambda section: section.characters, _BATCH_CHARACTERS):
        words.update(split([s for section in batch for s in section.sentences]).numpy())
    return words
