"""The kinds of tokenizers, and how the tokenizer of a folder is found."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import byte_bpe_words, sentencepiece, wordpiece
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.bpe import BPETokenizer
from pipelines.tokenizers.bpe_vocabulary import BPEVocabulary, ByteBPEVocabulary
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from pipelines.tokenizers.hugging_face import TokenizerFiles
from pipelines.tokenizers.hugging_face_rules import ALGORITHMS, rules_of
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import ChosenSettings, TokenizerSettings, Vocabulary
from pipelines.tokenizers.whole_words import WordTokenizer, WordVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary


class TokenizerKind(NamedTuple):
    """An algorithm: its vocabulary (files, special tokens, settings, learning) and functions."""

    vocabulary: type[Vocabulary]
    tokenizer: Callable[..., Tokenizer]  # of a vocabulary and settings
    # The words of texts that a vocabulary is learned from, string [words], by settings.
    split_words: Callable[..., tf.Tensor]


KINDS = {
    kind.vocabulary.kind: kind
    for kind in (
        TokenizerKind(WordPieceVocabulary, wordpiece.WordPieceTokenizer, wordpiece.split_words),
        TokenizerKind(BPEVocabulary, BPETokenizer, wordpiece.split_words),
        TokenizerKind(ByteBPEVocabulary, ByteBPETokenizer, byte_bpe_words.split_words),
        TokenizerKind(
            SentencePieceVocabulary, sentencepiece.SentencePieceTokenizer, sentencepiece.split_words
        ),
        TokenizerKind(WordVocabulary, WordTokenizer, wordpiece.split_words),
    )
}
SETTINGS = "tokenizer_config.json"  # in the folders of models


def find(folder: str) -> Vocabulary | None:
    """Returns the vocabulary of a folder, or None; raises InputError if there are several."""

    def is_there(kind: type[Vocabulary]) -> bool:
        return any(files.gfile.exists(f"{folder}/{name}") for name in kind.marker_files)

    found = [kind.vocabulary for kind in KINDS.values() if is_there(kind.vocabulary)]
    if len(found) > 1:
        names = " and ".join(kind.files[0] for kind in found)
        raise InputError(f"{folder}: has {names}; remove what is not of the model.")
    return found[0].load(folder) if found else None


def load(path: str) -> Vocabulary:
    """Reads a vocabulary by its folder or a file of it; raises InputError if there is none."""
    if files.gfile.isdir(path):
        found = find(path)
        if found is None:
            names = ", ".join(dict.fromkeys(k.vocabulary.files[0] for k in KINDS.values()))
            raise InputError(
                f"{path}: has no vocabulary; known are {names}. Of a model with another tokenizer "
                "file, `bert-tf convert` writes one."
            )
        return found
    kinds = (k for k in KINDS.values() if path.endswith(k.vocabulary.marker_files))
    return next(kinds, KINDS["wordpiece"]).vocabulary.load(path)


def make(
    vocabulary: Vocabulary, settings: ChosenSettings | None = None, place: str | None = None
) -> Tokenizer:
    """Makes the tokenizer of a vocabulary; `place` is its path, for errors.

    Raises:
      InputError: the vocabulary cannot tokenize anything.
    """
    try:
        return KINDS[vocabulary.kind].tokenizer(vocabulary, **(settings or {}))
    except InputError as error:
        raise InputError(f"{place}: {error}" if place else str(error)) from error


def read_settings(folder: str) -> TokenizerSettings | None:
    """Reads the settings of the tokenizer in a folder of our models; None if it has none."""
    name = f"{folder}/{SETTINGS}"
    if not files.gfile.exists(name):
        return None
    values = json_files.read(name, dict[str, Any])
    kind = values.get("kind", "wordpiece")
    if kind not in KINDS:
        raise InputError(f"{name}: kind is {kind!r}; known are {', '.join(KINDS)}.")
    usual = KINDS[kind].vocabulary.usual
    for key in values.keys() - {"kind"}:
        if key not in usual or type(values[key]) is not type(usual[key]):
            names = ", ".join(f"{name} ({type(value).__name__})" for name, value in usual.items())
            raise InputError(f"{name}: {key} is {values[key]!r}; known are {names}.")
    return values


def load_tokenizer(path: str, chosen: Mapping[str, bool] | None = None) -> Tokenizer:
    """Makes the tokenizer of the vocabulary at a path; chosen settings precede the folder's.

    Raises:
      InputError: the vocabulary is missing or damaged, or the settings do not suit it.
    """
    vocabulary = load(path)
    vocabulary.check_settings(chosen or {}, path)
    folder, name = os.path.split(path)
    if name not in vocabulary.files:
        folder = path
    theirs = TokenizerFiles(folder or ".")
    settings: TokenizerSettings = {}
    if vocabulary.kind in ALGORITHMS and (theirs.config or theirs.fast):
        ours = {"kind"}.union(*(kind.vocabulary.usual for kind in KINDS.values()))
        kinds = (vocabulary.kind, vocabulary.resolve({}).get("kind"))  # it may be unstated
        is_ours = theirs.config.get("kind") in kinds and None not in theirs.config.values()
        if theirs.config and theirs.config.keys() <= ours and is_ours:
            settings = read_settings(theirs.path) or {}
        else:
            theirs.check_class(rules_of(vocabulary))
            settings = theirs.settings(vocabulary)
    return make(vocabulary, {**settings, **(chosen or {})}, path)


def all_files() -> tuple[str, ...]:
    """Returns the names of the files of all kinds of vocabularies."""
    return tuple(name for kind in KINDS.values() for name in kind.vocabulary.files)
