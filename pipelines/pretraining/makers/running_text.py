"""Full sentences across documents (RoBERTa, arXiv 1907.11692, section 4.2: FULL-SENTENCES)."""

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining.makers.base import ExampleMaker, TokenizedDocuments
from pipelines.pretraining.masking import Sequences

# Columns of a plan: where a sequence lies in the flat ids.
START, LENGTH = range(2)


class FullSentences(ExampleMaker):
    """Whole sentences of one or more documents, a separator between documents.

    Sequences are filled up to the last sentence that fits; a sentence that is too long on its own
    is cut. Documents follow each other in the order of their shard, which is that of a hash. Where
    fairseq, the paper's program, ends each line with a separator, the paper's text has one between
    documents only; so it is here.
    """

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        """Plans where sequences begin and end, int64 [sequences, 2]; chance has no part in it."""
        budget = self.settings.max_seq_length - self.tokenizer.overhead[0]
        return _plan(documents.sentence_starts, documents.document_starts, budget)

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> Sequences:
        """Lays out planned sequences."""
        return Sequences(
            *_fill(
                documents.ids,
                documents.sentence_starts[documents.document_starts],
                plan,
                self.settings.max_seq_length,
                self.special.start,
                self.special.separator,
                self.special.pad,
            )
        )


@compiled
def _plan(sentence_starts, document_starts, budget):
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
def _fill(ids, document_tokens, plan, max_seq_length, start_id, separator_id, pad_id):
    count = len(plan)
    word_ids = np.full((count, max_seq_length), pad_id, np.int32)
    lengths = np.empty(count, np.int32)
    for row in range(count):
        first, length = plan[row, START], plan[row, LENGTH]
        sequence = word_ids[row]
        sequence[0] = start_id
        at = 1
        document = np.searchsorted(document_tokens, first, side="right")
        while length > 0:
            # As far as the document reaches.
            size = min(length, document_tokens[document] - first)
            sequence[at : at + size] = ids[first : first + size]
            at += size
            sequence[at] = separator_id
            at += 1
            first, length = first + size, length - size
            document += 1
        lengths[row] = at
    return word_ids, lengths, lengths.copy()


class Packed(FullSentences):
    """Text of one or more documents, a separator between documents, up to the last place.

    Sequences begin and end anywhere in a sentence, so that a step computes no padding. Where a
    document ends one place before the end of its sequence, its separator and that of the sequence
    stand side by side. What is left at the end of a shard, less than a sequence, is dropped.
    """

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        """Plans where sequences begin and end, int64 [sequences, 2]; chance has no part in it."""
        budget = self.settings.max_seq_length - self.tokenizer.overhead[0]
        return _plan_packed(documents.sentence_starts[documents.document_starts], budget)

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> Sequences:
        """Lays out planned sequences, each of them full."""
        word_ids, lengths, _ = super().fill(documents, plan)
        size = self.settings.max_seq_length
        word_ids[lengths < size, -1] = self.special.separator
        lengths[:] = size
        return Sequences(word_ids, lengths, lengths.copy())


@compiled
def _plan_packed(document_tokens, budget):
    """Plans sequences.

    Args:
      document_tokens: where each document begins in the flat ids, and the end of the last.
      budget: places of a sequence for tokens and for separators between documents.
    """
    tokens = document_tokens[-1] - document_tokens[0]
    plan = np.zeros(((tokens + len(document_tokens)) // budget + 1, 2), np.int64)
    count = 0
    start = document_tokens[0]
    filled = 0  # places of the sequence that begins at `start`
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
