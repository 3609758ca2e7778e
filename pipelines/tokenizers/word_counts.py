"""Words of a corpus and their counts, in memory bounded by sampling."""

import collections
from collections.abc import Callable

import tensorflow as tf
from tqdm import tqdm

from pipelines.common import hashing
from pipelines.corpus import reader

_RANGE_BYTES = 1 << 24
_BATCH_CHARACTERS = 2_000_000


def count_words(
    corpus_files: list[reader.CorpusFile],
    options: reader.ReadOptions,
    split: Callable[[list[str]], tf.Tensor],
    *,
    sample_bytes: int,
    seed: int,
) -> collections.Counter[bytes]:
    """Counts words, of all documents or of a sample.

    Args:
      corpus_files: the corpus.
      options: how it is read.
      split: gives the words of texts, string [words]; those of the tokenizer to come.
      sample_bytes: about how much text to count; documents are chosen by a
        hash, so the same corpus and seed give the same sample.
      seed: of the sample.
    """
    total = sum(file.size for file in corpus_files)
    share = min(1.0, sample_bytes / total)
    words: collections.Counter[bytes] = collections.Counter()
    batch: list[str] = []
    size = 0

    def count() -> None:
        found = split(batch).numpy()
        words.update(found)

    ranges = reader.plan_ranges(corpus_files, _RANGE_BYTES)
    for file_range in tqdm(ranges, desc="count words", unit="part"):
        for number, section in enumerate(reader.read_sections(file_range, options)):
            order = hashing.stable_hash("sample", seed, *section.document, number)
            if order >= share * hashing.HASH_RANGE:
                continue
            batch.extend(section.sentences)
            size += sum(map(len, section.sentences))
            if size >= _BATCH_CHARACTERS:
                count()
                batch.clear()
                size = 0
    if batch:
        count()
    return words
