"""WordPiece vocabularies: learned from a corpus, or brought as a vocab.txt."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf
import tensorflow_text as tf_text
import tokenizers

from pipelines.common import files, texts
from pipelines.common.errors import InputError
from pipelines.tokenizers import normalizer
from pipelines.tokenizers.base import Settings, Vocabulary

# The longest token that tensorflow_text's tokenizer takes.
MOST_BYTES = 256
_BRACKETS = (("[", "]"), ("<", ">"))


class LinesVocabulary(Vocabulary):
    """Tokens in a file, one a line, the line number the id."""

    def texts(self) -> tuple[str, ...]:
        """A token a line."""
        return ("".join(f"{token}\n" for token in self.tokens),)

    def resolve(self, settings: Mapping[str, bool | str | None]) -> Settings:
        """`lower_case` (None: unless a token has capitals), `strip_accents` (None: as that)."""
        lower_case = settings.get("lower_case")
        if lower_case is None:
            lower_case = not self.is_cased
        strip_accents = settings.get("strip_accents")
        return {
            "lower_case": bool(lower_case),
            "strip_accents": bool(lower_case if strip_accents is None else strip_accents),
        }

    def check_settings(self, settings: Mapping[str, bool | str | None], place: str) -> None:
        """Raises InputError where lower-cased text would never have the capital letters."""
        if settings.get("lower_case") and self.is_cased:
            raise InputError(
                f"{place}: the vocabulary has capital letters, which lower-cased text never has; "
                "use --lower_case=false."
            )

    @property
    def is_cased(self) -> bool:
        """Whether any token but the special ones ([MASK], <S>) has a capital letter."""
        return any(
            token != token.lower() and (token[0], token[-1]) not in _BRACKETS
            for token in self.tokens
        )


def read_lines(path: str) -> list[str]:
    """The lines of a file, without what ends them.

    Raises:
      InputError: it is missing or is not UTF-8.
    """
    try:
        text = files.read_whole(path).decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"{path}: byte {error.start}"
        raise InputError(f"{place} is not UTF-8; {texts.TO_UTF8}.") from error
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def check_lines(tokens: Sequence[str], name: str, suffix: str = "") -> None:
    """Checks the tokens of a file.

    Args:
      tokens: a line each.
      name: of the file, for errors.
      suffix: what a piece begins with that continues a word, which does not count.

    Raises:
      InputError: an empty line, or a token that stands twice or is longer than MOST_BYTES.
    """
    first: dict[str, int] = {}
    for line, token in enumerate(tokens, 1):
        if not token:
            raise InputError(f"{name}: line {line} is empty; give every id a token.")
        if token in first:
            raise InputError(
                f"{name}: {token!r} stands on lines {first[token]} and {line}; "
                "every token must stand once."
            )
        if not is_short(token, suffix):
            size = len(token.removeprefix(suffix).encode())
            raise InputError(
                f"{name}: line {line}: {token[:20]!r}... has {size} bytes, and a token may have "
                f"{MOST_BYTES}; put one that no text has in its place, such as [unused{line}]."
            )
        first[token] = line


def is_short(token: str, suffix: str = "") -> bool:
    """Whether a token has no more than MOST_BYTES; `suffix` as for `check_lines`."""
    return len(token.removeprefix(suffix).encode()) <= MOST_BYTES


def assigned(words: collections.Counter[bytes]) -> collections.Counter[str]:
    """The texts of words that can be learned: those of characters that Unicode has assigned.

    The others cannot be told apart (see `normalizer`): a token for one would stand for all.
    """
    texts = ((word.decode(), count) for word, count in words.items())
    return collections.Counter({t: count for t, count in texts if normalizer.UNASSIGNED not in t})


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


def learning_settings(chosen: Mapping[str, bool]) -> dict[str, bool | None]:
    """What decides the words: uncased, unless another choice was made."""
    return {
        "lower_case": chosen.get("lower_case", True),
        "strip_accents": chosen.get("strip_accents"),
    }


def word_learning_settings(chosen: Mapping[str, bool]) -> dict[str, bool | None]:
    """What decides the words of a vocabulary of words: cased, unless another choice was made."""
    return learning_settings({"lower_case": False, **chosen})


@dataclasses.dataclass(frozen=True)
class WordSplitter:
    """Splits texts into words as the tokenizer does, by a tokenizer that knows but one piece.

    Attributes:
      lower_case: whether words are lower-cased.
      strip_accents: whether letters lose their accents.
    """

    lower_case: bool
    strip_accents: bool

    @classmethod
    def of(cls, chosen: Mapping[str, bool | None]) -> Self:
        """That of the settings of a tokenizer."""
        lower_case, strip_accents = bool(chosen["lower_case"]), chosen["strip_accents"]
        return cls(lower_case, lower_case if strip_accents is None else strip_accents)

    def __call__(self, texts: list[str]) -> tf.Tensor:
        """Returns all words of the texts, string [words]."""
        normalized = _normalizer(self.lower_case, self.strip_accents)(texts)
        _, starts, ends = _tokenizer().tokenize_with_offsets(normalized)
        # Sentences are short: copying one for each of its words is the faster way.
        return tf.strings.substr(
            tf.gather(normalized, starts.value_rowids()),
            tf.cast(starts.flat_values, tf.int32),
            tf.cast(ends.flat_values - starts.flat_values, tf.int32),
        )


# Made once a process, so that a splitter can be sent to another.
@functools.cache
def _normalizer(lower_case: bool, strip_accents: bool) -> normalizer.Normalizer:
    return normalizer.Normalizer(lower_case, strip_accents)


@functools.cache
def _tokenizer() -> Any:
    return tf_text.FastBertTokenizer([*SPECIAL_TOKENS, "x"], token_out_type=tf.int32)
