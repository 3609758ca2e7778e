r"""Splits texts into words as GPT-2 does, as TensorFlow operations.

GPT-2 finds words by a regular expression:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

TensorFlow's regular expressions have no such look-ahead, end at U+0000 and use an older Unicode.
But the expression depends only on the kind of each character (letter, number, white space, other),
so the beginnings of words follow from neighbouring characters, in one pass over arrays:

- a letter, number or other character begins a word unless the character before it is of its kind,
  or is the space (U+0020) that its word includes;
- white space begins a word if the character before or after it is not white space (the last space
  before a word is separate, so that the word can include it);
- an apostrophe that begins a word is joined to the s, t, re, ve, m, ll or d after it, and the
  character after those begins a word.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tokenizers

from pipelines.tokenizers import byte_ranges

# The kinds of characters, after one for the end of a text. Their order is part of the machine code
# of `word_cache`, which is cached by its own file.
EDGE, _WHITE, SPACE, LETTER, _NUMBER, _OTHER = range(6)
_PATTERNS = {LETTER: r"\p{L}+", _NUMBER: r"\p{N}+", _WHITE: r"\s+"}
# Planes 4 to 16 of Unicode have neither letters nor numbers nor white space.
_CODE_POINTS = 0x40000


class Words(NamedTuple):
    """The words of texts, which together contain all bytes of the texts in order.

    Positions are byte offsets in the concatenation of all texts; all numbers are int64.
    """

    splits: tf.Tensor  # [batch + 1], number of the first word of each text, and of all words
    bounds: tf.Tensor  # [words + 1], position of each word, and the number of bytes
    texts: tf.Tensor  # [words], number of the text of each word
    text_starts: tf.Tensor  # [batch], position of each text
    takes_space: tf.Tensor  # bool [words], whether a space is followed by something visible
    is_white: tf.Tensor  # bool [words], whether a word is only white space
    continues: tf.Tensor  # bool [words], whether a word was separated from its apostrophe
    characters: tf.RaggedTensor  # [batch, (characters)], offset of each character in its text

    def whole_characters(
        self, origins: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Extends ranges of bytes, counted from `origins` (int64 [n] all), to whole characters."""

        def widen() -> tuple[tf.Tensor, tf.Tensor]:
            text = byte_ranges.rows_of(self.characters.row_splits)
            first = self.characters.flat_values + tf.gather(self.text_starts, text)
            bounds = tf.concat([first, self.bounds[-1:]], 0)
            start = tf.searchsorted(bounds, starts + origins, side="right") - 1
            end = tf.searchsorted(bounds, ends + origins, side="left")
            return tf.gather(bounds, start) - origins, tf.gather(bounds, end) - origins

        are_bytes = tf.size(self.characters.flat_values, tf.int64) == self.bounds[-1]
        return tf.cond(are_bytes, lambda: (starts, ends), widen)


def split(texts: tf.Tensor, part_contractions: bool = False) -> Words:
    """Splits string [batch] texts of any bytes into words.

    Bytes that are not UTF-8 are neither letters, numbers nor white space. `part_contractions`
    separates the apostrophe of a contraction ('s) from its letters.
    """
    # Each maximal part of an invalid sequence becomes one U+FFFD, which is of the right kind.
    points, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    table = tf.constant(kinds_of_characters())
    kinds = tf.gather(table, tf.minimum(points.flat_values, tf.size(table) - 1))
    count = tf.size(kinds, tf.int64)
    # Whether a text begins or ends before each character, and after the last one.
    edge = tf.scatter_nd(
        points.row_splits[:, tf.newaxis], tf.ones_like(points.row_splits, tf.int32), [count + 1]
    )
    edge = tf.cast(edge, tf.bool)
    end = tf.constant([EDGE], tf.uint8)
    before = tf.where(edge[:-1], end, tf.concat([end, kinds[:-1]], 0))
    after = tf.where(edge[1:], end, tf.concat([kinds[1:], end], 0))
    begins = tf.where(
        kinds >= LETTER,
        (before != kinds) & (before != SPACE),
        (before == EDGE) | (before >= LETTER) | (after >= LETTER),
    )
    contractions, lengths = _contractions(points.flat_values, edge, begins)
    begins = tf.concat([begins, [True]], 0)
    begins = _put(begins, contractions + 1, part_contractions)
    begins = _put(begins, contractions + lengths, True)

    first = tf.where(begins[:-1])[:, 0]  # the first character of each word
    splits = tf.searchsorted(first, points.row_splits, out_type=tf.int64)
    sizes = tf.cast(tf.strings.length(texts), tf.int64)
    rows = byte_ranges.rows_of(splits)
    text_starts = tf.cumsum(sizes, exclusive=True)
    starts = tf.gather(offsets.flat_values, first) + tf.gather(text_starts, rows)
    kind = tf.gather(kinds, first)
    takes_space = (kind == SPACE) & (tf.gather(after, first) >= LETTER)
    continues = tf.zeros_like(takes_space)
    if part_contractions:
        continues = _put(continues, tf.searchsorted(first, contractions + 1), True)
    return Words(
        splits=splits,
        bounds=tf.concat([starts, [tf.reduce_sum(sizes)]], 0),
        texts=rows,
        text_starts=text_starts,
        takes_space=takes_space,
        is_white=(kind < LETTER) & ~takes_space,
        continues=continues,
        characters=offsets,
    )


def split_words(texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
    """Returns the words of string [batch] texts, string [words]."""
    texts = tf.convert_to_tensor(texts, tf.string)
    words = split(texts)
    text_starts = tf.gather(words.text_starts, words.texts)
    starts, ends = words.bounds[:-1] - text_starts, words.bounds[1:] - text_starts
    return byte_ranges.cut(texts, words.texts, starts, ends)


def begins_white(text: str) -> bool:
    """Returns whether the first character is white space."""
    return bool(text) and kinds_of_characters()[min(ord(text[0]), _CODE_POINTS)] in (_WHITE, SPACE)


def _contractions(
    points: tf.Tensor, edge: tf.Tensor, begins: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the index of the apostrophe of each contraction, and its length; int64 [n] both."""
    place = tf.where((points == ord("'")) & begins)[:, 0]
    padded = tf.concat([points, [-1, -1]], 0)
    edge = tf.concat([edge, [True]], 0)  # what follows belongs to another text
    first_is_in = ~tf.gather(edge, place + 1)
    second_is_in = first_is_in & ~tf.gather(edge, place + 2)
    first = tf.where(first_is_in, tf.gather(padded, place + 1), -1)
    second = tf.where(second_is_in, tf.gather(padded, place + 2), -1)
    short = tf.reduce_any(first[:, tf.newaxis] == [ord(letter) for letter in "stmd"], 1)
    pair = tf.stack([first, second], 1)[:, tf.newaxis]
    long = tf.reduce_any(
        tf.reduce_all(pair == [[ord(letter) for letter in end] for end in ("re", "ve", "ll")], 2), 1
    )
    lengths = tf.where(short, 2, tf.where(long, 3, 0))
    found = lengths > 0
    return tf.boolean_mask(place, found), tf.cast(tf.boolean_mask(lengths, found), tf.int64)


def _put(flags: tf.Tensor, places: tf.Tensor, flag: bool) -> tf.Tensor:
    """Sets some of bool [n] flags."""
    values = tf.fill([tf.size(places)], flag)
    return tf.tensor_scatter_nd_update(flags, tf.cast(places, tf.int64)[:, tf.newaxis], values)


@functools.cache
def kinds_of_characters() -> np.ndarray:
    """Returns the kind of each code point below _CODE_POINTS and, last, of all above; uint8.

    Kinds are those of the regular expressions of the tokenizers library, which is the reference.
    """
    surrogates = range(0xD800, 0xE000)
    points = np.array([point for point in range(_CODE_POINTS) if point not in surrogates])
    runs = _pieces("|".join(_PATTERNS.values()), "isolated", "".join(map(chr, points)))
    # All characters of a run have the kind of the first one.
    first = [run[0] for run in runs]
    kind_of = dict.fromkeys(first, _OTHER)
    for kind, pattern in _PATTERNS.items():
        unlike = set("".join(_pieces(pattern, "removed", "".join(first))))
        kind_of.update((character, kind) for character in first if character not in unlike)
    kinds = np.full(_CODE_POINTS + 1, _OTHER, np.uint8)
    kinds[points] = np.repeat([kind_of[character] for character in first], list(map(len, runs)))
    kinds[ord(" ")] = SPACE
    return kinds


def _pieces(pattern: str, behavior: str, text: str) -> list[str]:
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), behavior)
    return [piece for piece, _ in splitter.pre_tokenize_str(text)]
