"""Places in texts: bytes, and the characters they are."""

import tensorflow as tf


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
