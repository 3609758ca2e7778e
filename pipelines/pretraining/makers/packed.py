"""Running text, cut where a sequence is full: no sequence has padding."""

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining.layout import Sequences
from pipelines.pretraining.makers.base import TokenizedDocuments
from pipelines.pretraining.makers.full_sentences import LENGTH, START, FullSentences


class Packed(FullSentences):
    """Text of one or more documents, a separator between documents, up to the last place.

    Sequences begin and end anywhere in a sentence, so that a step computes no padding. Where a
    document ends one place before the end of its sequence, its separator and that of the sequence
    stand side by side. What is left at the end of a shard, less than a sequence, is dropped.
    """

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        """Plans where sequences begin and end, int64 [sequences, 2]; chance has no part in it."""
        budget = self.settings.max_seq_length - self.tokenizer.overhead[0]
        return _plan(documents.sentence_starts[documents.document_starts], budget)

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> Sequences:
        """Lays out planned sequences, each of them full."""
        word_ids, lengths, _ = super().fill(documents, plan)
        size = self.settings.max_seq_length
        word_ids[lengths < size, -1] = self.special.separator
        lengths[:] = size
        return Sequences(word_ids, lengths, lengths.copy())


@compiled
def _plan(document_tokens, budget):
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
