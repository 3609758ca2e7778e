"""Operations on byte ranges of texts, in TensorFlow.

tf.strings.substr copies a whole text for each range; these functions take time and memory in
proportion to the texts and the ranges.
"""

import tensorflow as tf

# Any odd number works; its powers and their inverses are taken modulo 2^64.
_BASE = 0x5851F42D4C957F2D
_INVERSE = pow(_BASE, -1, 1 << 64)
_ROW = 0x2545F4914F6CDD1D
LONG_TEXT = 1024  # bytes; more are too many for a copy for each word


def rows_of(splits: tf.Tensor) -> tf.Tensor:
    """Returns the row of each value of a ragged tensor, int64 [values], given its int64 row splits.

    `RaggedTensor.value_rowids` takes time and memory for the rows times the longest row.
    """
    inner = splits[1:-1]
    steps = tf.scatter_nd(inner[:, tf.newaxis], tf.ones_like(inner), splits[-1:] + 1)
    return tf.cumsum(tf.ensure_shape(steps, [None]))[:-1]


def ragged(splits: tf.Tensor, *values: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
    """Returns ragged tensors of values, which have the same row splits, int64 [rows + 1]."""
    return tuple(tf.RaggedTensor.from_row_splits(each, splits, validate=False) for each in values)


def cut(texts: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the texts of ranges, string [n].

    Each range is in the text of number `rows`, from byte `starts` to before `ends`; int64 [n] all.
    """
    single = tf.strings.bytes_split(texts)
    first = tf.gather(single.row_starts(), rows)
    place = tf.ragged.range(first + starts, first + ends)
    taken = tf.gather(single.flat_values, place.flat_values)
    return tf.strings.unsorted_segment_join(taken, rows_of(place.row_splits), tf.size(rows))


def cut_words(texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor) -> tf.Tensor:
    """Returns the words of texts, string [words], given the bytes [batch, (words)] of each.

    While all texts are short, a text is copied for each of its words, which is faster than `cut`.
    """
    rows, start, end = rows_of(starts.row_splits), starts.flat_values, ends.flat_values

    def copied() -> tf.Tensor:
        places = tf.cast(start, tf.int32), tf.cast(end - start, tf.int32)
        return tf.strings.substr(tf.gather(texts, rows), *places)

    are_short = tf.reduce_all(tf.strings.length(texts) <= LONG_TEXT)
    return tf.cond(are_short, copied, lambda: cut(texts, rows, start, end))


def byte_at(texts: tf.Tensor, rows: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """Returns the byte at each offset of a text, uint8 [n]; rows and offsets are int64 [n]."""
    values, first = _flatten(texts)
    values = tf.concat([values, tf.zeros([1], tf.uint8)], 0)  # an offset may be the end of all
    return tf.gather(values, tf.gather(first, rows) + offsets)


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


def to_original(
    texts: tf.Tensor,
    offsets: tf.RaggedTensor,
    lengths: tf.Tensor,
    is_mark: tf.Tensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Maps byte offsets in normalized texts to byte offsets in the original texts.

    Args:
      texts: string [batch], the original texts.
      offsets: int64 [batch, (characters)], the first byte of each character.
      lengths: int64 [characters of all texts], bytes of each character when normalized.
      is_mark: bool [characters of all texts], whether a character belongs to the one before it.
      starts: int64 [batch, (ranges)], in the normalized texts.
      ends: the same.
    """
    # A mark at the beginning of a text belongs to no letter.
    text = offsets.value_rowids()
    is_mark &= text == tf.concat([[-1], text[:-1]], 0)

    # Positions count through the whole batch; the starts of rows are subtracted at the end.
    text_end = tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64))
    text_start = tf.concat([[0], text_end], 0)[:-1]
    original = offsets.flat_values + tf.gather(text_start, text)
    original_end = tf.concat([original, text_end[-1:]], 0)[1:]
    # Bytes that are no characters may follow, and texts without any.
    original_end = tf.minimum(original_end, tf.gather(text_end, text))
    normalized_end = tf.cumsum(lengths)
    normalized_row = tf.gather(tf.concat([[0], normalized_end], 0), offsets.row_starts())

    # A character ends where the marks after it end.
    group = tf.cumsum(tf.cast(~is_mark, tf.int64))
    group_end = tf.math.unsorted_segment_max(
        original_end, group, tf.reduce_max(tf.concat([[0], group], 0)) + 1
    )
    rows = starts.value_rowids()
    shift = tf.gather(normalized_row, rows)
    first = tf.searchsorted(normalized_end, starts.flat_values + shift, side="right")
    last = tf.searchsorted(normalized_end, ends.flat_values + shift, side="left")
    row_start = tf.gather(text_start, rows)
    new_starts = tf.gather(original, first) - row_start
    new_ends = tf.gather(tf.gather(group_end, group), last) - row_start
    new_ends = tf.where(ends.flat_values == starts.flat_values, new_starts, new_ends)
    return starts.with_flat_values(new_starts), ends.with_flat_values(new_ends)


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
    terms = (tf.cast(values, tf.int64) + 1) * powers[:-1]
    before = tf.concat([[0], tf.cumsum(terms)], 0)
    begin = tf.gather(first, rows) + starts
    total = tf.gather(before, begin + ends - starts) - tf.gather(before, begin)
    return total * tf.gather(inverses, begin) + rows * _signed(_ROW)


def _flatten(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the bytes of all texts, uint8, and the position of each text, int64 [batch]."""
    values = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    return values, tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)


def _signed(number: int) -> int:
    """Returns a 64-bit number as int64."""
    return number - (1 << 64) if number >> 63 else number
