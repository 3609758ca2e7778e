"""Tokens that are found whole in texts, before these are split into words."""

import re
from collections.abc import Callable, Mapping

import tensorflow as tf

from pipelines.tokenizers import byte_ranges
from pipelines.tokenizers.vocabulary import ChosenSettings

LIMIT = 1000  # tokens; the pattern that finds them grows with their number
_CUT = b"\xff"  # around the tokens; no byte of UTF-8


def of(settings: ChosenSettings) -> list[str]:
    """The tokens that the settings of a tokenizer keep whole."""
    return str(settings.get("kept_tokens") or "").split()


class KeptTokens:
    """Finds tokens such as <e1> in texts, wherever they stand.

    Args:
      ids: the ids of the tokens.
    """

    def __init__(self, ids: Mapping[str, int]):
        self._tokens, self._ids = list(ids), list(ids.values())
        # The longest first, as the first alternative that fits is taken.
        self._pattern = "|".join(map(re.escape, sorted(ids, key=len, reverse=True)))
        self.are_in = re.compile(self._pattern).search

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def split(
        self, texts: tf.Tensor, tokenize: Callable[[tf.Tensor], tuple[tf.RaggedTensor, ...]]
    ) -> tuple[tf.RaggedTensor, ...]:
        """The pieces of texts, in which each kept token is one piece.

        Args:
          texts: string [batch], UTF-8.
          tokenize: returns ids, or ids, starts and ends, of the texts between kept tokens.
        """
        if not self:
            return tokenize(texts)
        cut = tf.strings.regex_replace(texts, f"({self._pattern})", _CUT + rb"\1" + _CUT)
        parts = tf.strings.split(cut, _CUT)
        part, rows = parts.flat_values, byte_ranges.rows_of(parts.row_splits)
        order = tf.range(tf.size(part, tf.int64)) - tf.gather(parts.row_starts(), rows)
        is_kept = order % 2 > 0
        sizes = tf.cast(tf.strings.length(part), tf.int64)
        origin = tf.cumsum(sizes, exclusive=True)
        origin -= tf.gather(tf.gather(origin, parts.row_starts()), rows)
        distinct, index = tf.unique(tf.boolean_mask(part, is_kept), tf.int64)
        which = tf.argmax(distinct[:, tf.newaxis] == tf.constant(self._tokens), 1)
        ids = tf.gather(tf.constant(self._ids), tf.gather(which, index))
        ends = tf.boolean_mask(sizes, is_kept)
        splits = tf.concat([[0], tf.cumsum(tf.cast(is_kept, tf.int64))], 0)
        kept = byte_ranges.ragged(splits, ids, tf.zeros_like(ends), ends)
        between = tokenize(tf.where(is_kept, "", part))
        found: list[tf.RaggedTensor] = []
        for index, (first, second) in enumerate(zip(between, kept, strict=False)):
            both = tf.concat([first, second], 1)
            values = tf.ensure_shape(both.flat_values, [None])
            if index:
                values += tf.gather(origin, byte_ranges.rows_of(both.row_splits))
            found += byte_ranges.ragged(tf.gather(both.row_splits, parts.row_splits), values)
        return tuple(found)
