"""The kinds of tokenizers, and how the tokenizer of a folder is found."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.bpe import BPETokenizer
from pipelines.tokenizers.bpe_vocabulary import BPEVocabulary
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from pipelines.tokenizers.byte_bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.hugging_face import TokenizerFiles
from pipelines.tokenizers.sentencepiece import SentencePieceTokenizer
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import ChosenSettings, TokenizerSettings, Vocabulary
from pipelines.tokenizers.whole_words import WordTokenizer, WordVocabulary
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary


class TokenizerKind(NamedTuple):
    """The classes of an algorithm; a tokenizer is made from a vocabulary and its settings."""

    vocabulary: type[Vocabulary]
    tokenizer: Callable[..., Tokenizer]


KINDS = {
    "wordpiece": TokenizerKind(WordPieceVocabulary, WordPieceTokenizer),
    "bpe": TokenizerKind(BPEVocabulary, BPETokenizer),
    "byte_bpe": TokenizerKind(ByteBPEVocabulary, ByteBPETokenizer),
    "sentencepiece": TokenizerKind(SentencePieceVocabulary, SentencePieceTokenizer),
    "word": TokenizerKind(WordVocabulary, WordTokenizer),
}
SETTINGS = "tokenizer_config.json"  # in the folders of models


def find(folder: str) -> Vocabulary | None:
    """Returns the vocabulary of a folder, or None; raises InputError if there are several."""
    found = [
        kind.vocabulary
        for kind in KINDS.values()
        if any(files.gfile.exists(f"{folder}/{name}") for name in kind.vocabulary.marker_files)
    ]
    if len(found) > 1:
        names = " and ".join(vocabulary.files[0] for vocabulary in found)
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
    chosen = vocabulary.resolve(settings or {})
    try:
        return KINDS[vocabulary.kind].tokenizer(vocabulary, **chosen)
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
    known = KINDS[kind].vocabulary.setting_types
    for key in values.keys() - {"kind"}:
        if type(values[key]) is not known.get(key):
            names = ", ".join(f"{name} ({type.__name__})" for name, type in known.items())
            raise InputError(f"{name}: {key} is {values[key]!r}; known are {names}.")
    return values


def load_tokenizer(path: str, chosen: Mapping[str, bool] | None = None) -> Tokenizer:
    """Makes the tokenizer of the vocabulary at a path; chosen settings precede the folder's.

    Raises:
      InputError: the vocabulary is missing or damaged, or the settings do not suit it.
    """
    vocabulary = load(path)
    vocabulary.check_settings(chosen or {}, path)
    settings = {**_kept_settings(path, vocabulary), **(chosen or {})}
    return make(vocabulary, settings, path)


def _kept_settings(path: str, vocabulary: Vocabulary) -> TokenizerSettings:
    """Returns the settings beside the files of a vocabulary, ours or those of Hugging Face."""
    folder, name = os.path.split(path)
    if name not in vocabulary.files:
        folder = path
    theirs = TokenizerFiles(folder or ".")
    values = theirs.config
    if not (values or theirs.fast) or vocabulary.kind == "word":  # which is ours alone
        return {}
    ours = {"kind"}.union(*(kind.vocabulary.setting_types for kind in KINDS.values()))
    is_ours = values.get("kind", "wordpiece") == vocabulary.kind and None not in values.values()
    if values and values.keys() <= ours and is_ours:
        return read_settings(folder or ".") or {}
    theirs.check_class(vocabulary.kind)
    return theirs.settings(vocabulary)


def all_files() -> tuple[str, ...]:
    """Returns the names of the files of all kinds of vocabularies."""
    return tuple(name for kind in KINDS.values() for name in kind.vocabulary.files)
