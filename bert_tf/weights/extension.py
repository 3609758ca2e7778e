"""Models with more words or more positions than they were trained with."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import Bundle
from pipelines.common.errors import InputError
from pipelines.tokenizers import kept_tokens, wordpiece
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.vocabulary import TokenizerSettings
from pipelines.tokenizers.wordpiece_vocabulary import MAX_CHARACTERS_PER_WORD, WordPieceVocabulary

_POSITIONS = "encoder/embeddings/position_embeddings"
_MIN_COUNT = 5  # of a word; a rarer one is not learned
_BATCH = 100_000  # words


def vocabulary_of(model: Bundle) -> WordPieceVocabulary:
    """The vocabulary of a model; an InputError if words cannot be added to it."""
    vocabulary = model.require_vocabulary()
    if isinstance(vocabulary, WordPieceVocabulary):
        return vocabulary
    raise InputError(
        f"{model.place}: its vocabulary is of {vocabulary.kind}; only WordPiece can be extended by "
        "words."
    )


def candidates(
    model: Bundle, words: collections.Counter[bytes], count: int
) -> list[tuple[str, int]]:
    """The words that would save the most tokens, with the number of tokens they save.

    Args:
      model: with a WordPiece vocabulary.
      words: occurrences of each word, as `wordpiece.split_words` finds them.
      count: maximum number of words.
    """
    frequent = sorted(word for word, number in words.items() if number >= _MIN_COUNT)
    tokenizer, saved = model.tokenizer(), []
    for start in range(0, len(frequent), _BATCH):
        batch = [word.decode() for word in frequent[start : start + _BATCH]]
        for word, ids in zip(batch, _pieces(tokenizer, batch), strict=True):
            if len(ids) > 1 and WordPieceVocabulary.is_short(word):
                saved.append((word, words[word.encode()] * (len(ids) - 1)))
    return sorted(saved, key=lambda item: (-item[1], item[0]))[:count]


def with_words(model: Bundle, words: Iterable[str]) -> tuple[Bundle, list[str]]:
    """A copy of a model whose vocabulary has further words, and those words.

    The embedding of a new word is the mean of those of its pieces, and so is its bias in the
    masked LM. Words that are one token already, and repeated ones, are left out.

    Raises:
      InputError: the vocabulary is not WordPiece; or a word is several for the tokenizer, has
        characters that are unknown to it, or is too long.
    """
    vocabulary_of(model)  # raises InputError unless it can be extended
    tokenizer = model.tokenizer()
    settings: Any = tokenizer.all_settings
    whole = kept_tokens.of(tokenizer.settings)
    given = [word for word in dict.fromkeys(map(str.strip, words)) if word and word not in whole]
    found: dict[str, Sequence[int]] = {}
    for word, ids in zip(given, _pieces(tokenizer, given), strict=True):
        parts = [part.decode() for part in wordpiece.split_words([word], **settings).numpy()]
        if not parts:
            raise InputError(f"{word!r} has no character that the tokenizer keeps.")
        if len(parts) != 1:
            raise InputError(
                f"{word!r} is {len(parts)} words for the tokenizer ({', '.join(parts)}), which "
                "cannot be one token; give them one by one."
            )
        if len(parts[0]) > MAX_CHARACTERS_PER_WORD:
            raise InputError(
                f"{word[:20]!r}... has {len(parts[0])} characters; the tokenizer takes no words of "
                f"more than {MAX_CHARACTERS_PER_WORD}."
            )
        if len(ids) > 1:
            found[parts[0]] = ids
        elif list(ids) == [tokenizer.unknown_id]:
            raise InputError(
                f"{word!r} has characters that the vocabulary lacks, so it has no pieces to take "
                "an embedding from."
            )
    return _with_tokens(model, found, tokenizer.settings), list(found)


def with_kept_tokens(model: Bundle, tokens: Iterable[str]) -> Bundle:
    """A copy of a model whose tokenizer finds tokens such as <e1> whole, wherever they stand.

    Those that the vocabulary lacks are added, with the means of the embeddings of their pieces.

    Raises:
      InputError: the vocabulary is not WordPiece; or a token is empty, special, has white space or
        no character that the tokenizer keeps, or is too long.
    """
    vocabulary, tokenizer = vocabulary_of(model), model.tokenizer()
    assert isinstance(tokenizer, wordpiece.WordPieceTokenizer)  # by its vocabulary
    # A new token is spelled as it is found, in lower case if texts are.
    asked = list(tokens)
    spelled = [text.decode() for text in tokenizer.normalize(asked).numpy()]
    pairs = zip(asked, spelled, strict=True)
    given = list(dict.fromkeys(a if a in vocabulary.tokens else b for a, b in pairs))
    settings, found = dict(tokenizer.settings), dict[str, Sequence[int]]()
    for token, ids in zip(given, _pieces(tokenizer, given), strict=True):
        if token.split() != [token] or token in vocabulary.roles.values() or not ids:
            raise InputError(
                f"--keep_tokens: {token!r} cannot be a token; name words without white space, such "
                "as <e1>, that are not special tokens of the model."
            )
        if token not in vocabulary.tokens:
            found[token] = ids
    kept = dict.fromkeys([*kept_tokens.of(settings), *given])
    if len(kept) > kept_tokens.LIMIT:
        raise InputError(f"--keep_tokens: at most {kept_tokens.LIMIT:,} tokens are kept whole.")
    settings["kept_tokens"] = " ".join(kept)
    return _with_tokens(model, found, settings)


def _with_tokens(
    model: Bundle, pieces: Mapping[str, Sequence[int]], settings: TokenizerSettings
) -> Bundle:
    """A copy of a model with more tokens, whose pieces are given, and settings of its tokenizer."""
    tokens = model.require_vocabulary().tokens
    # New tokens must not change how texts are decomposed.
    settings = {**settings, "decompose": model.tokenizer().all_settings["decompose"]}
    extended = WordPieceVocabulary((*tokens, *pieces), model.place)
    weights = {
        name: _with_rows(value, len(tokens), list(pieces.values()))
        if name.endswith(("/word_embeddings", "/output_bias"))
        else value
        for name, value in model.weights.items()
    }
    config: Any = dataclasses.replace(model.config, vocab_size=len(extended))  # type: ignore
    return dataclasses.replace(
        model, config=config, weights=weights, vocabulary=extended, tokenizer_settings=settings
    )


def _pieces(tokenizer: Tokenizer, words: Sequence[str]) -> list[Sequence[int]]:
    return tokenizer.tokenize(words).to_list() if words else []


def _with_rows(table: np.ndarray, count: int, pieces: Sequence[Sequence[int]]) -> np.ndarray:
    """The first rows of a table, and for each word the mean of the rows of its pieces."""
    new = [table[list(ids)].mean(0) for ids in pieces]
    return np.concatenate([table[:count], np.array(new, table.dtype).reshape(-1, *table.shape[1:])])


def with_positions(model: Bundle, count: int) -> Bundle:
    """A copy of a model with more positions: copies of those it has, again and again.

    As tokens mostly attend to their neighbours, copies are a better start than new rows (Beltagy et
    al. 2020, arXiv 2004.05150, section 5). The model must then be pre-trained further.

    Raises:
      InputError: the model has no table of positions, or already has as many.
    """
    config = model.config
    if not isinstance(config, BertConfig) or config.num_decoder_layers or config.rope_theta:
        raise InputError(f"{model.place}: has no table of positions that can be extended.")
    offset, table = config.position_offset, model.weights[_POSITIONS]
    if count <= len(table):
        raise InputError(
            f"--max_position_embeddings={count}: {model.place} has {len(table)}; give more."
        )
    rows = np.arange(count - offset) % (len(table) - offset) + offset
    weights = {
        name: np.concatenate([value[:offset], value[rows]])
        if name.endswith("/position_embeddings")
        else value
        for name, value in model.weights.items()
    }
    config = dataclasses.replace(config, max_position_embeddings=count)
    return dataclasses.replace(model, config=config, weights=weights)
