"""The tokenizers there are, one for each kind of vocabulary."""

import collections
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import (
    byte_bpe_vocabulary,
    byte_bpe_words,
    whole_words,
    wordpiece_vocabulary,
)
from pipelines.tokenizers.base import Settings, Tokenizer, Vocabulary
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from pipelines.tokenizers.byte_bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.whole_words import WordTokenizer, WordVocabulary
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary, WordSplitter


class Kind(NamedTuple):
    """An algorithm.

    Attributes:
      vocabulary: the class of its vocabularies.
      tokenizer: that of its tokenizer, of a vocabulary and settings.
      settings: names of its settings, true or false.
      settings_of_learning: all settings that decide words, by those that were chosen.
      splitter: by these, what gives the words of texts.
      learn: a vocabulary of counts of words, its size, and the share of characters to cover.
    """

    vocabulary: type[Vocabulary]
    tokenizer: Callable[..., Tokenizer]
    settings: frozenset[str]
    settings_of_learning: Callable[[Mapping[str, bool]], dict[str, bool | None]]
    splitter: Callable[[Mapping[str, bool | None]], Callable[[list[str]], tf.Tensor]]
    learn: Callable[[collections.Counter[bytes], int, float], Vocabulary]


KINDS: dict[str, Kind] = {
    "wordpiece": Kind(
        WordPieceVocabulary,
        WordPieceTokenizer,
        frozenset(["lower_case", "strip_accents"]),
        wordpiece_vocabulary.learning_settings,
        WordSplitter.of,
        wordpiece_vocabulary.learn,
    ),
    "byte_bpe": Kind(
        ByteBPEVocabulary,
        ByteBPETokenizer,
        frozenset(["add_prefix_space"]),
        lambda chosen: {},
        lambda settings: byte_bpe_words.split_words,
        byte_bpe_vocabulary.learn,
    ),
    "word": Kind(
        WordVocabulary,
        WordTokenizer,
        frozenset(["lower_case", "strip_accents"]),
        wordpiece_vocabulary.word_learning_settings,
        WordSplitter.of,
        whole_words.learn,
    ),
}
SETTINGS = "tokenizer_config.json"  # in folders of ours
# What a path is where its name says nothing.
_USUAL = KINDS["wordpiece"]


def find(folder: str) -> Vocabulary | None:
    """The vocabulary of a folder; None if it has none.

    Raises:
      InputError: it is damaged, or there are two.
    """
    found = [
        kind.vocabulary
        for kind in KINDS.values()
        if any(files.gfile.exists(f"{folder}/{name}") for name in kind.vocabulary.signs)
    ]
    if len(found) > 1:
        names = " and ".join(vocabulary.files[0] for vocabulary in found)
        raise InputError(f"{folder}: has {names}; remove what is not of the model.")
    return found[0].load(folder) if found else None


def load(path: str) -> Vocabulary:
    """Reads a vocabulary by its folder or by one of its files.

    Raises:
      InputError: none is there, or it is damaged.
    """
    if files.gfile.isdir(path):
        found = find(path)
        if found is None:
            names = ", ".join(kind.vocabulary.files[0] for kind in KINDS.values())
            raise InputError(f"{path}: has no vocabulary; known are {names}.")
        return found
    kind = next((k for k in KINDS.values() if k.vocabulary.claims(path)), _USUAL)
    return kind.vocabulary.load(path)


def make(
    vocabulary: Vocabulary,
    settings: Mapping[str, bool | str | None] | None = None,
    place: str | None = None,
) -> Tokenizer:
    """The tokenizer of a vocabulary.

    Args:
      vocabulary: of any kind.
      settings: what the vocabulary does not tell; None: nothing.
      place: where the vocabulary is from, for errors; None: it is from nowhere.

    Raises:
      InputError: none can be made of it.
    """
    chosen = vocabulary.resolve(settings or {})
    try:
        return KINDS[vocabulary.kind].tokenizer(vocabulary, **chosen)
    except InputError as error:
        raise InputError(f"{place}: {error}" if place else str(error)) from error


def read_settings(folder: str) -> Settings | None:
    """The settings of the tokenizer that are kept beside a vocabulary; None if there are none.

    Raises:
      InputError: they are not what we wrote.
    """
    name = f"{folder}/{SETTINGS}"
    if not files.gfile.exists(name):
        return None
    values = json_files.read(name, dict[str, Any])
    kind = values.get("kind", "wordpiece")
    if kind not in KINDS:
        raise InputError(f"{name}: kind is {kind!r}; known are {', '.join(KINDS)}.")
    known = KINDS[kind].settings
    if values.keys() - known - {"kind"} or not all(
        isinstance(value, bool) for key, value in values.items() if key != "kind"
    ):
        raise InputError(f"{name}: has {', '.join(sorted(known))} as true or false only.")
    return values


def load_tokenizer(path: str, chosen: Mapping[str, bool] | None = None) -> Tokenizer:
    """The tokenizer of the vocabulary at a path, as a user chose it, else as its folder says.

    Raises:
      InputError: there is none, or it does not suit what was chosen.
    """
    vocabulary = load(path)
    vocabulary.check_settings(chosen or {}, path)
    settings = {**_kept_settings(path), **(chosen or {})}
    return make(vocabulary, settings, path)


def _kept_settings(path: str) -> Settings:
    """The settings in a folder of ours; those of other programs have other names."""
    name = f"{path}/{SETTINGS}"
    if not files.gfile.exists(name):
        return {}
    ours = {"kind"}.union(*(kind.settings for kind in KINDS.values()))
    return (json_files.read(name, dict[str, Any]).keys() <= ours and read_settings(path)) or {}


def all_files() -> tuple[str, ...]:
    """The names of the files of all kinds of vocabularies."""
    return tuple(name for kind in KINDS.values() for name in kind.vocabulary.files)
