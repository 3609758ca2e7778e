"""Pairs for training a reranker: each question with its answers, and with similar other texts."""

import collections
from collections.abc import Iterator, Sequence

import numpy as np

from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.neighbours import search
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample

RELEVANT, OTHER = "1", "0"  # labels
_QUERIES, _BLOCK = 1024, 1 << 16  # texts that are compared at once


def mine(model: str, pairs: Sequence[TextExample], count: int) -> Iterator[tuple[str, str, str]]:
    """Yields text_a, text_b and label: each pair, then the texts nearest to its first text.

    Args:
      model: path of the model that makes the vectors.
      pairs: pairs of texts that belong together, such as questions and answers.
      count: texts that do not belong to a first text, for each first text.

    Raises:
      InputError: there are single texts, or every second text belongs to every first one.
    """
    answers: dict[str, dict[str, None]] = collections.defaultdict(dict)
    together: dict[str, set[str]] = collections.defaultdict(set)
    for pair in pairs:
        if pair.text_b is None:
            raise InputError(f"{pair.place}: is a single text; give pairs that belong together.")
        answers[pair.text_a][pair.text_b] = None
        together[pair.text_a].update((pair.text_a, pair.text_b))
        together[pair.text_b].add(pair.text_a)
    second = list(dict.fromkeys(text for own in answers.values() for text in own))
    most = max(map(len, together.values()))
    embedder = Embedder(model, EmbeddingSettings())
    vectors = embedder(second)
    blocks = np.split(vectors, range(_BLOCK, len(vectors), _BLOCK))
    found = 0
    queries = list(answers)
    for begin in range(0, len(queries), _QUERIES):
        first = queries[begin : begin + _QUERIES]
        rows, _ = search(blocks, embedder(first), count + most)
        for text, nearest in zip(first, rows.tolist(), strict=True):
            others = [second[row] for row in nearest if second[row] not in together[text]]
            found += len(others)
            for own in answers[text]:
                yield text, own, RELEVANT
            for other in others[:count]:
                yield text, other, OTHER
    if not found:
        raise InputError("every text_b belongs to every text_a: there are no others to find.")
