"""Guesses without a model, on counts made by hand."""

import numpy as np
import pytest

from bert_tf.pretraining import baselines


def batch(rows, masked):
    """Rows of ids; `masked` gives, for each row, a position whose original stays its label."""
    ids = np.array(rows)
    position = np.array(masked)[:, np.newaxis]
    labels = np.take_along_axis(ids, position, 1)
    seen = ids.copy()
    np.put_along_axis(seen, position, 4, 1)
    return {
        "input_word_ids": seen,
        "input_mask": (ids > 0).astype(int),
        "masked_lm_positions": position,
        "masked_lm_ids": labels,
        "masked_lm_weights": np.ones_like(position, float),
    }


def test_guesses_are_those_of_the_counts():
    training = [batch([[2, 7, 8, 9, 3], [2, 7, 8, 7, 3], [2, 7, 8, 8, 3]], [2, 1, 3])]
    held_out = [batch([[2, 7, 8, 9, 3], [2, 7, 9, 8, 3], [2, 8, 7, 9, 3]], [2, 2, 2])]
    found = baselines.guess(training, held_out, 10, (0, 1, 2, 3, 4))
    # Most frequent: 7 or 8, four each; the first is taken. Labels: 8, 9, 7.
    assert found.unigram_accuracy == pytest.approx(1 / 3)
    # After 7 comes 8; after 8 any of 9, 7, 8, once each.
    assert found.left_accuracy in (pytest.approx(1 / 3), pytest.approx(2 / 3))
    # Before 9 comes 8; before 8 comes 7 (three times); so 8, 7 and 8.
    assert found.right_accuracy == pytest.approx(1 / 3)


def test_special_tokens_are_never_guessed():
    training = [batch([[2, 3, 2, 3, 5]], [4])]
    held_out = [batch([[2, 5, 3]], [1])]
    assert baselines.guess(training, held_out, 10, (0, 1, 2, 3, 4)).unigram_accuracy == 1
