"""How well vectors find the texts that belong together."""

from collections.abc import Sequence

import numpy as np

_DEPTH = 10  # ranks that count
_AT_ONCE = 1024  # queries


def scores(
    queries: np.ndarray, texts: np.ndarray, relevant: Sequence[Sequence[int]], own: Sequence[int]
) -> dict[str, float]:
    """Means over queries of what the nearest texts by cosine are worth.

    Args:
      queries: float32 [queries, width], each of length 1.
      texts: float32 [texts, width], the same.
      relevant: indices of the texts that each query should find.
      own: index of the text that is the query itself, if it is one, else -1. It is not ranked, as
        in BEIR (Thakur et al. 2021), unless it should be found.

    Returns:
      `ndcg_10`, `recall_1` (whether the nearest text is one of them), `recall_10` (how many of them
      are among the ten nearest), and `mrr_10` (1 / the rank of the first).
    """
    depth = min(_DEPTH, len(texts))
    gains = 1 / np.log2(np.arange(2, depth + 2))
    rows = []
    for start in range(0, len(queries), _AT_ONCE):
        found = queries[start : start + _AT_ONCE] @ texts.T
        for row, scores in enumerate(found, start):
            wanted = relevant[row]
            if own[row] >= 0 and own[row] not in wanted:
                scores[own[row]] = -np.inf
            ranks = largest(scores, depth)
            hits = np.isin(ranks, list(wanted))
            best = gains[: min(len(wanted), depth)].sum()
            first = 1 / (1 + hits.argmax()) if hits.any() else 0.0
            rows.append(((gains * hits).sum() / best, hits[0], hits.sum() / len(wanted), first))
    names = ("ndcg_10", "recall_1", "recall_10", "mrr_10")
    return dict(zip(names, np.mean(rows, 0).tolist(), strict=True))


def largest(values: np.ndarray, count: int) -> np.ndarray:
    """The indices of the largest values, in descending order, the first of equal values first."""
    candidates = np.arange(len(values))
    if count < len(values):
        threshold = np.partition(values, -count)[-count]
        candidates = np.flatnonzero(values >= threshold)
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]


def nearest_accuracy(vectors: np.ndarray, classes: np.ndarray) -> float:
    """How often the nearest other text, by cosine, has the same class.

    Args:
      vectors: float32 [texts, width], each of length 1.
      classes: [texts].
    """
    right = 0
    for start in range(0, len(vectors), _AT_ONCE):
        cosines = vectors[start : start + _AT_ONCE] @ vectors.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -np.inf
        right += int((classes[cosines.argmax(-1)] == classes[start + rows]).sum())
    return right / len(vectors)
