"""Pairs for training a reranker: each question with its answers, and with similar other texts."""

import collections
from collections.abc import Iterator, Sequence

from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.neighbours import search
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample

RELEVANT, OTHER = "1", "0"  # labels


def mine(model: str, pairs: Sequence[TextExample], count: int) -> Iterator[tuple[str, str, str]]:
    """Yields text_a, text_b and label: each pair, then the texts nearest to its first text.

    Args:
      model: path of the model that makes the vectors.
      pairs: pairs of texts that belong together, such as questions and answers.
      count: texts that do not belong to a first text, for each first text.

    Raises:
      InputError: there are single texts, or no text does not belong to one of the first ones.
    """
    answers: dict[str, dict[str, None]] = collections.defaultdict(dict)
    for pair in pairs:
        if pair.text_b is None:
            raise InputError(f"{pair.place}: is a single text; give pairs that belong together.")
        answers[pair.text_a][pair.text_b] = None
    first, second = list(answers), list(dict.fromkeys(b for own in answers.values() for b in own))
    most = max(map(len, answers.values()))
    if len(second) <= most:
        raise InputError("every text_b belongs to the same text_a: there are no others to find.")
    embedder = Embedder(model, EmbeddingSettings())
    rows, _ = search([embedder(second)], embedder(first), count + most)
    for text, nearest in zip(first, rows.tolist(), strict=True):
        own = answers[text]
        others = [second[row] for row in nearest if second[row] not in own]
        for found in own:
            yield text, found, RELEVANT
        for found in others[:count]:
            yield text, found, OTHER
