"""The tokenizers there are, one for each kind of vocabulary."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer, Vocabulary
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary


class Kind(NamedTuple):
    """An algorithm: the class of its vocabularies, and that of its tokenizer."""

    vocabulary: type[Vocabulary]
    tokenizer: Any  # takes a vocabulary's fields and settings


KINDS: dict[str, Kind] = {
    "wordpiece": Kind(WordPieceVocabulary, WordPieceTokenizer),
}
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
        if files.gfile.exists(f"{folder}/{kind.vocabulary.files[0]}")
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
    name = path.rsplit("/", 1)[-1]
    kind = next((k for k in KINDS.values() if name in k.vocabulary.files), _USUAL)
    return kind.vocabulary.load(path)


def make(
    vocabulary: Vocabulary, settings: Mapping[str, bool | str | None] | None = None
) -> Tokenizer:
    """The tokenizer of a vocabulary.

    Args:
      vocabulary: of any kind.
      settings: what the vocabulary does not tell; None: nothing.
    """
    return KINDS[vocabulary.kind].tokenizer(vocabulary, **vocabulary.resolve(settings or {}))


def load_tokenizer(path: str, settings: Mapping[str, bool | str | None] | None = None) -> Tokenizer:
    """The tokenizer of the vocabulary at a path, with what a user chose.

    Raises:
      InputError: there is none, or it does not suit what was chosen.
    """
    vocabulary = load(path)
    vocabulary.check_settings(settings or {}, path)
    return make(vocabulary, settings)


def all_files() -> tuple[str, ...]:
    """The names of the files of all kinds of vocabularies."""
    return tuple(name for kind in KINDS.values() for name in kind.vocabulary.files)
