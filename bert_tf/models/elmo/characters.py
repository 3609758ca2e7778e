"""The characters of words as numbers: their first bytes of UTF-8, as in the original.

A word of bytes b is [begin, b..., end, fill...], 50 numbers. All are one more than in the paper's
program at training, as they are in it at inference: 0 is no character.
"""

from collections.abc import Sequence

import numpy as np

from bert_tf.models.elmo_config import CHARACTERS
from pipelines.tokenizers.vocabulary import Vocabulary

NOTHING = 0  # in the place of each character of padding
_BEGIN_TEXT, _END_TEXT, _BEGIN_WORD, _END_WORD, _FILL = range(257, 262)
KINDS = 261  # characters that have embeddings: from 1 on
_MOST_BYTES = CHARACTERS - 2


def table(vocabulary: Vocabulary) -> np.ndarray:
    """The characters of all words, int32 [words, CHARACTERS].

    Padding has none; start and separator are one character each, that of the beginning and of the
    end of a text.
    """
    found = np.array([_row(word.encode()[:_MOST_BYTES]) for word in vocabulary.tokens], np.int32)
    found[vocabulary.id_of("start")] = _row([_BEGIN_TEXT - 1])
    found[vocabulary.id_of("separator")] = _row([_END_TEXT - 1])
    found[vocabulary.id_of("pad")] = NOTHING
    return found


def _row(values: bytes | Sequence[int]) -> list[int]:
    """The characters of a word of numbers that count from 0."""
    row = [_BEGIN_WORD, *(value + 1 for value in values), _END_WORD]
    return row + [_FILL] * (CHARACTERS - len(row))
