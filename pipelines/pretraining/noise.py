"""The noises of BART: what the model reads, of which it restores the text (arXiv 1910.13461, 2.2).

Sentences are permuted first, then words or tokens are hidden, then the text is rotated, as in the
published program.
"""

from typing import NamedTuple

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining.masking import SequenceBlock, SpecialIds
from pipelines.pretraining.settings import ExampleSettings, Noise


class Noised(NamedTuple):
    """A block of noised sequences, int32, and counts."""

    word_ids: np.ndarray  # [sequences, max_seq_length]
    lengths: np.ndarray  # [sequences], without padding
    counts: np.ndarray  # int64 [3]: candidates (words or tokens), those hidden, and spans


class _Noises(NamedTuple):
    """Which noises there are, and their sizes, for compiled loops."""

    permute: bool
    infill: bool
    mask: bool
    delete: bool
    rotate: bool
    share: float
    mean_span: float
    random_fraction: float


def noise(
    sequences: SequenceBlock,
    sentence_starts: np.ndarray,
    special: SpecialIds,
    begins_word: np.ndarray,
    settings: ExampleSettings,
    rng: np.random.Generator,
) -> Noised:
    """Noises sequences; special tokens stay.

    Infilling replaces spans of words by one mask each. Their lengths have a Poisson distribution
    and sum to `noise_fraction` of the words, rounded up; a span of no word inserts a mask. Spans
    begin at words drawn without replacement, so some overlap. `random_fraction` of the masks is a
    random token instead. Masking and deletion hide single tokens.

    Args:
      sequences: the sequences, which do not change.
      sentence_starts: bool [sequences, max_seq_length], whether a token begins a sentence.
      special: ids of the special tokens.
      begins_word: bool [vocab_size], whether a piece begins a word.
      settings: noises and their sizes.
      rng: the only source of randomness.
    """
    permutation, infilling, masking, deletion, rotation = (
        kind in settings.noises for kind in Noise
    )
    noises = _Noises(
        permutation,
        infilling,
        masking,
        deletion,
        rotation,
        settings.noise_fraction,
        settings.mean_span,
        settings.random_fraction,
    )
    ids, lengths = sequences.word_ids, sequences.lengths
    return Noised(*_noise(ids, lengths, sentence_starts, special, begins_word, noises, rng))


@compiled
def _poisson(mean, rng):
    """Draws from a Poisson distribution, by inversion."""
    draw, count, probability = rng.random(), 0, np.exp(-mean)
    while draw >= probability and count < 1000:
        draw -= probability
        count += 1
        probability *= mean / count
    return count


@compiled
def _permuted(tokens, begins, starts, rng):
    """Tokens, and whether they begin words, in another order of the sentences."""
    bounds = np.append(np.flatnonzero(starts), len(tokens))
    count = len(bounds) - 1
    order = np.arange(count)
    for index in range(count - 1, 0, -1):  # a Fisher-Yates shuffle
        other = int(rng.random() * (index + 1))
        order[index], order[other] = order[other], order[index]
    moved, moved_begins = np.empty_like(tokens), np.empty_like(begins)
    at = 0
    for sentence in order:
        first, last = bounds[sentence], bounds[sentence + 1]
        moved[at : at + last - first] = tokens[first:last]
        moved_begins[at : at + last - first] = begins[first:last]
        at += last - first
    return moved, moved_begins


@compiled
def _drawn(count, wanted, rng):
    """Draws some of the numbers below `count`, without replacement."""
    order = np.arange(count)
    for draw in range(wanted):
        other = draw + int(rng.random() * (count - draw))
        order[draw], order[other] = order[other], order[draw]
    return order[:wanted]


@compiled
def _mask_of(special, random_fraction, rng):
    """The mask token, or sometimes a random one."""
    if rng.random() < random_fraction:
        return int(rng.random() * special.vocab_size)
    return special.mask


@compiled
def _infilled(tokens, begins, special, noises, room, counts, rng):
    """Tokens with a mask in place of each span of words; at most `room` of them."""
    words = np.flatnonzero(begins & (tokens != special.separator))
    wanted = int(np.ceil(len(words) * noises.share))
    lengths = np.empty(wanted, np.int64)
    spans = inserts = total = 0
    while total < wanted:
        length = min(_poisson(noises.mean_span, rng), wanted - total)
        total += length
        if length:
            lengths[spans] = length
            spans += 1
        else:
            inserts += 1
    kept = np.ones(len(tokens), np.bool_)
    result = tokens.copy()
    chosen = _drawn(len(words), spans, rng)
    for span in range(spans):
        result[words[chosen[span]]] = _mask_of(special, noises.random_fraction, rng)
    for span in range(spans):
        at = words[chosen[span]] + 1
        left = lengths[span]
        while at < len(tokens) and tokens[at] != special.separator:
            left -= begins[at]
            if left == 0:
                break
            kept[at] = False
            at += 1
    counts[0] += len(words)
    counts[1] += wanted
    result = result[kept]
    inserts = min(inserts, room - len(result))
    counts[2] += spans + inserts
    longer = np.empty(len(result) + inserts, np.int32)
    at = 0
    for place in range(len(longer)):
        if rng.random() * (len(longer) - place) < inserts:
            longer[place] = _mask_of(special, noises.random_fraction, rng)
            inserts -= 1
        else:
            longer[place] = result[at]
            at += 1
    return longer


@compiled
def _hidden(tokens, special, noises, counts, rng):
    """Tokens of which a share is masked, or deleted."""
    places = np.flatnonzero(tokens != special.separator)
    wanted = int(np.ceil(len(places) * noises.share))
    result, kept = tokens.copy(), np.ones(len(tokens), np.bool_)
    for draw in _drawn(len(places), wanted, rng):
        if noises.delete:
            kept[places[draw]] = False
        else:
            result[places[draw]] = _mask_of(special, noises.random_fraction, rng)
    counts[0] += len(places)
    counts[1] += wanted
    counts[2] += wanted
    return result[kept]


@compiled
def _noise(word_ids, lengths, sentence_starts, special, begins_word, noises, rng):
    count, size = word_ids.shape
    noised = np.full((count, size), special.pad, np.int32)
    new_lengths = np.empty(count, np.int32)
    counts = np.zeros(3, np.int64)
    for row in range(count):
        length = lengths[row]
        tokens = word_ids[row, 1 : length - 1].copy()
        starts = sentence_starts[row, 1 : length - 1].copy()
        starts[:1] = True
        begins = np.empty(len(tokens), np.bool_)
        for index in range(len(tokens)):
            of_word = starts[index] or begins_word[tokens[index]]
            after = index > 0 and tokens[index - 1] == special.separator
            begins[index] = of_word or after or tokens[index] == special.separator
        if noises.permute:
            tokens, begins = _permuted(tokens, begins, starts, rng)
        if noises.infill:
            tokens = _infilled(tokens, begins, special, noises, size - 2, counts, rng)
        if noises.mask or noises.delete:
            tokens = _hidden(tokens, special, noises, counts, rng)
        if noises.rotate and len(tokens):
            tokens = np.roll(tokens, int(rng.random() * len(tokens)))
        noised[row, 0] = special.start
        noised[row, 1 : 1 + len(tokens)] = tokens
        noised[row, 1 + len(tokens)] = special.separator
        new_lengths[row] = len(tokens) + 2
    return noised, new_lengths, counts
