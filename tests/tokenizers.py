"""Tokenizers of tokens that a test lists."""

from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary


def wordpiece(tokens, **settings):
    """The WordPiece tokenizer of some tokens."""
    return WordPieceTokenizer(WordPieceVocabulary(tuple(tokens)), **settings)
