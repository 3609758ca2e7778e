"""WordPiece vocabularies: learned from a corpus, or brought as a vocab.txt."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import tokenizers

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.lines_vocabulary import (
    LinesVocabulary,
    assigned,
    check_lines,
    is_short,
    read_lines,
)

FILE = "vocab.txt"
ROLES = {
    "pad": "[PAD]",
    "unknown": "[UNK]",
    "start": "[CLS]",
    "separator": "[SEP]",
    "mask": "[MASK]",
}
SPECIAL_TOKENS = tuple(ROLES.values())
SUFFIX = "##"  # before a piece that continues a word


@dataclasses.dataclass(frozen=True)
class WordPieceVocabulary(LinesVocabulary):
    """The tokens of a vocab.txt, one a line, the line number the id.

    Raises:
      InputError: a token is empty, too long or stands twice, or a special token is missing.
    """

    tokens: tuple[str, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "wordpiece"
    files: ClassVar[tuple[str, ...]] = (FILE,)
    signs: ClassVar[tuple[str, ...]] = (FILE,)
    roles: ClassVar[Mapping[str, str]] = ROLES

    def __post_init__(self, name: str):
        check(self.tokens, name)

    @classmethod
    def load(cls, path: str) -> "WordPieceVocabulary":
        """Reads a vocab.txt, or that of a folder.

        Raises:
          InputError: the file is missing or is not UTF-8, or its tokens make no vocabulary.
        """
        path = f"{path}/{FILE}" if files.gfile.isdir(path) else path
        # Google's Chinese vocabulary has a line separator (U+2028) for a token, which no text
        # gives.
        lines = (line.strip() or line.strip(" \t\r") for line in read_lines(path))
        return cls(tuple(lines), path)

    def write(self, path: str) -> None:
        """Writes it as a file of any name."""
        files.write_text(path, *self.texts())

    def text(self, pieces: Sequence[str]) -> str:
        """Pieces with blanks between words."""
        return " ".join(pieces).replace(f" {SUFFIX}", "")


def check(tokens: Sequence[str], name: str) -> None:
    """Checks that a vocabulary can be used.

    Raises:
      InputError: a special token is missing, or as `check_lines`.
    """
    missing = [token for token in SPECIAL_TOKENS if token not in tokens]
    if missing:
        raise InputError(
            f"{name}: lacks {', '.join(missing)}; a BERT vocabulary has "
            f"{', '.join(SPECIAL_TOKENS)}."
        )
    check_lines(tokens, name, SUFFIX)


def learn(
    words: collections.Counter[bytes], size: int, coverage: float = 1.0
) -> WordPieceVocabulary:
    """Learns a WordPiece vocabulary from words and their counts.

    The special tokens come first, then the characters, then the pieces, each
    sorted so that the same counts give the same vocabulary.

    Args:
      words: counts of words, as `word_counts.count_words` gives them.
      size: the most tokens to learn, special ones included; there are fewer if
        the corpus has not as many pieces that occur twice.
      coverage: share of all running characters that the vocabulary must cover;
        at 1.0 it covers every character seen, in every place it was seen.

    Raises:
      InputError: there are no words, or the characters alone overfill `size`.
    """
    texts = assigned(words)
    if not texts:
        raise InputError("the corpus has no words to learn a vocabulary from.")
    alphabet = _alphabet(texts, coverage)
    if len(SPECIAL_TOKENS) + len(alphabet) > size:
        raise InputError(
            f"the corpus has {len(alphabet)} characters and continuing characters (##), which do "
            f"not fit a vocabulary of {size}: raise the size, or leave rare characters to [UNK] "
            "with --character_coverage=0.9995."
        )
    pieces = _train(texts, size, sorted(alphabet))
    return WordPieceVocabulary((*SPECIAL_TOKENS, *sorted(alphabet), *pieces))


def _alphabet(words: collections.Counter[str], coverage: float) -> set[str]:
    """The first (c) and continuing (##c) characters that cover that share of the text."""
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        counts[word[0]] += count
        for character in word[1:]:
            counts[f"##{character}"] += count
    budget = (1 - coverage) * counts.total()
    alphabet = set(counts)
    for piece, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        budget -= count
        if budget < 0:
            break
        alphabet.discard(piece)
    return alphabet


def _train(words: collections.Counter[str], size: int, alphabet: list[str]) -> list[str]:
    """The pieces of more than one character, found by the tokenizers library, in its order."""
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    # The alphabet goes in as special tokens, because the ids of those are set; the trainer would
    # number continuing characters in the order of a hash table, and break ties by that.
    fixed = dict.fromkeys([*SPECIAL_TOKENS, *alphabet])
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(fixed), min_frequency=2, show_progress=False
    )
    known = set(alphabet)
    kept = (
        item
        for item in sorted(words.items())
        if item[0][0] in known and all(f"##{character}" in known for character in item[0][1:])
    )
    model.train_from_iterator(_repeat_words(kept), trainer)
    ids = model.get_vocab()
    pieces = (piece for piece in ids if piece not in fixed and is_short(piece, SUFFIX))
    found = sorted(pieces, key=ids.__getitem__)
    return found[: size - len(fixed)]


def _repeat_words(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Gives each word as often as it was counted, in strings of bounded length."""
    for word, count in counts:
        while count > 0:
            yield " ".join([word] * min(count, 1000))
            count -= 1000
