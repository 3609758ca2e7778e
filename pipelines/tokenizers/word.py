"""Whole words as TensorFlow ops: one token a word.

Words are those that BERT's tokenizer takes apart (`wordpiece`, steps 1 to 4). The op of that
tokenizer finds them, too: WordPiece with no piece that continues a word is a table of words.
"""

from typing import ClassVar

from pipelines.tokenizers.word_vocabulary import LONGEST_WORD, WordVocabulary
from pipelines.tokenizers.wordpiece import WordPieceTokenizer


class WordTokenizer(WordPieceTokenizer):
    """Ids of whole words.

    >>> tokens = ("<PAD>", "<UNK>", "<S>", "</S>", "<MASK>", "It", "rained", ".")
    >>> WordTokenizer(WordVocabulary(tokens)).tokenize(["It rained, yesterday."]).to_list()
    [[5, 6, 1, 1, 7]]

    Longer words than LONGEST_WORD are unknown.

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
