"""Words of a corpus and their counts, in memory bounded by sampling."""

import collections

import tensorflow as tf
import tensorflow_text as tf_text
from tqdm import tqdm

from pipelines.common import hashing
from pipelines.corpus import reader
from pipelines.tokenizers import normalizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS

_RANGE_BYTES = 1 << 24
_BATCH_CHARACTERS = 2_000_000


def count_words(
    corpus_files: list[reader.CorpusFile],
    options: reader.ReadOptions,
    *,
    lower_case: bool,
    strip_accents: bool | None,
    sample_bytes: int,
    seed: int,
) -> collections.Counter[str]:
    """Counts normalized words, of all documents or of a sample.

    Args:
      corpus_files: the corpus.
      options: how it is read.
      lower_case: as for the tokenizer to come.
      strip_accents: likewise.
      sample_bytes: about how much text to count; documents are chosen by a
        hash, so the same corpus and seed give the same sample.
      seed: of the sample.
    """
    total = sum(file.size for file in corpus_files)
    share = min(1.0, sample_bytes / total)
    words: collections.Counter[str] = collections.Counter()
    if strip_accents is None:
        strip_accents = lower_case
    splitter = _WordSplitter(lower_case, strip_accents)
    batch: list[str] = []
    size = 0

    def count() -> None:
        found = splitter(batch).numpy()
        words.update(word.decode("utf-8") for word in found)

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


class _WordSplitter:
    """Splits texts into words as the tokenizer does, by a tokenizer that knows but one piece."""

    def __init__(self, lower_case: bool, strip_accents: bool):
        self._normalize = normalizer.Normalizer(lower_case, strip_accents)
        self._split = tf_text.FastBertTokenizer([*SPECIAL_TOKENS, "x"], token_out_type=tf.int32)

    def __call__(self, texts: list[str]) -> tf.Tensor:
        """Returns all words of the texts, string [words]."""
        normalized = self._normalize(texts)
        _, starts, ends = self._split.tokenize_with_offsets(normalized)
        # Sentences are short: copying one for each of its words is the faster way.
        return tf.strings.substr(
            tf.gather(normalized, starts.value_rowids()),
            tf.cast(starts.flat_values, tf.int32),
            tf.cast(ends.flat_values - starts.flat_values, tf.int32),
        )
