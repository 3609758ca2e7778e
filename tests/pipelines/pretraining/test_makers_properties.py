"""Pairs, spans and full sentences of any documents: what is in them, and that nothing is lost."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.pretraining import masking
from pipelines.pretraining.makers import segments
from pipelines.pretraining.makers.running_text import FullSentences
from pipelines.pretraining.settings import ExampleSettings, Objective, SequenceKind
from tests import strategies, tokenizers
from tests.pipelines.pretraining import written

_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
_TOKENIZER = tokenizers.wordpiece(_TOKENS)
_LENGTHS = st.lists(
    st.lists(st.integers(1, 12) | st.integers(1, 60), min_size=1, max_size=9),
    min_size=1,
    max_size=9,
)


def _rng(seed):
    return np.random.Generator(np.random.Philox(seed))


def _document_of(documents, position):
    bounds = documents.sentence_starts[documents.document_starts]
    return int(np.searchsorted(bounds, position, side="right")) - 1


@given(
    _LENGTHS.filter(lambda found: len(found) > 1),
    st.data(),
    st.integers(5, 40),
    st.sampled_from([0.0, 0.1, 1.0]),
    strategies.seeds(),
)
def test_pairs(lengths, data, budget, short, seed):
    """Two segments that fit, each within a document; a next one follows, a random one is foreign."""
    keys = data.draw(st.lists(st.integers(0, 3), min_size=len(lengths), max_size=len(lengths)))
    documents = written.documents(lengths, sorted(keys))
    plan = segments.plan_pairs(documents, budget, short, _rng(seed))
    assert (plan == segments.plan_pairs(documents, budget, short, _rng(seed))).all()
    starts = set(documents.sentence_starts.tolist())
    begun = []
    for a, a_length, b, b_length, is_random in plan.tolist():
        assert a_length >= 1 and b_length >= 1 and a_length + b_length <= budget
        parts = [_document_of(documents, a), _document_of(documents, b)]
        ends = [_document_of(documents, e) for e in (a + a_length - 1, b + b_length - 1)]
        assert parts == ends
        key_a, key_b = (int(documents.document_keys[d]) for d in parts)
        assert (key_a != key_b) if is_random else parts[0] == parts[1]
        cut = a_length + b_length == budget  # only then tokens were taken from ends
        if not cut:
            assert {a, a + a_length, b, b + b_length} <= starts
        if not is_random:
            assert b >= a + a_length and (cut or b == a + a_length)
        begun.append((parts[0], a))
    assert begun == sorted(begun)
    if len(set(keys)) > 1:
        assert {document for document, _ in begun} == set(range(len(lengths)))
    else:
        assert not plan[:, segments.LABEL].any()


@given(_LENGTHS, st.integers(10, 40), strategies.seeds())
def test_every_sentence_is_in_a_pair(lengths, length, seed):
    """Where nothing is too long, A and next B of the plan leave no sentence of a document out.

    But for the sentences that B takes the place of, which go back and begin the next pair.
    """
    budget = 2 * sum(map(sum, lengths)) + length
    documents = written.documents([*lengths, [1]])
    plan = segments.plan_pairs(documents, budget, 0.0, _rng(seed))
    seen = np.zeros(len(documents.ids), int)
    for a, a_length, b, b_length, is_random in plan.tolist():
        seen[a : a + a_length] += 1
        if not is_random:
            seen[b : b + b_length] += 1
    assert (seen == 1).all()


@given(_LENGTHS, st.integers(2, 40), st.sampled_from([0.0, 0.5, 1.0]), strategies.seeds())
def test_spans_hold_each_token_once_and_whole_sentences(lengths, budget, short, seed):
    documents = written.documents(lengths)
    plan = segments.plan_spans(documents, budget, short, _rng(seed))
    assert not plan[:, [segments.B_LENGTH, segments.LABEL]].any()
    taken = [list(range(a, a + n)) for a, n in plan[:, : segments.B_START].tolist()]
    assert [token for row in taken for token in row] == list(range(len(documents.ids)))
    starts = set(documents.sentence_starts.tolist())
    sizes = np.diff(documents.sentence_starts)
    for row in taken:
        assert 1 <= len(row) <= budget
        assert _document_of(documents, row[0]) == _document_of(documents, row[-1])
        sentence = int(np.searchsorted(documents.sentence_starts, row[-1], side="right")) - 1
        if row[-1] + 1 not in starts:  # only sentences that exceed the maximum are cut
            assert len(row) == budget < sizes[sentence]


@given(_LENGTHS, st.integers(8, 40))
def test_full_sentences_hold_each_token_once_with_separators_between_documents(lengths, length):
    documents = written.documents(lengths)
    settings = ExampleSettings(
        objective=Objective.MLM,
        max_seq_length=length,
        max_predictions_per_seq=2,
        sequences=SequenceKind.FULL_SENTENCES,
    )
    maker = FullSentences(settings, _TOKENIZER)
    found = maker.fill(documents, maker.plan(documents, _rng(0)))
    rows = [
        row[:size]
        for row, size in zip(found.word_ids.tolist(), found.lengths.tolist(), strict=True)
    ]
    assert found.word_ids.shape == (len(rows), length)
    assert found.a_lengths.tolist() == found.lengths.tolist()
    assert [token for row in rows for token in row if token >= 5] == documents.ids.tolist()
    bounds = (documents.sentence_starts[documents.document_starts] + 5).tolist()
    sentences = set((documents.sentence_starts + 5).tolist())
    for row in rows:
        assert row[0] == 2 and row[-1] == 3 and len(row) <= length and 0 not in row
        inner = [row[i + 1] for i, token in enumerate(row[:-1]) if token == 3]
        # A separator stands where a document begins within a sequence, and nowhere else.
        assert inner == [token for token in row[2:-1] if token in bounds]
    for row, following in itertools.pairwise(rows):
        begin = following[1]
        start = max(bound for bound in sentences if bound <= begin)
        size = min(bound for bound in sentences if bound > begin) - start
        if begin == start:
            # Full: the next sentence, with a separator where it begins a document, would not fit.
            assert len(row) + size + (begin in bounds) > length
        else:  # only sentences that exceed the maximum are cut, into full sequences
            assert len(row) == length < size + 2


@given(_LENGTHS.filter(lambda found: len(found) > 1), st.sampled_from([1, 2]), strategies.seeds())
def test_sequences_are_laid_out_as_they_were_planned(lengths, separators, seed):
    documents = written.documents(lengths)
    special = masking.SpecialIds(2, 3, 4, 0, separators, 1000)
    for maker in (segments.plan_pairs, segments.plan_spans):
        plan = maker(documents, 20, 0.5, _rng(seed))
        found = segments.fill(documents.ids, plan, 24, special)
        for row, (a, a_length, b, b_length, _) in enumerate(plan.tolist()):
            wanted = [2, *documents.ids[a : a + a_length], *[3] * (separators if b_length else 1)]
            assert found.a_lengths[row] == len(wanted)
            wanted += [*documents.ids[b : b + b_length], 3] if b_length else []
            assert found.lengths[row] == len(wanted)
            assert found.word_ids[row].tolist() == wanted + [0] * (24 - len(wanted))
