"""Masking for masked language modelling (paper, section 3.1)."""

from typing import NamedTuple

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers.base import Tokenizer

# Outcomes for a chosen token.
MASKED, RANDOM, KEPT = range(3)


class SpecialIds(NamedTuple):
    """Properties of a tokenizer for compiled loops."""

    start: int
    separator: int
    mask: int
    pad: int
    separators: int  # number between two segments
    vocab_size: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "SpecialIds":
        return cls(
            tokenizer.start_id,
            tokenizer.separator_id,
            tokenizer.mask_id,
            tokenizer.pad_id,
            tokenizer.separators,
            len(tokenizer.vocabulary),
        )


class SequenceBlock(NamedTuple):
    """A block of padded sequences, int32."""

    word_ids: np.ndarray  # [sequences, max_seq_length]
    lengths: np.ndarray  # [sequences], without padding
    a_lengths: np.ndarray  # [sequences], of segment 0: start token, A and separators


class Predictions(NamedTuple):
    """The tokens to predict, by ascending positions, padded with zeros."""

    positions: np.ndarray  # int32 [sequences, max_predictions_per_seq]
    ids: np.ndarray  # int32 [sequences, max_predictions_per_seq]
    counts: np.ndarray  # int32 [sequences]
    outcomes: np.ndarray  # int64 [3]: numbers of MASKED, RANDOM and KEPT tokens


def mask(
    sequences: SequenceBlock,
    special: SpecialIds,
    begins_word: np.ndarray,
    settings: ExampleSettings,
    rng: np.random.Generator,
) -> Predictions:
    """Chooses tokens and replaces most of them by [MASK] or a random token.

    The number of chosen tokens is min(max_predictions_per_seq, max(1, round(masked_lm_prob *
    length))), where the length includes special tokens, which are never chosen. With
    `whole_word_mask`, whole words are chosen; a word that would exceed the number is skipped. With
    `max_ngram`, runs of them are.

    Args:
      sequences: changed in place.
      special: ids of the special tokens; a random token is any token of the vocabulary.
      begins_word: bool [vocab_size], whether a piece begins a word.
      settings: numbers and probabilities.
      rng: the only source of randomness.
    """
    return _mask(
        sequences,
        special,
        begins_word,
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
        settings.whole_word_mask,
        settings.max_ngram,
        settings.mask_fraction,
        settings.mask_fraction + settings.random_fraction,
        rng,
    )


@compiled
def _words(sequence, length, begins_word, separator, whole_word, starts):
    """Writes the positions of candidates (words or tokens) to `starts`; returns their number."""
    count = 0
    for position in range(1, length - 1):
        if sequence[position] == separator:
            continue
        begins_segment = position == 1 or sequence[position - 1] == separator
        if begins_segment or begins_word[sequence[position]] or not whole_word:
            starts[count] = position
            count += 1
    return count


@compiled
def _end(sequence, first, length, begins_word, separator, whole_word):
    """Returns the position after the candidate that begins at `first`."""
    end = first + 1
    if whole_word:
        while end < length - 1 and not begins_word[sequence[end]]:
            if sequence[end] == separator:
                break
            end += 1
    return end


@compiled
def _choose(sequence, length, begins_word, separator, wanted, whole_word, starts, chosen, rng):
    """Marks up to `wanted` tokens as chosen; the tokens of a word together."""
    words = _words(sequence, length, begins_word, separator, whole_word, starts)
    found = 0
    for draw in range(words):  # a partial Fisher-Yates shuffle
        if found >= wanted:
            break
        other = draw + int(rng.random() * (words - draw))
        starts[draw], starts[other] = starts[other], starts[draw]
        first = starts[draw]
        end = _end(sequence, first, length, begins_word, separator, whole_word)
        if found + end - first > wanted:
            continue
        chosen[first:end] = True
        found += end - first


@compiled
def _choose_ngrams(starts, ends, wanted, max_ngram, chosen, rng):
    """Marks up to `wanted` tokens as chosen, in runs of 1 to `max_ngram` candidates.

    As in google-research/albert: a run of n is drawn with a probability in proportion to 1/n, and
    is shortened until it fits; one that overlaps with another is dropped.
    """
    words = len(starts)
    order = np.arange(words)
    found = 0
    for draw in range(words):
        if found >= wanted:
            break
        other = draw + int(rng.random() * (words - draw))
        order[draw], order[other] = order[other], order[draw]
        word = order[draw]
        most = min(max_ngram, words - word)
        lot = rng.random() * (1 / np.arange(1, most + 1)).sum()
        size = 1
        while size < most and lot >= 1 / size:
            lot -= 1 / size
            size += 1
        while size and found + (ends - starts)[word : word + size].sum() > wanted:
            size -= 1
        taken = False
        for index in range(word, word + size):
            taken |= chosen[starts[index] : ends[index]].any()
        if taken:
            continue
        for index in range(word, word + size):
            chosen[starts[index] : ends[index]] = True
            found += ends[index] - starts[index]


@compiled
def _mask(
    sequences,
    special,
    begins_word,
    masked_lm_prob,
    max_predictions,
    whole_word,
    max_ngram,
    mask_below,
    random_below,
    rng,
):
    word_ids, lengths = sequences.word_ids, sequences.lengths
    separator = special.separator
    count, max_seq_length = word_ids.shape
    positions = np.zeros((count, max_predictions), np.int32)
    labels = np.zeros((count, max_predictions), np.int32)
    counts = np.zeros(count, np.int32)
    outcomes = np.zeros(3, np.int64)
    starts, ends = np.empty(max_seq_length, np.int64), np.empty(max_seq_length, np.int64)
    chosen = np.empty(max_seq_length, np.bool_)
    for row in range(count):
        sequence, length = word_ids[row], lengths[row]
        wanted = min(max_predictions, max(1, int(np.rint(length * masked_lm_prob))))
        chosen[:length] = False
        if max_ngram == 1:
            _choose(
                sequence, length, begins_word, separator, wanted, whole_word, starts, chosen, rng
            )
        else:
            words = _words(sequence, length, begins_word, separator, whole_word, starts)
            for word in range(words):
                ends[word] = _end(
                    sequence, starts[word], length, begins_word, separator, whole_word
                )
            _choose_ngrams(starts[:words], ends[:words], wanted, max_ngram, chosen, rng)
        slot = 0
        for position in range(1, length - 1):
            if not chosen[position]:
                continue
            positions[row, slot] = position
            labels[row, slot] = sequence[position]
            slot += 1
            draw = rng.random()
            if draw < mask_below:
                sequence[position] = special.mask
                outcomes[0] += 1
            elif draw < random_below:
                sequence[position] = int(rng.random() * special.vocab_size)
                outcomes[1] += 1
            else:
                outcomes[2] += 1
        counts[row] = slot
    return Predictions(positions, labels, counts, outcomes)
