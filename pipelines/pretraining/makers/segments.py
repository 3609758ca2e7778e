"""Sequences of one or two segments of whole sentences, such as pairs (paper, appendix A.2).

The loops are the paper's procedure, one draw of a seeded generator at a time, compiled by numba.
"""

import collections
from typing import ClassVar

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining.makers.base import ExampleMaker, FeatureArrays, TokenizedDocuments
from pipelines.pretraining.masking import SequenceBlock
from pipelines.pretraining.settings import Objective

# Columns of a plan: the ranges of segments A and B in the flat ids, and the label.
A_START, A_LENGTH, B_START, B_LENGTH, LABEL = range(5)
COLUMNS = 5
_SINGLE_PROB = 0.1  # of one segment instead of two, in ELECTRA's sequences


class _Segments(ExampleMaker):
    """Sequences of one or two segments; B is empty if there is one."""

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> SequenceBlock:
        return fill(documents.ids, plan, self.settings.max_seq_length, self.special)


class SentencePairs(_Segments):
    """[CLS] A [SEP] B [SEP], where B follows A or is of another document (Devlin et al., 3.1)."""

    segments: ClassVar[int] = 2
    least_documents: ClassVar[int] = 2

    @classmethod
    def refusal(cls, documents: int, single: bool) -> str:
        """Returns that there is one document, or one sentence in each."""
        remedy = (
            "Sentence pairs are impossible; train without them (--objective=mlm), or check "
            "the format (--format): in `sentences` a blank line ends a document, in `prose` each "
            "file is one document, in `jsonl` each line is."
        )
        if documents == 1:
            return f"the corpus is one document, so no sentence is from another. {remedy}"
        if single:
            return f"every document is a single sentence, so none has a next one. {remedy}"
        return ""

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        in_order = self.settings.objective is Objective.MLM_SOP
        return plan_pairs(documents, self.budget, self.settings.short_seq_prob, rng, in_order)

    def features(
        self, documents: TokenizedDocuments, plan: np.ndarray, rng: np.random.Generator
    ) -> tuple[FeatureArrays, collections.Counter[str]]:
        """Adds the label: whether the second segment is random, or the first one follows it."""
        features, counts = super().features(documents, plan, rng)
        labels = plan[:, LABEL].astype(np.int32)
        counts["random_next"] = int(labels.sum())
        return features | {"next_sentence_labels": labels[:, np.newaxis]}, counts


class SentenceSegments(_Segments):
    """Two segments that follow each other, or sometimes one (Clark et al. 2020, their program)."""

    segments: ClassVar[int] = 2

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        plan = plan_spans(documents, self.budget, self.settings.short_seq_prob, rng)
        _halve(plan, documents.sentence_starts, _SINGLE_PROB, rng)
        return plan


class SentenceSpans(_Segments):
    """Whole sentences of one document, for objectives without sentence pairs (section 5.1)."""

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        return plan_spans(documents, self.budget, self.settings.short_seq_prob, rng)


@compiled
def fill(ids, plan, max_seq_length, special):
    """Returns planned sequences as [CLS] A [SEP] B [SEP], or [CLS] A [SEP] if B is empty.

    Args:
      ids: int32 [tokens], flat token ids.
      plan: int64 [sequences, COLUMNS].
      max_seq_length: length to pad to.
      special: SpecialIds.
    """
    count = len(plan)
    word_ids = np.full((count, max_seq_length), special.pad, np.int32)
    lengths = np.empty(count, np.int32)
    a_lengths = np.empty(count, np.int32)
    for row in range(count):
        a_start, a_length, b_start, b_length, _ = plan[row]
        sequence = word_ids[row]
        sequence[0] = special.start
        end = a_length + 1
        sequence[1:end] = ids[a_start : a_start + a_length]
        between = special.separators if b_length else 1
        sequence[end : end + between] = special.separator
        end += between
        a_lengths[row] = end
        if b_length:
            sequence[end : end + b_length] = ids[b_start : b_start + b_length]
            end += b_length + 1
            sequence[end - 1] = special.separator
        lengths[row] = end
    return SequenceBlock(word_ids, lengths, a_lengths)


@compiled
def _draw(rng, low, high):
    """Draws an integer from low to high, inclusive."""
    return low + int(rng.random() * (high - low + 1))


def plan_pairs(
    documents: TokenizedDocuments,
    budget: int,
    short_seq_prob: float,
    rng: np.random.Generator,
    in_order: bool = False,
) -> np.ndarray:
    """Plans pairs of segments; in half of them the second segment is random (A.2).

    With `in_order`, half of them are swapped instead (ALBERT). A chunk of one sentence gets a
    random second segment even then, labelled as a swapped pair, as in google-research/albert.

    Args:
      documents: one or more. With a single key, no segment is of another document: all pairs follow
        each other, and a sentence that is alone is left out.
      budget: maximum number of tokens in a sequence, special tokens not included.
      short_seq_prob: probability that a document aims at shorter sequences, of a length drawn
        uniformly from 2 to the budget.
      rng: the only source of randomness.
      in_order: whether segments are swapped instead of random.

    Returns:
      int64 [sequences, COLUMNS].
    """
    has_others = len(np.unique(documents.document_keys)) > 1
    return _plan_pairs(*documents[1:], has_others, budget, short_seq_prob, rng, in_order)


@compiled
def _plan_pairs(
    sentence_starts, document_starts, keys, has_others, budget, short_seq_prob, rng, in_order
):
    plan = np.empty((len(sentence_starts) - 1, COLUMNS), np.int64)
    count = 0
    for document in range(len(keys)):
        # Sequences mostly aim at the full length, so that no computation is spent on padding; one
        # document in ten aims at less, so that short inputs in fine-tuning are no surprise.
        target = _draw(rng, 2, budget) if rng.random() < short_seq_prob else budget
        last = document_starts[document + 1]
        chunk = end = document_starts[document]  # sentences [chunk, end) become a pair
        while end < last:
            end += 1
            if end < last and sentence_starts[end] - sentence_starts[chunk] < target:
                continue
            single = end - chunk == 1
            # A takes the first sentences of the chunk, of any number that leaves one for B.
            a_end = chunk + 1 if single else chunk + _draw(rng, 1, end - chunk - 1)
            a_start, a_stop = sentence_starts[chunk], sentence_starts[a_end]
            b_start, b_stop = a_stop, sentence_starts[end]
            label = single or rng.random() < 0.5
            if label and (single or not in_order):
                if not has_others:
                    label = False
                else:
                    # B is of another document: from any sentence on, until the target is reached.
                    # Documents differ by their keys, which parts and copies of one have in common.
                    other = document
                    while keys[other] == keys[document]:
                        other = _draw(rng, 0, len(keys) - 1)
                    b_last = document_starts[other + 1]
                    b_first = _draw(rng, document_starts[other], b_last - 1)
                    b_end = b_first + 1
                    b_start, b_stop = sentence_starts[b_first], sentence_starts[b_end]
                    while b_end < b_last and b_stop - b_start < target - (a_stop - a_start):
                        b_end += 1
                        b_stop = sentence_starts[b_end]
                    end = a_end  # the sentences that B would have had begin the next pair
            a_start, a_stop, b_start, b_stop = _truncated(
                a_start, a_stop, b_start, b_stop, budget, rng
            )
            if label and in_order and not single:
                a_start, a_stop, b_start, b_stop = b_start, b_stop, a_start, a_stop
            if b_stop > b_start:
                plan[count] = (a_start, a_stop - a_start, b_start, b_stop - b_start, int(label))
                count += 1
            chunk = end
    return plan[:count].copy()


@compiled
def _truncated(a_start, a_stop, b_start, b_stop, budget, rng):
    """Removes tokens from the longer segment, at a random end, so that neither end is favoured."""
    while a_stop - a_start + b_stop - b_start > budget:
        front = rng.random() < 0.5
        if a_stop - a_start > b_stop - b_start:
            a_start, a_stop = (a_start + 1, a_stop) if front else (a_start, a_stop - 1)
        else:
            b_start, b_stop = (b_start + 1, b_stop) if front else (b_start, b_stop - 1)
    return a_start, a_stop, b_start, b_stop


def plan_spans(
    documents: TokenizedDocuments, budget: int, short_seq_prob: float, rng: np.random.Generator
) -> np.ndarray:
    """Plans sequences of whole sentences of one document; arguments and result as in `plan_pairs`.

    Sentences are added until a sequence has the length that its document aims at. A sentence that
    does not fit begins the next sequence; one longer than the budget is cut into several sequences.
    B is empty.
    """
    return _plan_spans(*documents[1:3], budget, short_seq_prob, rng)


@compiled
def _plan_spans(sentence_starts, document_starts, budget, short_seq_prob, rng):
    tokens = sentence_starts[-1] - sentence_starts[0]
    plan = np.zeros((len(sentence_starts) + tokens // budget, COLUMNS), np.int64)
    count = 0
    for document in range(len(document_starts) - 1):
        target = _draw(rng, 2, budget) if rng.random() < short_seq_prob else budget
        start = stop = sentence_starts[document_starts[document]]
        for sentence in range(document_starts[document], document_starts[document + 1]):
            end = sentence_starts[sentence + 1]
            if end - start > budget and stop > start:
                plan[count, A_START], plan[count, A_LENGTH] = start, stop - start
                count += 1
                start = stop
            while end - start > budget:
                plan[count, A_START], plan[count, A_LENGTH] = start, budget
                count += 1
                start += budget
            stop = end
            if stop - start >= target:
                plan[count, A_START], plan[count, A_LENGTH] = start, stop - start
                count += 1
                start = stop
        if stop > start:
            plan[count, A_START], plan[count, A_LENGTH] = start, stop - start
            count += 1
    return plan[:count].copy()


@compiled
def _halve(plan, sentence_starts, single_prob, rng):
    """Makes two segments of spans, at the sentence boundary nearest to the middle, if any."""
    for row in range(len(plan)):
        if rng.random() < single_prob:
            continue
        start, length = plan[row, A_START], plan[row, A_LENGTH]
        middle, best = start + length / 2, -1
        after = np.searchsorted(sentence_starts, middle, side="right")
        for boundary in sentence_starts[max(0, after - 1) : after + 1]:
            inside = start < boundary < start + length
            if inside and (best < 0 or boundary - middle < middle - best):
                best = boundary
        if best >= 0:
            plan[row, A_LENGTH] = best - start
            plan[row, B_START], plan[row, B_LENGTH] = best, start + length - best
