"""Words of a corpus and their counts, in memory bounded by sampling."""

import collections
import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from tqdm import tqdm

from pipelines.common import hashing
from pipelines.common.runners import ThisProcess, Workers
from pipelines.corpus import reader

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
