"""ALBERT's normalization of text before SentencePiece, as TensorFlow operations.

As in google-research/albert (tokenization.py): white space becomes single spaces; text is
decomposed (NFKD) and characters of a non-zero combining class are removed; it is lower-cased.
Quotes (`` and '') stay as they are, as there; transformers replaces them by ".
"""

import functools
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import normalizer

_PLAIN_SPACE = r"[\t-\r\x1c- ]+"


class PieceNormalizer(tf.Module):
    """Normalizes texts.

    Args:
      lower_case: whether to lower-case.
      strip_accents: whether to decompose, and to remove combining characters.
    """

    def __init__(self, lower_case: bool, strip_accents: bool):
        super().__init__(name="normalizer")
        self.lower_case, self.strip_accents = lower_case, strip_accents
        self._space = normalizer.white_space()
        self._combining = normalizer.character_class(_combining())
        self._newer = _newer()

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
        """Normalizes string [batch] texts; bytes that are not UTF-8 are removed."""
        texts = tf.convert_to_tensor(texts, tf.string)
        plain = tf.strings.regex_full_match(texts, r"[\x00-\x7f]*")
        rows = tf.where(~plain)
        others = tf.gather_nd(texts, rows)
        others = tf.strings.unicode_transcode(others, "UTF-8", "UTF-8", errors="ignore")
        others = self.characters(_single_spaces(others, f"{self._space}+"))
        texts = _single_spaces(texts, _PLAIN_SPACE)
        if self.lower_case:
            texts = tf.strings.lower(texts)
        return tf.tensor_scatter_nd_update(texts, rows, others)

    def characters(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes string [batch] texts, except for white space."""
        if self.strip_accents:
            if self._newer:
                texts = tf.strings.regex_replace(texts, self._newer, normalizer.UNASSIGNED)
            texts = tf_text.normalize_utf8(texts, "NFKD")
            texts = tf.strings.regex_replace(texts, self._combining, "")
        return normalizer.lower(texts) if self.lower_case else texts

    def lengths(self, characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the bytes of each character when normalized, and which ones are removed marks.

        Args:
          characters: string [batch, (characters)] of the original texts.

        Returns:
          int64 and bool [characters of all texts].
        """
        flat, text = characters.flat_values, characters.value_rowids()
        lengths = tf.cast(tf.strings.length(self.characters(flat)), tf.int64)
        is_mark = lengths == 0
        is_space = tf.strings.regex_full_match(flat, self._space)
        # Of a run of white space between words, the first character becomes the space.
        words = tf.cumsum(tf.cast(~is_space, tf.int64))
        before = words - tf.gather(_before(words), tf.gather(characters.row_starts(), text))
        totals = tf.gather(_before(words), characters.row_limits())
        after = tf.gather(totals, text) - words
        previous = tf.concat([[False], is_space[:-1]], 0)
        between = is_space & ~previous & (before > 0) & (after > 0)
        return tf.where(is_space, tf.cast(between, tf.int64), lengths), is_mark & ~is_space


def _before(sums: tf.Tensor) -> tf.Tensor:
    """Cumulative sums with a zero in front."""
    return tf.concat([[0], sums], 0)


def _single_spaces(texts: tf.Tensor, space: str) -> tf.Tensor:
    texts = tf.strings.regex_replace(texts, space, " ")
    return tf.strings.regex_replace(texts, "^ | $", "")


@functools.cache
def _combining() -> np.ndarray:
    return np.array([c for c in range(sys.maxunicode + 1) if unicodedata.combining(chr(c))])


@functools.cache
def _newer() -> str:
    """A class of the characters that only TensorFlow's Unicode tables decompose; "" if none."""
    texts = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) == "Cn"]
    with tf.init_scope():
        found = tf_text.normalize_utf8(tf.constant(texts), "NFKD").numpy()
    differ = [ord(t) for t, f in zip(texts, found, strict=True) if f.decode() != t]
    return normalizer.character_class(np.array(differ)) if differ else ""
