"""Sequences from their plan, and the masked-LM procedure (paper, section 3.1)."""

import dataclasses
from typing import NamedTuple

import numba
import numpy as np

from pipelines.pretraining import segments

# What became of a chosen token.
MASKED, RANDOM, KEPT = range(3)


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids that the procedure needs to know."""

    cls: int
    sep: int
    mask: int
    vocab_size: int


class Sequences(NamedTuple):
    """A block of padded sequences, int32 arrays [sequences, ...]."""

    word_ids: np.ndarray  # [sequences, max_seq_length]
    lengths: np.ndarray  # [sequences], special tokens included
    a_lengths: np.ndarray  # [sequences]: [CLS] A [SEP]; the rest is segment 1
    is_random: np.ndarray  # [sequences]: the next-sentence label


class Predictions(NamedTuple):
    """The tokens to predict, positions ascending, zeros behind the last."""

    positions: np.ndarray  # int32 [sequences, max_predictions_per_seq]
    ids: np.ndarray  # int32 [sequences, max_predictions_per_seq]
    counts: np.ndarray  # int32 [sequences]
    outcomes: np.ndarray  # int64 [3]: how many were MASKED, RANDOM, KEPT


def fill(ids: np.ndarray, plan: np.ndarray, max_seq_length: int, special: SpecialIds) -> Sequences:
    """Lays out [CLS] A [SEP] B [SEP], or [CLS] A [SEP] where B is empty.

    Args:
      ids: int32 [tokens], flat token ids.
      plan: int64 [sequences, 5], of `pairs`.
      max_seq_length: sequences are padded to it with id 0.
      special: ids of the special tokens.
    """
    return Sequences(*_fill(ids, plan, max_seq_length, special.cls, special.sep))


def mask(
    sequences: Sequences,
    special: SpecialIds,
    is_suffix: np.ndarray,
    masked_lm_prob: float,
    max_predictions: int,
    whole_word: bool,
    rng: np.random.Generator,
) -> Predictions:
    """Chooses tokens and replaces 80 % of them by [MASK], 10 % by a random token.

    n = min(max_predictions, max(1, round(masked_lm_prob * length))) tokens are
    chosen, the length counting special tokens, which are never chosen.

    Args:
      sequences: changed in place.
      special: ids of the special tokens; a random token is any of the vocabulary.
      is_suffix: bool [vocab_size], true for the pieces that begin with ##.
      masked_lm_prob: share of the tokens to predict.
      max_predictions: the most tokens to predict in a sequence.
      whole_word: choose whole words; one that would overflow n is passed over.
      rng: the only source of chance.
    """
    return Predictions(
        *_mask(
            *sequences[:3],
            is_suffix,
            special.mask,
            special.vocab_size,
            masked_lm_prob,
            max_predictions,
            whole_word,
            rng,
        )
    )


@numba.njit(cache=True)
def _fill(ids, plan, max_seq_length, cls_id, sep_id):
    count = len(plan)
    word_ids = np.zeros((count, max_seq_length), np.int32)
    lengths = np.empty(count, np.int32)
    a_lengths = np.empty(count, np.int32)
    for row in range(count):
        a_start, a_length, b_start, b_length, _ = plan[row]
        sequence = word_ids[row]
        sequence[0] = cls_id
        sequence[1 : 1 + a_length] = ids[a_start : a_start + a_length]
        end = a_length + 2
        sequence[end - 1] = sep_id
        a_lengths[row] = end
        if b_length:
            sequence[end : end + b_length] = ids[b_start : b_start + b_length]
            end += b_length + 1
            sequence[end - 1] = sep_id
        lengths[row] = end
    return word_ids, lengths, a_lengths, plan[:, segments.IS_RANDOM].astype(np.int32)


@numba.njit(cache=True)
def _words(sequence, length, a_length, is_suffix, whole_word, starts):
    """Writes where the candidates (words or single tokens) begin; returns how many there are."""
    count = 0
    for position in range(1, length - 1):
        if position == a_length - 1:  # the [SEP] between the segments
            continue
        begins_segment = position == 1 or position == a_length
        if begins_segment or not (whole_word and is_suffix[sequence[position]]):
            starts[count] = position
            count += 1
    return count


@numba.njit(cache=True)
def _mask(
    word_ids,
    lengths,
    a_lengths,
    is_suffix,
    mask_id,
    vocab_size,
    masked_lm_prob,
    max_predictions,
    whole_word,
    rng,
):
    count, max_seq_length = word_ids.shape
    positions = np.zeros((count, max_predictions), np.int32)
    labels = np.zeros((count, max_predictions), np.int32)
    counts = np.zeros(count, np.int32)
    outcomes = np.zeros(3, np.int64)
    starts = np.empty(max_seq_length, np.int64)
    chosen = np.empty(max_seq_length, np.bool_)
    for row in range(count):
        sequence, length = word_ids[row], lengths[row]
        words = _words(sequence, length, a_lengths[row], is_suffix, whole_word, starts)
        wanted = min(max_predictions, max(1, int(np.rint(length * masked_lm_prob))))
        chosen[:length] = False
        found = 0
        for draw in range(words):  # a Fisher-Yates shuffle, as far as it is needed
            if found >= wanted:
                break
            other = draw + int(rng.random() * (words - draw))
            starts[draw], starts[other] = starts[other], starts[draw]
            first = starts[draw]
            end = first + 1
            if whole_word:
                while end < length - 1 and end != a_lengths[row] - 1 and is_suffix[sequence[end]]:
                    end += 1
            if found + end - first > wanted:
                continue
            chosen[first:end] = True
            found += end - first
        slot = 0
        for position in range(1, length - 1):
            if not chosen[position]:
                continue
            positions[row, slot] = position
            labels[row, slot] = sequence[position]
            slot += 1
            draw = rng.random()
            if draw < 0.8:
                sequence[position] = mask_id
                outcomes[0] += 1
            elif draw < 0.9:
                sequence[position] = int(rng.random() * vocab_size)
                outcomes[1] += 1
            else:
                outcomes[2] += 1
        counts[row] = slot
    return positions, labels, counts, outcomes
