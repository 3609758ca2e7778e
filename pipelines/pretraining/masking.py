"""Masking for masked language modelling (Devlin et al., sections 3.1 and A.1)."""

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
    is_start: np.ndarray | None = None,
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
      is_start: bool [sequences, max_seq_length], where sentences begin, which are words' beginnings
        whatever their pieces; None: nowhere.
    """
    return _mask(
        sequences,
        special,
        begins_word,
        np.zeros(sequences.word_ids.shape, np.bool_) if is_start is None else is_start,
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
        settings.whole_word_mask,
        settings.max_ngram,
        settings.mask_fraction,
        settings.mask_fraction + settings.random_fraction,
        rng,
    )


@compiled
def _mask(
    sequences,
    special,
    begins_word,
    is_start,
    masked_lm_prob,
    max_predictions,
    whole_word,
    max_ngram,
    mask_below,
    random_below,
    rng,
):
    word_ids, lengths = sequences.word_ids, sequences.lengths
    count, max_seq_length = word_ids.shape
    positions = np.zeros((count, max_predictions), np.int32)
    labels = np.zeros((count, max_predictions), np.int32)
    counts = np.zeros(count, np.int32)
    outcomes = np.zeros(3, np.int64)
    bounds = np.empty((2, max_seq_length), np.int64)  # starts and ends of candidates
    chosen = np.empty(max_seq_length, np.bool_)
    for row in range(count):
        sequence, length = word_ids[row], lengths[row]
        # Candidates are all tokens but the special ones or, in whole-word masking, words: a first
        # piece and the pieces that continue it (##) in its segment. A sentence begins one, whose
        # first piece may lack the mark of a word (the Ġ of byte-level BPE).
        words = 0
        for position in range(1, length - 1):
            if sequence[position] == special.separator:
                continue
            follows = position > 1 and sequence[position - 1] != special.separator
            begins = begins_word[sequence[position]] or is_start[row, position]
            if not (whole_word and follows and not begins):
                bounds[0, words] = position
                words += 1
            bounds[1, words - 1] = position + 1
        wanted = min(max_predictions, max(1, int(np.rint(length * masked_lm_prob))))
        chosen[:length] = False
        _choose(bounds[0, :words], bounds[1, :words], wanted, max_ngram, chosen, rng)
        # "(1) the [MASK] token 80% of the time (2) a random token 10% of the time (3) the unchanged
        # i-th token 10% of the time" (section 3.1): fine-tuning never sees a [MASK], and so the
        # model cannot rely on unmasked tokens to be right.
        for position in range(1, length - 1):
            if not chosen[position]:
                continue
            positions[row, counts[row]] = position
            labels[row, counts[row]] = sequence[position]
            counts[row] += 1
            draw = rng.random()
            if draw < mask_below:
                sequence[position] = special.mask
                outcomes[MASKED] += 1
            elif draw < random_below:  # of the whole vocabulary, as in the published program
                sequence[position] = int(rng.random() * special.vocab_size)
                outcomes[RANDOM] += 1
            else:
                outcomes[KEPT] += 1
    return Predictions(positions, labels, counts, outcomes)


@compiled
def _choose(starts, ends, wanted, max_ngram, chosen, rng):
    """Marks up to `wanted` tokens as chosen, in runs of 1 to `max_ngram` candidates.

    Candidates are taken in random order (a partial Fisher-Yates shuffle). A run that exceeds
    `wanted` is shortened until it fits, a single word that does is skipped, and a run that overlaps
    with another is dropped, as in google-research/bert and albert.
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
        size = 1
        if max_ngram > 1:  # runs of n have probabilities in proportion to 1/n
            most = min(max_ngram, words - word)
            lot = rng.random() * (1 / np.arange(1, most + 1)).sum()
            while size < most and lot >= 1 / size:
                lot -= 1 / size
                size += 1
        tokens = 0
        for index in range(word, word + size):
            tokens += ends[index] - starts[index]
        while size and found + tokens > wanted:
            size -= 1
            tokens -= ends[word + size] - starts[word + size]
        taken = False
        for index in range(word, word + size):
            taken |= chosen[starts[index]]
        if taken:
            continue
        found += tokens
        for index in range(word, word + size):
            chosen[starts[index] : ends[index]] = True
