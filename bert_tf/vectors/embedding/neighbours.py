"""The nearest neighbours of texts among the vectors of a file, by cosine similarity."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from bert_tf.vectors.embedding.embedder import SHORTEST, Embedder
from bert_tf.vectors.embedding.vector_reader import VectorFile
from bert_tf.vectors.encoding.model import checksums_of, read_model
from pipelines.common.errors import InputError
from pipelines.labelled import text_files
from pipelines.labelled.schema import TextExample


class Neighbour(NamedTuple):
    """A row that is near.

    Attributes:
      similarity: cosine of the angle between the two vectors.
      id: of the row.
      texts: its text, or its two texts.
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

    The file is read once for each million characters of queries, and never in memory as a whole.

    Args:
      model: that the vectors were made with; see `Embedder`.
      path: the file of vectors.
      queries: texts, or pairs of texts.
      count: rows of each at the most.

    Raises:
      InputError: the vectors are of another model, or damaged.
    """
    vectors = VectorFile(path)
    source = read_model(model)
    if checksums_of(source) != vectors.model:
        raise InputError(
            f"{path}: its vectors are of another model than {model}; name the one that they were "
            "made with."
        )
    embedder = Embedder(source, vectors.settings)
    if embedder.width != vectors.width:
        raise InputError(
            f"{path}: its vectors have {vectors.width} numbers, where {model} makes "
            f"{embedder.width} by its description, which was changed; make it again."
        )
    for block in text_files.blocks(queries):
        rows, similarities = search(vectors.blocks(), embedder(*text_files.split(block)), count)
        stored = vectors.texts({int(row) for row in rows.flat})
        for query, numbers, values in zip(block, rows, similarities, strict=True):
            near = zip(numbers.tolist(), values.tolist(), strict=True)
            yield Neighbours(query, [Neighbour(value, *stored[row]) for row, value in near])


def search(
    vectors: Iterable[np.ndarray], queries: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the rows that are most similar to each query, by brute force.

    Args:
      vectors: blocks of rows, float32 [some, width].
      queries: float32 [queries, width].
      count: rows of each query at the most.

    Returns:
      int64 [queries, found] numbers of rows from 0, the most similar first and of equals the
      first ones, and their cosine similarities, float32 [queries, found].
    """
    queries = _unit(queries)
    rows = np.empty([len(queries), 0], np.int64)
    best = np.empty([len(queries), 0], np.float32)
    first = 0
    for block in vectors:
        numbers = np.arange(first, first + len(block))
        first += len(block)
        found = queries @ _unit(block).T
        order = [_largest(row, count) for row in found]
        found = np.take_along_axis(found, np.stack(order), 1)
        # Rows of former blocks come first, and so win where they are as similar.
        best = np.concatenate([best, found], 1)
        rows = np.concatenate([rows, numbers[np.stack(order)]], 1)
        kept = np.argsort(-best, axis=1, kind="stable")[:, :count]
        best = np.take_along_axis(best, kept, 1)
        rows = np.take_along_axis(rows, kept, 1)
    return rows, best


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Where the largest values are, the largest first, of equals the first ones."""
    candidates = np.arange(len(values))
    if count < len(values):
        least = np.partition(values, -count)[-count]
        candidates = np.flatnonzero(values >= least)
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1; those of no length stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SHORTEST)
