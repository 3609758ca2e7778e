"""Masks of any sequences: how many, of what, and that labels bring the original back."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.pretraining import masking
from pipelines.pretraining.settings import ExampleSettings
from tests import strategies

_LENGTH, _VOCABULARY = 48, 60
_SPECIAL = masking.SpecialIds(2, 3, 4, 0, 1, _VOCABULARY)


@st.composite
def _sequences(draw):
    """[CLS] A [SEP] B [SEP], some with separators within, as full sentences have them."""
    count = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(strategies.seeds()))
    rows = np.zeros((count, _LENGTH), np.int32)
    lengths = rng.integers(3, _LENGTH + 1, count).astype(np.int32)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = rng.integers(5, _VOCABULARY, length)
        row[rng.integers(1, length, rng.integers(0, 4))] = 3
        row[0], row[length - 1] = 2, 3
    return masking.SequenceBlock(rows, lengths, lengths.copy())


@st.composite
def _settings(draw):
    mask_fraction = draw(st.sampled_from([0.0, 0.5, 0.8, 1.0]))
    return ExampleSettings(
        max_seq_length=_LENGTH,
        max_predictions_per_seq=draw(st.integers(1, 20)),
        masked_lm_prob=draw(st.floats(0.01, 0.99)),
        whole_word_mask=draw(st.booleans()),
        mask_fraction=mask_fraction,
        random_fraction=draw(st.sampled_from([0.0, 1 - mask_fraction, (1 - mask_fraction) / 2])),
    )


@given(_sequences(), _settings(), strategies.seeds())
def test_masks(data, settings, seed):
    begins_word = np.random.default_rng(seed).random(_VOCABULARY) < 0.5
    before = data.word_ids.copy()
    rng = np.random.Generator(np.random.Philox(seed))
    found = masking.mask(data, _SPECIAL, begins_word, settings, rng)
    replaced = 0  # by a token that is neither the mask nor what was there
    for row, length in enumerate(data.lengths.tolist()):
        count = int(found.counts[row])
        positions = found.positions[row, :count].tolist()
        assert positions == sorted(set(positions))
        assert not found.positions[row, count:].any() and not found.ids[row, count:].any()
        words = _words(before[row, :length], begins_word, settings.whole_word_mask)
        whole = {position for word in words for position in word}
        assert whole >= set(positions)  # never a special token, never padding
        wanted = min(
            settings.max_predictions_per_seq, max(1, round(length * settings.masked_lm_prob))
        )
        _check_count(count, wanted, words, positions)
        # The labels restore the original; all else is as it was.
        after, restored = data.word_ids[row], data.word_ids[row].copy()
        restored[positions] = found.ids[row, :count]
        assert (restored == before[row]).all()
        changed = after[positions]
        assert ((changed >= 0) & (changed < _VOCABULARY)).all()
        replaced += int(((changed != 4) & (changed != before[row, positions])).sum())
    assert found.outcomes.sum() == found.counts.sum()
    assert replaced <= found.outcomes[masking.RANDOM]
    kept = 1 - settings.mask_fraction - settings.random_fraction
    for share, outcome in ((settings.mask_fraction, 0), (settings.random_fraction, 1), (kept, 2)):
        assert share > 1e-9 or found.outcomes[outcome] == 0


def _words(sequence, begins_word, whole_word):
    """Positions of the candidates, in plain Python: words, or single tokens."""
    words = []
    for position, token in enumerate(sequence.tolist()):
        if position == 0 or token == 3:
            continue
        follows = position > 1 and sequence[position - 1] != 3
        if whole_word and follows and not begins_word[token]:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def _check_count(count, wanted, words, positions):
    """As many as are wanted; of words all or nothing, and none that would fit is passed over."""
    chosen = set(positions)
    assert all(chosen.issuperset(word) or chosen.isdisjoint(word) for word in words)
    left = [len(word) for word in words if word[0] not in chosen]
    assert count <= wanted
    assert not left or count + min(left) > wanted
