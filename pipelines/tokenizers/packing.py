"""Packs token ids into the sequences of a model, as TensorFlow operations on ragged tensors.

The same functions make training features and run in exported graphs; they use only TensorFlow's
core operations.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf

from pipelines.tokenizers.settings import Keep

# The inputs of a model: ids, 1 for tokens and 0 for padding, segments.
MODEL_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


class PackingRules(Protocol):
    """The properties of a tokenizer that packing depends on; see `base.Tokenizer`."""

    pad_id: int
    start_id: int
    separator_id: int
    end_id: int
    separators: int
    framed: bool
    typed: bool

    @property
    def overhead(self) -> tuple[int, int]: ...


class Packed(NamedTuple):
    """Sequences of one or two segments with special tokens; ragged int32 [batch, (length)].

    BERT has [CLS] a [SEP] and [CLS] a [SEP] b [SEP], RoBERTa <s> a </s> and <s> a </s></s> b </s>,
    GPT start a extract and start a delimiter b extract. A single text of GPT-2 has no special
    tokens around it; an empty one is the end token, as no sequence may be empty.
    """

    word_ids: tf.RaggedTensor
    type_ids: tf.RaggedTensor


def pack(
    tokenizer: PackingRules,
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    max_seq_length: int | tf.Tensor,
    keep: Keep = Keep.HEAD,
) -> Packed:
    """Joins segments and special tokens, and truncates sequences.

    Tokens are removed from the end of the longer segment, one by one, as in the reference
    (`_truncate_seq_pair`).

    Args:
      tokenizer: its special tokens.
      first: int32 [batch, (tokens)].
      second: int32 [batch, (tokens)]; None: single segments.
      max_seq_length: maximum length of a sequence, special tokens included.
      keep: what is kept of single segments.
    """
    overhead = tokenizer.overhead[second is not None]
    framed = tokenizer.framed or second is not None
    budget = tf.cast(max_seq_length, tf.int64) - overhead
    if keep != Keep.HEAD:
        assert second is None
        place = tf.ragged.range(first.row_lengths())
        head = budget // 4 if keep == Keep.BOTH else tf.zeros_like(budget)
        from_end = tf.gather(first.row_lengths(), place.value_rowids()) - place.flat_values
        kept = (place.flat_values < head) | (from_end <= budget - head)
        first = tf.ragged.boolean_mask(first, place.with_flat_values(kept))
    if second is None:
        size = tf.minimum(first.row_lengths(), budget)
        total = size + overhead
    else:
        # If both segments are equally long, the second loses a token first.
        half = tf.maximum((budget + 1) // 2, budget - second.row_lengths())
        size = tf.minimum(first.row_lengths(), half)
        size_b = tf.minimum(second.row_lengths(), budget - size)
        total = size + size_b + overhead
    is_empty, total = total == 0, tf.maximum(total, 1)
    place = tf.ragged.range(total)
    row = place.value_rowids()
    at = place.flat_values
    begin = tf.gather(size + int(framed), row)  # of the separators after the first segment
    end = begin + (1 if second is None else tokenizer.separators) - 1  # the last one of them
    # A list of all ids, special ones before the tokens, and the index of each place in it.
    special = [tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id]
    taken = [special, first.flat_values]
    index = 3 + tf.gather(first.row_starts(), row) + at - int(framed)
    in_second = at > end
    if second is not None:
        before = 3 + tf.size(first.flat_values, tf.int64)
        index_b = before + tf.gather(second.row_starts(), row) + at - end - 1
        index = tf.where(in_second, index_b, index)
        index = tf.where((at >= begin) & (at <= end), tf.ones_like(index), index)
        taken.append(second.flat_values)
    ends = at == tf.gather(total - 1, row) if framed else tf.gather(is_empty, row)
    index = tf.where(ends, 2 * tf.ones_like(index), index)
    if framed:
        index = tf.where(at == 0, tf.zeros_like(index), index)
    return Packed(
        place.with_flat_values(tf.gather(tf.concat(taken, 0), index)),
        place.with_flat_values(tf.cast(in_second & tokenizer.typed, tf.int32)),
    )


def pack_ids(
    tokenizer: PackingRules, first: Sequence[int], second: Sequence[int] | None, max_seq_length: int
) -> tuple[list[int], list[int]]:
    """Returns the ids and types of one sequence, as `pack` does, without TensorFlow."""
    start, separator = tokenizer.start_id, tokenizer.separator_id
    budget = max_seq_length - tokenizer.overhead[second is not None]
    if second is None:
        kept = [*first[:budget]]
        ids = [start, *kept, tokenizer.end_id] if tokenizer.framed else kept or [tokenizer.end_id]
        return ids, [0] * len(ids)
    size = min(len(first), max((budget + 1) // 2, budget - len(second)))
    begin = [start, *first[:size], *[separator] * tokenizer.separators]
    end = [*second[: budget - size], tokenizer.end_id]
    return begin + end, [0] * len(begin) + [int(tokenizer.typed)] * len(end)


def padded(
    tokenizer: PackingRules, packed: Packed, length: int | tf.Tensor | None = None
) -> dict[str, tf.Tensor]:
    """Pads packed sequences to MODEL_INPUTS, int32 [batch, length] each.

    The length is that of the longest sequence unless given.
    """
    if length is None:
        length = tf.maximum(packed.word_ids.bounding_shape(axis=1, out_type=tf.int32), 1)
    shape = [None, length]  # a static length
    if not isinstance(length, int):
        shape = tf.stack([tf.cast(packed.word_ids.nrows(), tf.int32), length])
    values = (
        packed.word_ids.to_tensor(tokenizer.pad_id, shape=shape),
        tf.ones_like(packed.word_ids).to_tensor(0, shape=shape),
        packed.type_ids.to_tensor(0, shape=shape),
    )
    return dict(zip(MODEL_INPUTS, values, strict=True))


class Windows(NamedTuple):
    """Windows of a sliding window over contexts, each after its question; W windows in all."""

    packed: Packed  # W rows
    row: tf.Tensor  # int64 [W], number of the context of each window
    start: tf.Tensor  # int64 [W], the context's token with which a window begins
    offset: tf.Tensor  # int64 [W], position of that token in the sequence
    length: tf.Tensor  # int64 [W], number of context tokens
    # bool [W, (length)], whether a token has more context here than in any other window (the
    # reference's max context).
    best: tf.RaggedTensor


def slide(
    tokenizer: PackingRules,
    question: tf.RaggedTensor,
    context: tf.RaggedTensor,
    max_seq_length: int,
    stride: int,
    max_question: int,
) -> Windows:
    """Packs questions with windows of contexts, as two segments.

    Args:
      tokenizer: its special tokens.
      question: int32 [batch, (tokens)].
      context: int32 [batch, (tokens)].
      max_seq_length: maximum length of a sequence.
      stride: tokens from the start of a window to the start of the next.
      max_question: maximum number of question tokens, at most half of a sequence.
    """
    budget = max_seq_length - tokenizer.overhead[1]
    question = question[:, : min(max_question, budget // 2)]
    capacity = budget - question.row_lengths()
    step = tf.minimum(tf.constant(stride, tf.int64), capacity)
    row, start, length, token, _ = _windows(context, capacity, step)
    window = token.value_rowids()
    ids = tf.gather(context.flat_values, token)
    packed = pack(tokenizer, tf.gather(question, row), ids, max_seq_length)
    offset = tf.gather(question.row_lengths(), row) + 1 + tokenizer.separators
    size = tf.gather(length, window)
    left = tf.range(tf.size(window, tf.int64)) - tf.gather(token.row_starts(), window)
    # In float64 as in the reference, because rounding decides between equal scores.
    score = tf.cast(tf.minimum(left, size - 1 - left), tf.float64)
    score += 0.01 * tf.cast(size, tf.float64)
    # A window has the most context of a token if it is the first with the highest score.
    every, count = token.flat_values, tf.size(context.flat_values, tf.int64)
    highest = tf.gather(tf.math.unsorted_segment_max(score, every, count), every)
    candidate = tf.where(score == highest, window, window.dtype.max)
    best = window == tf.gather(tf.math.unsorted_segment_min(candidate, every, count), every)
    return Windows(packed, row, start, offset, length, token.with_flat_values(best))


def _windows(
    texts: tf.RaggedTensor, capacity: tf.Tensor, step: tf.Tensor, most: int | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.RaggedTensor, tf.Tensor]:
    """Windows of texts, at most `most` of each; their capacities and steps are int64 [batch].

    Returns:
      The text of each window, its first token and its length, int64 [W]; its tokens, counted in the
      whole batch, int64 [W, (length)]; and the number that each text needs, int64 [batch].
    """
    total = texts.row_lengths()
    needed = 1 + tf.maximum(total - capacity + step - 1, 0) // step
    number = tf.ragged.range(needed if most is None else tf.minimum(needed, most))
    row = number.value_rowids()
    start = number.flat_values * tf.gather(step, row)
    length = tf.minimum(tf.gather(total, row) - start, tf.gather(capacity, row))
    first = tf.gather(texts.row_starts(), row) + start
    return row, start, length, tf.ragged.range(first, first + length), needed


def cut_into_windows(
    tokenizer: PackingRules,
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    max_seq_length: int,
    most: int,
    group: tf.Tensor | None = None,
) -> tuple[Packed, tf.Tensor, tf.Tensor]:
    """Packs windows of texts; each begins with the last quarter of the one before.

    Of a pair, windows of the longer text are packed, each with the other one, which is cut if it is
    longer than half of a sequence.

    Args:
      tokenizer: its special tokens.
      first: int32 [batch, (tokens)].
      second: int32 [batch, (tokens)]; None: single texts.
      max_seq_length: maximum length of a sequence, special tokens included.
      most: maximum number of windows of a text, which is cut there.
      group: int64 [batch], in ascending order; pairs of the same group have as many windows, which
        are those of their first text. None: each pair is for itself.

    Returns:
      The windows of all texts; the number of the text of each, int64 [windows]; and whether texts
      are cut, bool [batch].
    """
    budget = tf.cast(max_seq_length - tokenizer.overhead[second is not None], tf.int64)
    if second is None:
        capacity = tf.fill([first.nrows()], budget)
        row, _, _, token, needed = _windows(first, capacity, capacity - capacity // 4, most)
        packed = pack(tokenizer, tf.gather(first.flat_values, token), None, max_seq_length)
        return packed, row, needed > most
    swapped = tf.zeros([first.nrows()], tf.bool)
    if group is None:
        swapped = second.row_lengths() > first.row_lengths()
    long, short = _swapped(first, second, swapped)
    kept = tf.minimum(short.row_lengths(), tf.maximum(budget // 2, budget - long.row_lengths()))
    token = tf.ragged.range(short.row_starts(), short.row_starts() + kept)
    other, is_cut = tf.gather(short.flat_values, token), kept < short.row_lengths()
    if group is not None:
        number = tf.reduce_max(tf.concat([group, [-1]], 0)) + 1
        kept = tf.gather(tf.math.unsorted_segment_max(kept, group, number), group)
    capacity = budget - kept  # 0 if there is no first text, and a second of a whole sequence
    step = tf.maximum(capacity - capacity // 4, 1)
    row, _, _, token, needed = _windows(long, capacity, step, most)
    window = tf.gather(long.flat_values, token)
    texts = _swapped(window, tf.gather(other, row), tf.gather(swapped, row))
    return pack(tokenizer, *texts, max_seq_length), row, is_cut | (needed > most)


def _swapped(
    first: tf.RaggedTensor, second: tf.RaggedTensor, swapped: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Texts [batch, (tokens)], those of some rows changed over; bool [batch]."""
    both, row = tf.concat([first, second], 0), tf.range(first.nrows())
    moved = tf.cast(swapped, tf.int64) * first.nrows()
    return tf.gather(both, row + moved), tf.gather(both, row + first.nrows() - moved)


class Runs(NamedTuple):
    """Words packed into sequences."""

    packed: Packed
    row: tf.Tensor  # int64 [words], number of the sequence of each word
    position: tf.Tensor  # int64 [words], position of its first token in the sequence


def cut_words(
    tokenizer: PackingRules, pieces: tf.RaggedTensor, is_first: tf.Tensor, max_seq_length: int
) -> Runs:
    """Packs texts of words into the fewest sequences of whole words.

    A word that does not fit a sequence alone is truncated.

    Args:
      tokenizer: its special tokens.
      pieces: int32 [batch, (tokens)].
      is_first: bool [tokens of the batch], whether a token begins a word.
      max_seq_length: maximum length of a sequence, special tokens included.
    """
    limit = max_seq_length - tokenizer.overhead[0]
    first = tf.where(is_first)[:, 0]  # of each word
    total = tf.size(pieces.flat_values, tf.int64)
    bounds = tf.concat([first, [total]], 0)
    word_splits = tf.searchsorted(first, pieces.row_splits, out_type=tf.int64)
    begins = _run_starts(bounds, word_splits, tf.constant(limit, tf.int64))
    row = tf.cumsum(begins) - 1
    row_start = tf.gather(first, tf.where(begins > 0)[:, 0])  # the first token of each sequence
    word = tf.cumsum(tf.cast(is_first, tf.int64)) - 1
    token_row = tf.gather(row, word)
    place = tf.range(total) - tf.gather(row_start, token_row)
    kept = place < limit
    ids = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(pieces.flat_values, kept),
        tf.boolean_mask(token_row, kept),
        nrows=tf.reduce_sum(begins),
    )
    packed = pack(tokenizer, ids, None, max_seq_length)
    return Runs(packed, row, first - tf.gather(row_start, row) + int(tokenizer.framed))


def _run_starts(bounds: tf.Tensor, word_splits: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    """Returns 1 for each word that begins a sequence of at most `limit` tokens, else 0."""
    ends = word_splits[1:]

    def step(start: tf.Tensor, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Begins one more sequence in every text that has words left."""
        going = start < ends
        where = tf.boolean_mask(start, going)
        begins = tf.tensor_scatter_nd_update(begins, where[:, tf.newaxis], tf.ones_like(where))
        token = tf.gather(bounds, start)
        fits = tf.searchsorted(bounds, token + limit, side="right", out_type=tf.int64) - 1
        return tf.where(going, tf.minimum(tf.maximum(fits, start + 1), ends), start), begins

    _, begins = tf.while_loop(
        lambda start, _: tf.reduce_any(start < ends),
        step,
        [word_splits[:-1], tf.zeros_like(bounds[:-1])],
        parallel_iterations=1,
    )
    return begins
