"""Canonical composition (Unicode's NFC) of texts, as TensorFlow operations."""

import functools
import sys
import unicodedata

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import byte_ranges, unicode_tables


def normalized(texts: tf.Tensor, nfc: bool) -> tf.Tensor:
    """Returns string [batch] texts as UTF-8, with U+FFFD for other bytes; composed if `nfc`."""
    rows = tf.where(~tf.strings.regex_full_match(texts, r"[\x00-\x7f]*"))
    others = tf.strings.unicode_transcode(tf.gather_nd(texts, rows), "UTF-8", "UTF-8")
    if nfc:
        others = tf_text.normalize_utf8(others, "NFC")
    return tf.tensor_scatter_nd_update(texts, rows, others)


def original_offsets(
    texts: tf.Tensor, nfc: bool, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Maps byte offsets in `normalized(texts, nfc)` to byte offsets in the texts.

    A run of characters that composition changes is one character: a letter and its marks.
    """
    characters, offsets = tf.strings.unicode_split_with_offsets(texts, "UTF-8")
    flat, row = characters.flat_values, byte_ranges.rows_of(characters.row_splits)
    begins = ~tf.strings.regex_full_match(flat, _followers())
    begins |= tf.gather(characters.row_starts(), row) == tf.range(tf.size(flat, tf.int64))
    run = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    runs = tf.strings.unsorted_segment_join(flat, run, tf.reduce_sum(tf.cast(begins, tf.int64)))
    composed = tf_text.normalize_utf8(runs, "NFC") if nfc else runs
    changed = tf.gather(composed != runs, run)
    sizes, lengths = (tf.cast(tf.strings.length(each), tf.int64) for each in (composed, flat))
    lengths = tf.where(changed, tf.where(begins, tf.gather(sizes, run), 0), lengths)
    return byte_ranges.to_original(texts, offsets, lengths, changed & ~begins, starts, ends)


@functools.cache
def _followers() -> str:
    """A class of the characters that composition may join to, or exchange with, one before."""
    parts = (unicodedata.decomposition(chr(c)) for c in range(sys.maxunicode + 1))
    pairs = (part.split() for part in parts if part and part[0] != "<")
    seconds = {int(pair[1], 16) for pair in pairs if len(pair) == 2}
    hangul = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # vowels and final consonants
    marks = {c for c in range(sys.maxunicode + 1) if unicodedata.combining(chr(c))}
    return unicode_tables.character_class(np.array(sorted(seconds | hangul | marks)))
