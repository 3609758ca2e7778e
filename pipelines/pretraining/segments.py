"""Sentence pairs for next-sentence prediction, and single spans without it.

A shard's text is one flat array of token ids. A sequence never holds anything
but contiguous ranges of it (truncation only shortens them), so sequences are
planned as small rows of numbers and filled with ids later.

The functions are compiled with numba: they are the loops of the paper's
procedure (appendix A.2), one draw of a seeded generator at a time.
"""

from typing import NamedTuple

import numba
import numpy as np

# Columns of a plan: where segments A and B lie in the flat ids, and the label.
A_START, A_LENGTH, B_START, B_LENGTH, IS_RANDOM = range(5)
_COLUMNS = 5


class TokenizedDocuments(NamedTuple):
    """Documents as arrays; the last element of each `starts` is the end."""

    ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences + 1], in tokens
    document_starts: np.ndarray  # int64 [documents + 1], in sentences
    document_keys: np.ndarray  # uint64 [documents]: sections of one document share a key


def plan_pairs(
    documents: TokenizedDocuments,
    max_seq_length: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Plans [CLS] A [SEP] B [SEP] sequences with B random in half of them.

    Args:
      documents: at least two with different keys.
      max_seq_length: length of a sequence, the three special tokens included.
      short_seq_prob: probability that a document aims at shorter sequences, of
        a length drawn uniformly from 2 to the maximum.
      rng: the only source of chance.

    Returns:
      int64 [sequences, 5], columns as named in this module.

    Raises:
      ValueError: all documents have one key, so no B is from another document.
    """
    if len(np.unique(documents.document_keys)) < 2:
        raise ValueError("random next sentences need two documents at least")
    return _plan_pairs(*documents[1:], max_seq_length - 3, short_seq_prob, rng)


def plan_spans(
    documents: TokenizedDocuments,
    max_seq_length: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Plans [CLS] A [SEP] sequences of whole sentences of one document.

    Sentences are added while they fit; one that is too long on its own is cut
    into several sequences. Arguments and result as for `plan_pairs`, with an
    empty B.
    """
    return _plan_spans(*documents[1:3], max_seq_length - 2, short_seq_prob, rng)


@numba.njit(cache=True)
def _draw(rng, low, high):
    """An integer from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


@numba.njit(cache=True)
def _target_length(budget, short_seq_prob, rng):
    if rng.random() < short_seq_prob:
        return _draw(rng, 2, budget)
    return budget


@numba.njit(cache=True)
def _plan_pairs(sentence_starts, document_starts, document_keys, budget, short_seq_prob, rng):
    plan = np.empty((len(sentence_starts) - 1, _COLUMNS), np.int64)
    count = 0
    for document in range(len(document_keys)):
        target = _target_length(budget, short_seq_prob, rng)
        last = document_starts[document + 1]
        chunk = document_starts[document]  # the first sentence not used yet
        end = chunk
        while end < last:
            end += 1
            if end < last and sentence_starts[end] - sentence_starts[chunk] < target:
                continue
            a_end = chunk + 1
            if end - chunk >= 2:
                a_end = chunk + _draw(rng, 1, end - chunk - 1)
            a_start, a_stop = sentence_starts[chunk], sentence_starts[a_end]
            is_random = end - chunk == 1 or rng.random() < 0.5
            if is_random:
                b_start, b_stop = _random_segment(
                    sentence_starts,
                    document_starts,
                    document_keys,
                    document,
                    target - (a_stop - a_start),
                    rng,
                )
                end = a_end  # the sentences that B would have been go back
            else:
                b_start, b_stop = sentence_starts[a_end], sentence_starts[end]
            a_start, a_stop, b_start, b_stop = _truncate_pair(
                a_start, a_stop, b_start, b_stop, budget, rng
            )
            plan[count, A_START] = a_start
            plan[count, A_LENGTH] = a_stop - a_start
            plan[count, B_START] = b_start
            plan[count, B_LENGTH] = b_stop - b_start
            plan[count, IS_RANDOM] = is_random
            count += 1
            chunk = end
    return plan[:count].copy()


@numba.njit(cache=True)
def _random_segment(sentence_starts, document_starts, document_keys, document, target, rng):
    """Sentences of another document, from a random one on, until `target` is reached."""
    other = document
    while document_keys[other] == document_keys[document]:
        other = _draw(rng, 0, len(document_keys) - 1)
    last = document_starts[other + 1]
    first = _draw(rng, document_starts[other], last - 1)
    end = first + 1
    while end < last and sentence_starts[end] - sentence_starts[first] < target:
        end += 1
    return sentence_starts[first], sentence_starts[end]


@numba.njit(cache=True)
def _truncate_pair(a_start, a_stop, b_start, b_stop, budget, rng):
    """Takes tokens from the longer segment, at its front or its back by chance."""
    while a_stop - a_start + b_stop - b_start > budget:
        front = rng.random() < 0.5
        if a_stop - a_start > b_stop - b_start:
            a_start, a_stop = (a_start + 1, a_stop) if front else (a_start, a_stop - 1)
        else:
            b_start, b_stop = (b_start + 1, b_stop) if front else (b_start, b_stop - 1)
    return a_start, a_stop, b_start, b_stop


@numba.njit(cache=True)
def _plan_spans(sentence_starts, document_starts, budget, short_seq_prob, rng):
    tokens = sentence_starts[-1] - sentence_starts[0]
    rows = len(sentence_starts) + tokens // 2 + 1  # no span but a sentence's last is under 2 tokens
    plan = np.zeros((rows, _COLUMNS), np.int64)
    count = 0
    for document in range(len(document_starts) - 1):
        target = _target_length(budget, short_seq_prob, rng)
        start = sentence_starts[document_starts[document]]
        stop = start
        for sentence in range(document_starts[document], document_starts[document + 1]):
            end = sentence_starts[sentence + 1]
            if end - start > target and stop > start:
                plan[count, A_START], plan[count, A_LENGTH] = start, stop - start
                count += 1
                start = stop
            while end - start > target:
                plan[count, A_START], plan[count, A_LENGTH] = start, target
                count += 1
                start += target
            stop = end
        if stop > start:
            plan[count, A_START], plan[count, A_LENGTH] = start, stop - start
            count += 1
    return plan[:count].copy()
