"""Sequences of running text across documents."""

from typing import ClassVar

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining.makers.base import ExampleMaker, TokenizedDocuments
from pipelines.pretraining.masking import SequenceBlock

# Columns of a plan: the range of a sequence in the flat ids.
START, LENGTH = range(2)


class FullSentences(ExampleMaker):
    """Whole sentences of one or more documents (RoBERTa, arXiv 1907.11692, section 4.2).

    Sequences are filled up to the last sentence that fits; a longer sentence is cut. Documents
    follow each other in random order, with a separator between them, as in the paper;
    fairseq, its program, ends each line with a separator.
    """

    draws: ClassVar[bool] = False

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        return _plan_sentences(documents.sentence_starts, documents.document_starts, self.budget)

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> SequenceBlock:
        document_tokens = documents.sentence_starts[documents.document_starts]
        length = self.settings.max_seq_length
        return _fill(documents.ids, document_tokens, plan, length, self.special)


class PackedText(FullSentences):
    """Text of one or more documents that fills every sequence, so that there is no padding.

    Sequences begin and end anywhere in a sentence. If a document ends one place before the end of
    its sequence, its separator and that of the sequence are adjacent. The rest at the end of a
    unit, less than a sequence, is dropped.
    """

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        document_tokens = documents.sentence_starts[documents.document_starts]
        return _plan_packed(document_tokens, self.budget)

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> SequenceBlock:
        word_ids, lengths, _ = super().fill(documents, plan)
        size = self.settings.max_seq_length
        word_ids[lengths < size, -1] = self.special.separator
        lengths[:] = size
        return SequenceBlock(word_ids, lengths, lengths.copy())


class TextStream(ExampleMaker):
    """Documents one after another, a separator after each, and no other special token (GPT).

    The stream is cut into sequences of full length; the rest at the end of a unit is dropped.
    """

    draws: ClassVar[bool] = False

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        tokens = documents.sentence_starts[documents.document_starts]
        places = tokens[-1] - tokens[0] + len(tokens) - 1
        length = self.settings.max_seq_length
        return (np.arange(places // length) * length)[:, np.newaxis]

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> SequenceBlock:
        tokens = documents.sentence_starts[documents.document_starts]
        begins = tokens[:-1] - tokens[0] + np.arange(len(tokens) - 1)  # of documents
        place = plan + np.arange(self.settings.max_seq_length)
        document = np.searchsorted(begins, place, side="right") - 1
        token = tokens[document] + place - begins[document]
        is_separator = token == tokens[document + 1]
        ids = documents.ids[np.minimum(token, len(documents.ids) - 1)]
        word_ids = np.where(is_separator, self.special.separator, ids).astype(np.int32)
        lengths = np.full(len(plan), self.settings.max_seq_length, np.int32)
        return SequenceBlock(word_ids, lengths, lengths.copy())


@compiled
def _plan_sentences(sentence_starts, document_starts, budget):
    tokens = sentence_starts[-1] - sentence_starts[0]
    plan = np.zeros((len(sentence_starts) + tokens // budget + 1, 2), np.int64)
    count = 0
    start = stop = sentence_starts[0]
    inner = 0  # separators between documents
    for document in range(len(document_starts) - 1):
        if stop > start:
            inner += 1
        for sentence in range(document_starts[document], document_starts[document + 1]):
            end = sentence_starts[sentence + 1]
            if end - start + inner > budget and stop > start:
                plan[count, START], plan[count, LENGTH] = start, stop - start
                count += 1
                start, inner = stop, 0
            while end - start > budget:
                plan[count, START], plan[count, LENGTH] = start, budget
                count += 1
                start += budget
            stop = end
    if stop > start:
        plan[count, START], plan[count, LENGTH] = start, stop - start
        count += 1
    return plan[:count].copy()


@compiled
def _fill(ids, document_tokens, plan, max_seq_length, special):
    count = len(plan)
    word_ids = np.full((count, max_seq_length), special.pad, np.int32)
    lengths = np.empty(count, np.int32)
    for row in range(count):
        first, length = plan[row, START], plan[row, LENGTH]
        sequence = word_ids[row]
        sequence[0] = special.start
        at = 1
        document = np.searchsorted(document_tokens, first, side="right")
        while length > 0:
            size = min(length, document_tokens[document] - first)
            sequence[at : at + size] = ids[first : first + size]
            at += size
            sequence[at] = special.separator
            at += 1
            first, length = first + size, length - size
            document += 1
        lengths[row] = at
    return SequenceBlock(word_ids, lengths, lengths.copy())


@compiled
def _plan_packed(document_tokens, budget):
    tokens = document_tokens[-1] - document_tokens[0]
    plan = np.zeros(((tokens + len(document_tokens)) // budget + 1, 2), np.int64)
    count = 0
    start = document_tokens[0]
    filled = 0  # places taken in the sequence that begins at `start`
    for document in range(len(document_tokens) - 1):
        here, end = document_tokens[document], document_tokens[document + 1]
        if filled:
            filled += 1  # the separator
            if filled == budget:
                plan[count, START], plan[count, LENGTH] = start, here - start
                count += 1
                start, filled = here, 0
        while end - here >= budget - filled:
            here += budget - filled
            plan[count, START], plan[count, LENGTH] = start, here - start
            count += 1
            start, filled = here, 0
        filled += end - here
    return plan[:count].copy()
