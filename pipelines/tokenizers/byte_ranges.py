"""Operations on byte ranges of texts, in TensorFlow.

tf.strings.substr copies a whole text for each range; these functions take time and memory in
proportion to the texts and the ranges.
"""

import tensorflow as tf

# Any odd number works; its powers and their inverses are taken modulo 2^64.
_BASE = 0x5851F42D4C957F2D
_INVERSE = pow(_BASE, -1, 1 << 64)
_ROW = 0x2545F4914F6CDD1D


def cut(texts: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the texts of ranges, string [n].

    Each range is in the text of number `rows`, from byte `starts` to before `ends`; int64 [n] all.
    """
    single = tf.strings.bytes_split(texts)
    first = tf.gather(single.row_starts(), rows)
    place = tf.ragged.range(first + starts, first + ends)
    taken = tf.gather(single.flat_values, place.flat_values)
    return tf.strings.unsorted_segment_join(taken, place.value_rowids(), tf.size(rows))


def count_characters(
    texts: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Returns the number of UTF-8 characters of ranges, int64 [n]; arguments as in `cut`."""
    values, first = _flatten(texts)
    begins = tf.bitwise.bitwise_and(values, 0xC0) != 0x80  # not continuation bytes
    before = _sums_before(tf.cast(begins, tf.int64))
    first = tf.gather(first, rows)
    return tf.gather(before, first + ends) - tf.gather(before, first + starts)


def to_characters(texts: tf.Tensor, rows: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """Byte offsets as character offsets.

    Args:
      texts: string [batch], UTF-8; a broken sequence counts as one character.
      rows: int64 [n], the text of each offset.
      offsets: int64 [n], bytes from the start of the text, from 0 to its length.

    Returns:
      int32 [n], the characters before each offset.
    """
    _, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    sizes = tf.cast(tf.strings.length(texts), tf.int64)
    # Texts stand one after the other, with a byte between: an offset is a place in all of them.
    first_byte = tf.cumsum(sizes + 1, exclusive=True)
    places = starts.flat_values + tf.gather(first_byte, starts.value_rowids())
    wanted = offsets + tf.gather(first_byte, rows)
    found = tf.searchsorted(places, wanted, out_type=tf.int64)
    return tf.cast(found - tf.gather(starts.row_starts(), rows), tf.int32)


def fingerprints(
    texts: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Returns numbers that are equal for equal ranges of a text, int64 [n]; arguments as in `cut`.

    Different ranges have the same number with a probability of 2^-64: it is a polynomial of their
    bytes modulo 2^64 (Karp and Rabin, 1987).
    """
    values, first = _flatten(texts)
    ones = tf.ones([tf.size(values) + 1], tf.int64)
    powers = tf.math.cumprod(ones * _signed(_BASE), exclusive=True)
    inverses = tf.math.cumprod(ones * _signed(_INVERSE), exclusive=True)
    before = _sums_before((tf.cast(values, tf.int64) + 1) * powers[:-1])
    begin = tf.gather(first, rows) + starts
    total = tf.gather(before, begin + ends - starts) - tf.gather(before, begin)
    return total * tf.gather(inverses, begin) + rows * _signed(_ROW)


def _flatten(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the bytes of all texts, uint8, and the position of each text, int64 [batch]."""
    values = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    return values, tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)


def _sums_before(values: tf.Tensor) -> tf.Tensor:
    """Returns the sums of the first 0, 1, ... and of all values, int64 [n + 1]."""
    return tf.concat([[0], tf.cumsum(values)], 0)


def _signed(number: int) -> int:
    """Returns a 64-bit number as int64."""
    return number - (1 << 64) if number >> 63 else number
