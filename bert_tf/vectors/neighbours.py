"""Nearest neighbours of texts among the vectors of a file, by cosine similarity."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.vectors import model as models
from bert_tf.vectors.extractor import MIN_NORM, Embedder
from bert_tf.vectors.vector_file import VectorFile
from pipelines.common.errors import InputError
from pipelines.labelled import text_files
from pipelines.labelled.schema import TextExample


class Neighbour(NamedTuple):
    """A row of the vectors: its similarity to the query, its id, and one or two texts.

    The similarity is the cosine, or what a reranker says.
    """

    similarity: float
    id: str
    texts: tuple[str, ...]


class Neighbours(NamedTuple):
    """The nearest rows of a query, the nearest first."""

    query: TextExample
    found: list[Neighbour]


def find(model: str, path: str, queries: Iterable[TextExample], count: int) -> Iterator[Neighbours]:
    """Yields the nearest neighbours of each query.

    The vectors are read in chunks, once for each million characters of queries.

    Args:
      model: path of the model that the vectors were made with.
      path: the file of vectors.
      queries: texts, or pairs of texts.
      count: maximum number of neighbours.

    Raises:
      InputError: the vectors are of another model, or damaged.
    """
    vectors = VectorFile(path)
    source = models.read(model)
    if models.checksums(source) != vectors.model:
        raise InputError(
            f"{path}: its vectors are of another model than {model}; name the model that they were "
            "made with."
        )
    embedder = Embedder(source, vectors.settings)
    if embedder.width != vectors.width:
        raise InputError(
            f"{path}: its vectors have {vectors.width} numbers, but {model} makes {embedder.width} "
            "with the settings in its description, which was changed; make it again."
        )
    for block in text_files.blocks(queries):
        rows, similarities = search(vectors.blocks(), embedder(*text_files.split(block)), count)
        stored = vectors.texts({int(row) for row in rows.flat})
        for query, numbers, values in zip(block, rows, similarities, strict=True):
            near = zip(numbers.tolist(), values.tolist(), strict=True)
            yield Neighbours(query, [Neighbour(value, *stored[row]) for row, value in near])


def ordered(
    neighbours: Neighbours, score: Callable[[str, Sequence[str]], Sequence[float]]
) -> Neighbours:
    """Neighbours in the order of other scores, for a query and its texts.

    Raises:
      InputError: the query or a neighbour is a pair of texts.
    """
    query, found = neighbours
    if query.text_b is not None or any(len(near.texts) > 1 for near in found):
        raise InputError(f"{query.place}: pairs of texts cannot be ordered anew (--rerank).")
    scores = score(query.text_a, [near.texts[0] for near in found])
    changed = [near._replace(similarity=s) for near, s in zip(found, scores, strict=True)]
    return Neighbours(query, sorted(changed, key=lambda near: -near.similarity))


def search(
    blocks: Iterable[np.ndarray], queries: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the most similar rows of each query by an exhaustive search.

    Args:
      blocks: blocks of vectors, float32 [rows, width].
      queries: float32 [queries, width].
      count: maximum number of rows for a query.

    Returns:
      int64 [queries, found] numbers of rows from 0, the most similar first (the first row if
      several are equal), and their cosine similarities, float32 [queries, found].
    """
    queries = _unit(queries)
    rows = np.empty([len(queries), 0], np.int64)
    best = np.empty([len(queries), 0], np.float32)
    first = 0
    for block in blocks:
        found = queries @ _unit(block).T
        order = np.stack([_largest(row, count) for row in found])
        # Earlier rows come first, and so precede rows that are equally similar.
        best = np.concatenate([best, np.take_along_axis(found, order, 1)], 1)
        rows = np.concatenate([rows, first + order], 1)
        kept = np.argsort(-best, axis=1, kind="stable")[:, :count]
        best = np.take_along_axis(best, kept, 1)
        rows = np.take_along_axis(rows, kept, 1)
        first += len(block)
    return rows, best


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """The indices of the largest values, in descending order, the first of equal values first."""
    candidates = np.arange(len(values))
    if count < len(values):
        threshold = np.partition(values, -count)[-count]
        candidates = np.flatnonzero(values >= threshold)
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors divided by their lengths."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), MIN_NORM)
