"""Single spans of text, for objectives without next-sentence prediction (paper, section 5.1)."""

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.pretraining import layout
from pipelines.pretraining.layout import A_LENGTH, A_START, COLUMNS
from pipelines.pretraining.makers import draws
from pipelines.pretraining.makers.base import ExampleMaker, TokenizedDocuments


class Spans(ExampleMaker):
    """Whole sentences of one document."""

    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        """See `plan_spans`."""
        budget = self.settings.max_seq_length - self.tokenizer.overhead[0]
        return plan_spans(documents, budget, self.settings.short_seq_prob, rng)

    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> layout.Sequences:
        """Lays out planned sequences."""
        return layout.fill(documents.ids, plan, self.settings.max_seq_length, self.special)


def plan_spans(
    documents: TokenizedDocuments, budget: int, short_seq_prob: float, rng: np.random.Generator
) -> np.ndarray:
    """Plans sequences of whole sentences of one document.

    Sentences are added until a sequence has the length that its document aims at. One that does
    not fit into the budget begins the next sequence, and only one that is longer than the budget
    is cut, into several sequences. Arguments and result as for `pairs.plan_pairs`, with an empty B.
    """
    return _plan_spans(*documents[1:3], budget, short_seq_prob, rng)


@compiled
def _plan_spans(sentence_starts, document_starts, budget, short_seq_prob, rng):
    tokens = sentence_starts[-1] - sentence_starts[0]
    plan = np.zeros((len(sentence_starts) + tokens // budget, COLUMNS), np.int64)
    count = 0
    for document in range(len(document_starts) - 1):
        target = draws.target_length(budget, short_seq_prob, rng)
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
