"""Choices for training a reranker: which of several similar texts belongs to a text?"""

import collections
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.neighbours import search
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample

_QUERIES, _BLOCK = 1024, 1 << 16  # texts that are compared at once


def mine(model: str, pairs: Sequence[TextExample], count: int) -> Iterator[dict[str, Any]]:
    """Yields rows of the task `choice`: a first text, its second text among others, and its place.

    The others are those that are nearest to the first text and do not belong to it.

    Args:
      model: path of the model that makes the vectors.
      pairs: pairs of texts that belong together, such as questions and answers.
      count: maximum number of others.

    Raises:
      InputError: there are single texts, or every second text belongs to every first one.
    """
    answers: dict[str, dict[str, None]] = collections.defaultdict(dict)
    together: dict[str, set[str]] = collections.defaultdict(set)
    for pair in pairs:
        if pair.text_b is None:
            raise InputError(f"{pair.place}: is a single text; give pairs that belong together.")
        if not pair.text_a or not pair.text_b:
            raise InputError(f"{pair.place}: a text is empty; fill it, or leave the row out.")
        answers[pair.text_a][pair.text_b] = None
        together[pair.text_a].update((pair.text_a, pair.text_b))
        together[pair.text_b].add(pair.text_a)
    second = list(dict.fromkeys(text for own in answers.values() for text in own))
    most = max(map(len, together.values()))
    embedder = Embedder(model, EmbeddingSettings())
    vectors = embedder(second)
    blocks = np.split(vectors, range(_BLOCK, len(vectors), _BLOCK))
    number = 0
    queries = list(answers)
    for begin in range(0, len(queries), _QUERIES):
        first = queries[begin : begin + _QUERIES]
        rows, _ = search(blocks, embedder(first), count + most)
        for text, nearest in zip(first, rows.tolist(), strict=True):
            others = [second[row] for row in nearest if second[row] not in together[text]][:count]
            for own in answers[text] if others else ():
                place = number % (len(others) + 1)  # no place is right more often than others
                choices = [*others[:place], own, *others[place:]]
                yield {"context": text, "choices": choices, "label": place}
                number += 1
    if not number:
        raise InputError("every text_b belongs to every text_a: there are no others to find.")
