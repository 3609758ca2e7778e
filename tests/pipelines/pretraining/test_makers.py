"""Sentence pairs: statistics and bounds."""

import numpy as np
import pytest

from pipelines.pretraining.makers import segments
from pipelines.pretraining.makers.base import TokenizedDocuments
from pipelines.pretraining.settings import ExampleSettings, Objective

LENGTH = 64


def documents(count=400, seed=0, sections=1):
    rng = np.random.default_rng(seed)
    per_document = rng.integers(2, 30, count)
    lengths = rng.integers(1, 40, per_document.sum())
    keys = np.arange(count, dtype=np.uint64) // sections
    return TokenizedDocuments(
        np.arange(lengths.sum(), dtype=np.int32) + 5,
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([[0], np.cumsum(per_document)]),
        keys,
    )


def rng(seed=1):
    return np.random.Generator(np.random.Philox(seed))


def document_of(data, position):
    sentence = np.searchsorted(data.sentence_starts, position, side="right") - 1
    return np.searchsorted(data.document_starts, sentence, side="right") - 1


def test_half_of_the_pairs_are_random_where_there_is_a_choice():
    data = documents(3000)
    plan = segments.plan_pairs(data, LENGTH - 3, 0.1, rng())
    # A chunk of one sentence has no choice; with this many per chunk they are rare.
    share = plan[:, segments.LABEL].mean()
    assert 0.5 < share < 0.62
    assert len(plan) > 10_000


def test_one_in_ten_documents_aims_at_short_sequences():
    data = documents(4000)
    never = segments.plan_pairs(data, LENGTH - 3, 0.0, rng())
    some = segments.plan_pairs(data, LENGTH - 3, 0.1, rng())
    always = segments.plan_pairs(data, LENGTH - 3, 1.0, rng())
    assert len(never) < len(some) < len(always)
    extra = (len(some) - len(never)) / (len(always) - len(never))
    assert 0.07 < extra < 0.13


def test_truncation_takes_from_both_ends():
    data = TokenizedDocuments(
        np.arange(400, dtype=np.int32), np.arange(0, 401, 100), np.array([0, 2, 4]), np.arange(2, dtype=np.uint64)
    )  # fmt: skip
    starts = np.concatenate(
        [
            segments.plan_pairs(data, LENGTH - 3, 0.0, rng(seed))[:, segments.A_START] % 100
            for seed in range(50)
        ]
    )
    cut = 100 - (LENGTH - 3) // 2
    assert 0.35 * cut < starts.mean() < 0.65 * cut


@pytest.mark.parametrize("in_order", [False, True])
def test_one_document_has_no_random_next_sentence(in_order):
    """As in a part of a unit that one long document fills."""
    plan = segments.plan_pairs(documents(2, sections=2), LENGTH - 3, 0.1, rng(), in_order)
    assert len(plan) and plan[:, [segments.A_LENGTH, segments.B_LENGTH]].min() > 0
    assert plan[:, segments.LABEL].any() == in_order
    a_end = plan[:, segments.A_START] + plan[:, segments.A_LENGTH]
    follows = plan[:, segments.B_START] >= a_end
    assert (follows == (plan[:, segments.LABEL] == 0)).all()


def test_short_spans_are_whole_sentences():
    """As in google-research/bert: sentences are added until the short target is reached."""
    data = documents(300)  # of sentences below 40 tokens
    plan = segments.plan_spans(data, 62, 1.0, rng())
    ends = plan[:, segments.A_START] + plan[:, segments.A_LENGTH]
    assert np.isin(plan[:, segments.A_START], data.sentence_starts).all()
    assert np.isin(ends, data.sentence_starts).all()
    full = segments.plan_spans(data, 62, 0.0, rng())
    assert plan[:, segments.A_LENGTH].mean() < 0.8 * full[:, segments.A_LENGTH].mean()


def test_half_of_ordered_pairs_are_swapped():
    data = documents(3000)
    plan = segments.plan_pairs(data, LENGTH - 3, 0.1, rng(), in_order=True)
    key_a = data.document_keys[document_of(data, plan[:, segments.A_START])]
    key_b = data.document_keys[document_of(data, plan[:, segments.B_START])]
    follows = plan[:, segments.B_START] > plan[:, segments.A_START]
    same, label = key_a == key_b, plan[:, segments.LABEL] == 1
    assert same.mean() > 0.8  # the others are chunks of one sentence
    assert label[~same].all()
    assert (follows[same] == ~label[same]).all()
    assert 0.48 < label[same].mean() < 0.52


def test_segments_follow_each_other_and_are_about_as_long():
    data = documents(1000)
    settings = ExampleSettings(
        objective=Objective.REPLACED_TOKEN, max_seq_length=LENGTH, max_predictions_per_seq=9
    )
    maker = segments.SentenceSegments(settings, SimpleTokenizer())
    plan, spans = maker.plan(data, rng()), segments.plan_spans(data, LENGTH - 3, 0.1, rng())
    two = plan[:, segments.B_LENGTH] > 0
    end = plan[:, segments.A_START] + plan[:, segments.A_LENGTH]
    assert (plan[two, segments.B_START] == end[two]).all()
    total = plan[:, segments.A_LENGTH] + plan[:, segments.B_LENGTH]
    assert (total == spans[:, segments.A_LENGTH]).all()
    assert np.isin(end[two], data.sentence_starts).all()
    has_boundary = np.array([
        np.searchsorted(data.sentence_starts, start + length) - np.searchsorted(data.sentence_starts, start, "right") > 0
        for start, length in spans[:, :2]
    ])  # fmt: skip
    assert 0.88 < two[has_boundary].mean() < 0.92 and not two[~has_boundary].any()
    share = plan[two, segments.A_LENGTH] / total[two]
    assert 0.45 < share.mean() < 0.55


class SimpleTokenizer:
    """What a maker reads of a tokenizer."""

    start_id, separator_id, mask_id, pad_id, separators = 2, 3, 4, 0, 1
    typed, overhead, vocabulary = True, (2, 3), range(1000)
    begins_word = np.ones(1000, bool)
