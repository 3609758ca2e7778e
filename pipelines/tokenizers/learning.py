"""Learns a vocabulary from a corpus, once."""

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, NotRequired, TypedDict

import tensorflow as tf
from tqdm import tqdm

from pipelines.common import files, hashing, json_files, locks, manifest
from pipelines.common.errors import InputError
from pipelines.common.runners import LocalRunner, Runner, ThisProcess, Workers
from pipelines.corpus import reader
from pipelines.tokenizers import coverage, registry
from pipelines.tokenizers.base import Vocabulary
from pipelines.tokenizers.settings import LearningSettings
from pipelines.tokenizers.wordpiece_vocabulary import WordSplitter


class _Manifest(TypedDict):
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
    """Learns a vocabulary unless it is there.

    Args:
      corpus: its files.
      options: how they are read.
      settings: of the vocabulary.
      chosen: settings of the tokenizer, by name.
      path: where it goes: a file, or a folder where it is more than one.
      runner: who reads the corpus; None: processes of this machine, one for each core.

    Returns:
      The vocabulary, and the number of words that it was learned from; None if it was there.

    Raises:
      InputError: one is there that was learned otherwise, or was not learned here.
    """
    kind = registry.KINDS[settings.kind]
    tokenizer = kind.settings_of_learning(chosen)
    runner = runner or LocalRunner()
    with (
        locks.held_file(files.partial_of(path), path),
        runner.started(f"{path}.steps", __name__) as workers,
    ):
        identity = {
            "settings": {**settings.describe(), **tokenizer, **dataclasses.asdict(options)},
            "inputs": reader.identities(corpus, workers),
        }
        if _is_finished(path, identity):
            return None
        splitter = kind.splitter(tokenizer)
        if (
            isinstance(splitter, WordSplitter)
            and splitter.strip_accents
            and "strip_accents" not in chosen
        ):
            coverage.warn_of_stripping(coverage.sample(corpus, options))
        words = count_words(
            corpus,
            options,
            splitter,
            sample_bytes=settings.sample_megabytes * 1_000_000,
            seed=settings.seed,
            workers=workers,
        )
        vocabulary = kind.learn(words, settings.vocab_size, settings.character_coverage)
        # The manifest first: a kill between the two leaves no vocabulary of unknown origin.
        json_files.write(f"{path}.json", {**identity, "sha256": vocabulary.sha256})
        vocabulary.write(path)
    return vocabulary, words.total()


def _is_finished(path: str, identity: dict[str, Any]) -> bool:
    """Whether the vocabulary is there as it would be learned.

    Raises:
      InputError: another file is there, or one that was learned otherwise.
    """
    manifest_path = f"{path}.json"
    known = files.gfile.exists(manifest_path)
    found = json_files.read(manifest_path, _Manifest) if known else None
    if not files.gfile.exists(path):
        return False
    if found is None:
        raise InputError(
            f"{path}: is there, and was not learned here (it has no {manifest_path}). Name another "
            "--output, or use it as it is (VOCAB=)."
        )
    if found.get("sha256") not in (None, _checksum(path)):
        raise InputError(
            f"{path}: was changed since it was learned. Move it away to learn it anew, or use it "
            "as it is (VOCAB=)."
        )
    other = manifest.difference(found, identity)
    if other:
        raise InputError(f"{path}: was learned with other {other}. Remove it to learn anew.")
    return True


def _checksum(path: str) -> str:
    """Of a vocabulary's file, or of the files of its folder."""
    return registry.load(path).sha256 if files.gfile.isdir(path) else files.sha256(path)


# Gives the words of texts, string [words].
Splitter = Callable[[list[str]], tf.Tensor]
_HERE = ThisProcess()
_RANGE_BYTES = 1 << 24
_BATCH_CHARACTERS = 2_000_000


class _Sample(NamedTuple):
    """Documents chosen by a hash."""

    share: float
    seed: int

    def takes(self, section: reader.Section, number: int) -> bool:
        """Whether a section is of it, which is one of a range, by its number."""
        order = hashing.stable_hash("sample", self.seed, *section.document, number)
        return order < self.share * hashing.HASH_RANGE


def count_words(
    corpus_files: list[reader.CorpusFile],
    options: reader.ReadOptions,
    split: Splitter,
    *,
    sample_bytes: int,
    seed: int,
    workers: Workers = _HERE,
) -> collections.Counter[bytes]:
    """Counts words, of all documents or of a sample.

    Args:
      corpus_files: the corpus.
      options: how it is read.
      split: gives the words of texts: those of the tokenizer to come. It can be pickled.
      sample_bytes: about how much text to count; documents are chosen by a
        hash, so the same corpus and seed give the same sample.
      seed: of the sample.
      workers: who counts.
    """
    total = sum(file.size for file in corpus_files)
    sample = _Sample(min(1.0, sample_bytes / total), seed)
    ranges = reader.plan_ranges(corpus_files, _RANGE_BYTES)
    function = functools.partial(_count_range, options, split, sample)
    with tqdm(total=len(ranges), desc="count words", unit="part") as bar:
        return workers.count(function, ranges, bar.update)


def _count_range(
    options: reader.ReadOptions, split: Splitter, sample: _Sample, file_range: reader.FileRange
) -> collections.Counter[bytes]:
    """The words of the documents of a range that are of the sample."""
    words: collections.Counter[bytes] = collections.Counter()
    batch: list[str] = []
    size = 0
    for number, section in enumerate(reader.read_sections(file_range, options)):
        if not sample.takes(section, number):
            continue
        batch.extend(section.sentences)
        size += section.characters
        if size >= _BATCH_CHARACTERS:
            words.update(split(batch).numpy())
            batch.clear()
            size = 0
    if batch:
        words.update(split(batch).numpy())
    return words
