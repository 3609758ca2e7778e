"""Masks drawn on the device, of any sequences and settings of a fixed shape."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.objectives.dynamic_masking import DynamicMasking

_LENGTH, _ROWS, _VOCABULARY, _SPECIAL = 24, 32, 40, (0, 2, 3, 4)


@given(
    share=st.floats(0.01, 0.99),
    most=st.integers(1, 20),
    mask_fraction=st.sampled_from([0.0, 0.4, 0.8, 1.0]),
    rest=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**31 - 1),
)
def test_masks(share, most, mask_fraction, rest, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, _LENGTH + 1, _ROWS)
    mask = (np.arange(_LENGTH) < lengths[:, np.newaxis]).astype(np.int32)
    ids = rng.integers(0, _VOCABULARY, (_ROWS, _LENGTH)).astype(np.int32) * mask
    random_fraction = rest * (1 - mask_fraction)
    masking = DynamicMasking(
        _SPECIAL, 4, _VOCABULARY, {_LENGTH: most}, share, mask_fraction, random_fraction
    )
    batch = {"input_word_ids": tf.constant(ids), "input_mask": tf.constant(mask)}
    found = {k: v.numpy() for k, v in masking(batch, tf.constant(seed)).items()}
    again = masking(batch, tf.constant(seed))
    assert all((found[name] == again[name].numpy()).all() for name in found)
    assert {name: value.dtype for name, value in found.items() if name.startswith("masked")} == {
        "masked_lm_positions": "i4", "masked_lm_ids": "i4", "masked_lm_weights": "f4",
    }  # fmt: skip
    replaced = []
    for row in range(_ROWS):
        count = int(found["masked_lm_weights"][row].sum())
        assert found["masked_lm_weights"][row].tolist() == [1.0] * count + [0.0] * (most - count)
        positions = found["masked_lm_positions"][row]
        assert positions[:count].tolist() == sorted(set(positions[:count].tolist()))
        assert not positions[count:].any() and not found["masked_lm_ids"][row, count:].any()
        candidates = np.flatnonzero(mask[row].astype(bool) & ~np.isin(ids[row], _SPECIAL))
        assert set(positions[:count]) <= set(candidates)
        wanted = min(most, max(1, round(share * int(lengths[row]))))
        assert count == min(wanted, len(candidates))
        after = found["input_word_ids"][row]
        restored = after.copy()
        restored[positions[:count]] = found["masked_lm_ids"][row, :count]
        assert (restored == ids[row]).all()
        assert ((after >= 0) & (after < _VOCABULARY)).all()
        replaced += zip(after[positions[:count]], ids[row][positions[:count]], strict=True)
    if mask_fraction == 1:
        assert all(new == 4 for new, _ in replaced)
    if not random_fraction:
        assert all(new in (4, old) for new, old in replaced)
