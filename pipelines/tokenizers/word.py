"""Whole words as TensorFlow ops: one token a word.

Words of texts are those that BERT's tokenizer takes apart (`wordpiece`, steps 1 to 4). The op of
that tokenizer finds them, too: WordPiece with no piece that continues a word is a table of words.
Words that are given are looked up as they are, such as U.S., which a text would be split at.
"""

from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from pipelines.tokenizers.word_vocabulary import LONGEST_WORD, SPECIAL_TOKENS, WordVocabulary
from pipelines.tokenizers.wordpiece import WordPieceTokenizer


class WordTokenizer(WordPieceTokenizer):
    """Ids of whole words.

    >>> tokens = ("<PAD>", "<UNK>", "<S>", "</S>", "<MASK>", "It", "rained", ".")
    >>> WordTokenizer(WordVocabulary(tokens)).tokenize(["It rained, yesterday."]).to_list()
    [[5, 6, 1, 1, 7]]

    Longer words of texts than LONGEST_WORD are unknown.

    Args:
      vocabulary: the words.
      lower_case: whether text is lower-cased.
      strip_accents: whether letters lose their accents; None: as `lower_case`.
      kind: "word".
    """

    # No word of a text has a control character, so nothing continues one.
    suffix: ClassVar[str] = "\x02"

    def __init__(
        self,
        vocabulary: WordVocabulary,
        *,
        lower_case: bool = False,
        strip_accents: bool | None = None,
        kind: str = WordVocabulary.kind,
    ):
        super().__init__(
            vocabulary,
            lower_case=lower_case,
            strip_accents=strip_accents,
            max_characters_per_word=LONGEST_WORD,
        )
        words = vocabulary.tokens[len(SPECIAL_TOKENS) :]
        numbers = tf.range(len(SPECIAL_TOKENS), len(vocabulary.tokens))
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(words, tf.string), numbers),
            self.unknown_id,
        )

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """The ids of `tokenize_words_with_offsets`."""
        return self.tokenize_words_with_offsets(words)[0]

    def tokenize_words_with_offsets(
        self, words: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Looks up each word as it is given.

        One that is not in the vocabulary is split as a text is, if all of its parts are there, as
        those of "n't" are in a vocabulary that is learned from texts; else it is one unknown word.

        Args:
          words: string [words], UTF-8.

        Returns:
          As `tokenize_with_offsets`.
        """
        words = tf.convert_to_tensor(words, tf.string)
        normalize = self.normalize
        given = normalize(words) if normalize.lower_case or normalize.strip_accents else words
        known = self._table.lookup(given)
        parts = self.tokenize_with_offsets(words)
        lacks_part = tf.reduce_any(parts[0] == self.unknown_id, 1)
        is_whole = (known != self.unknown_id) | lacks_part
        ends = tf.cast(tf.strings.length(words), tf.int64)
        wholes = (known, tf.zeros_like(ends), ends)
        return tuple(
            tf.concat([_rows(some, ~is_whole), _rows(whole[:, tf.newaxis], is_whole)], 1)
            for some, whole in zip(parts, wholes, strict=True)
        )


def _rows(values: tf.Tensor | tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
    """Empties the rows of [rows, (values)] where `kept`, bool [rows], is False."""
    return tf.ragged.boolean_mask(values, kept[:, tf.newaxis] & tf.ones_like(values, tf.bool))
