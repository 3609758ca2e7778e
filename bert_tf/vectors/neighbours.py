"""Nearest neighbours of texts among the vectors of a file."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.embedding.retrieval import largest
from bert_tf.vectors import model as models
from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.index import VectorIndex
from bert_tf.vectors.vector_file import VectorFile, compared
from pipelines.common.errors import InputError
from pipelines.labelled import text_files
from pipelines.labelled.schema import TextExample


class Neighbour(NamedTuple):
    """A row of the vectors: its similarity to the query, its id, and one or two texts.

    The similarity is the cosine, the dot product for models of it, or what a reranker says.
    """

    similarity: float
    id: str
    texts: tuple[str, ...]


class Neighbours(NamedTuple):
    """The nearest rows of a query, the nearest first."""

    query: TextExample
    found: list[Neighbour]


def find(
    model: str,
    path: str,
    queries: Iterable[TextExample],
    count: int,
    indexed: bool = False,
    prompt: str | None = None,
) -> Iterator[Neighbours]:
    """Yields the nearest neighbours of each query.

    Without an index, the vectors are read in chunks, once for each million characters of queries.

    Args:
      model: path of the model that the vectors were made with.
      path: the file or folder of vectors.
      queries: texts, or pairs of texts.
      count: maximum number of neighbours.
      indexed: whether to search a `VectorIndex`, which may miss some.
      prompt: name of the prompt of the model that begins each query; None: that of the vectors.

    Raises:
      InputError: the vectors are of another model, or damaged; or there can be no index.
    """
    vectors = VectorFile(path)
    source = models.read(model)
    if models.checksums(source) != vectors.model:
        raise InputError(
            f"{path}: its vectors are of another model than {model}; name the model that they were "
            "made with."
        )
    settings = vectors.settings
    if prompt is not None:
        settings = dataclasses.replace(settings, prefix=models.prompt(source, prompt))
    embedder = Embedder(source, settings)
    index = VectorIndex(vectors) if indexed else None
    for block in text_files.blocks(queries):
        asked = embedder([query.text_a for query in block], [query.text_b for query in block])
        rows, similarities = (
            index.search(asked, count)
            if index
            else search(vectors.blocks(), asked, count, settings.similarity)
        )
        stored = vectors.texts({row for row in rows.flat if row >= 0})
        for query, numbers, values in zip(block, rows.tolist(), similarities.tolist(), strict=True):
            near = [(stored[row], x) for row, x in zip(numbers, values, strict=True) if row >= 0]
            yield Neighbours(query, [Neighbour(x, text.id, text.texts) for text, x in near])


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
    blocks: Iterable[np.ndarray], queries: np.ndarray, count: int, similarity: str = "cosine"
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the most similar rows of each query by an exhaustive search.

    Args:
      blocks: blocks of vectors, float32 [rows, width].
      queries: float32 [queries, width].
      count: maximum number of rows for a query.
      similarity: "cosine" or "dot".

    Returns:
      int64 [queries, found] numbers of rows from 0, the most similar first (the first row if
      several are equal), and their similarities, float32 [queries, found].
    """
    queries = compared(queries, similarity)
    rows = np.empty([len(queries), 0], np.int64)
    best = np.empty([len(queries), 0], np.float32)
    first = 0
    for block in blocks:
        found = queries @ compared(block, similarity).T
        order = np.stack([largest(row, count) for row in found])
        # Earlier rows come first, and so precede rows that are equally similar.
        best = np.concatenate([best, np.take_along_axis(found, order, 1)], 1)
        rows = np.concatenate([rows, first + order], 1)
        kept = np.argsort(-best, axis=1, kind="stable")[:, :count]
        best = np.take_along_axis(best, kept, 1)
        rows = np.take_along_axis(rows, kept, 1)
        first += len(block)
    return rows, best
