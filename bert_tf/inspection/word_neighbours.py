"""Words whose embeddings point the same way."""

from typing import NamedTuple

import numpy as np

from pipelines.tokenizers.base import Tokenizer

_WORDS = 2_000
_NEIGHBOURS = 10
_SHORTEST_WORD = 3  # Latin letters; shorter ones are mostly beginnings of words
_SHORTEST = 1e-12  # lengths of vectors below this count as this


class WordNeighbours(NamedTuple):
    """Words, and the nearest of them to each.

    Attributes:
      words: in the order of their ids.
      nearest: uint16 [words, neighbours], numbers of words, the nearest first.
      cosines: float32 [words, neighbours].
    """

    words: tuple[str, ...]
    nearest: np.ndarray
    cosines: np.ndarray


def find(table: np.ndarray, tokenizer: Tokenizer) -> WordNeighbours:
    """The neighbours of frequent words among each other.

    Words are tokens of letters, three or more of Latin ones, that begin a word; the lowest ids are
    taken, which vocabularies give to what is frequent. Cosines are of what the table has above its
    mean: what all embeddings have in common would make all of them alike.

    Args:
      table: float32 [vocabulary, width], the word embeddings.
      tokenizer: of the model.
    """
    vocabulary = tokenizer.vocabulary
    special = set(tokenizer.special_ids)
    named: dict[str, int] = {}
    for index, token in enumerate(vocabulary.tokens):
        word = vocabulary.plain([token])
        shortest = _SHORTEST_WORD if word.isascii() else 1
        is_word = len(word) >= shortest and word.isalpha() and bool(tokenizer.begins_word[index])
        if is_word and index not in special:
            named.setdefault(word, index)
        if len(named) == _WORDS:
            break
    vectors = table[list(named.values())].astype(np.float64)
    vectors = vectors - table[: len(vocabulary)].mean(0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _SHORTEST)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    count = min(_NEIGHBOURS, max(len(named) - 1, 0))
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    return WordNeighbours(
        tuple(named),
        nearest.astype(np.uint16),
        np.take_along_axis(cosines, nearest, 1).astype(np.float32),
    )
