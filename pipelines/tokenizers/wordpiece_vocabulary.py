"""WordPiece vocabularies, and what they share with other vocabularies of one token per line."""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf
import tensorflow_text as tf_text
import tokenizers

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers import byte_ranges, normalizer
from pipelines.tokenizers.vocabulary import (
    CasedVocabulary,
    ChosenSettings,
    TokenizerSettings,
    distinct,
    read_lines,
    repeat_words,
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
SUFFIX = "##"  # prefix of the pieces that continue a word
# The longest token that tensorflow_text's tokenizer accepts.
MAX_TOKEN_BYTES = 256
MAX_CHARACTERS_PER_WORD = 200
_SPACE = "▁"  # SentencePiece's mark of the space before a word
_BRACKETS = (("[", "]"), ("<", ">"))


class SplitWordsVocabulary(CasedVocabulary):
    """A vocabulary for words as BERT finds them, which may be lower-cased."""

    learned_lower_case: ClassVar[bool]  # whether text is lower-cased by default when learning

    @classmethod
    def learning_settings(cls, chosen: Mapping[str, bool]) -> dict[str, bool | None]:
        return {
            "lower_case": chosen.get("lower_case", cls.learned_lower_case),
            "strip_accents": chosen.get("strip_accents"),
        }

    @classmethod
    def splitter(cls, settings: Mapping[str, bool | None]) -> "WordSplitter":
        lower_case, strip_accents = bool(settings["lower_case"]), settings["strip_accents"]
        return WordSplitter(lower_case, lower_case if strip_accents is None else strip_accents)

    def resolve(self, settings: ChosenSettings) -> TokenizerSettings:
        """Text is lower-cased if no token has capitals; accents are stripped if it is."""
        lower_case = settings.get("lower_case")
        if lower_case is None:
            lower_case = not self.is_cased
        strip_accents = settings.get("strip_accents")
        return {
            "lower_case": bool(lower_case),
            "strip_accents": bool(lower_case if strip_accents is None else strip_accents),
        }

    @property
    def is_cased(self) -> bool:
        """Whether a token other than the special ones ([MASK], <S>) has a capital letter."""
        return any(
            token != token.lower() and (token[0], token[-1]) not in _BRACKETS
            for token in self.tokens
        )


@dataclasses.dataclass(frozen=True)
class LinesVocabulary(SplitWordsVocabulary):
    """Tokens in a file, one per line, for text that may be lower-cased.

    Raises:
      InputError: a token is empty, repeated, or longer than MAX_TOKEN_BYTES (without `suffix`).
    """

    tokens: tuple[str, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    suffix: ClassVar[str] = ""  # prefix of the pieces that continue a word

    def __post_init__(self, name: str):
        first: dict[str, int] = {}
        for line, token in enumerate(self.tokens, 1):
            if not token:
                raise InputError(f"{name}: line {line} is empty; give every id a token.")
            if token in first:
                raise InputError(
                    f"{name}: {token!r} is on lines {first[token]} and {line}; every token must "
                    "occur once."
                )
            if not self.is_short(token):
                size = len(token.removeprefix(self.suffix).encode())
                raise InputError(
                    f"{name}: line {line}: {token[:20]!r}... has {size} bytes, and a token may "
                    f"have {MAX_TOKEN_BYTES}; replace it by one that no text has, such as "
                    f"[unused{line}]."
                )
            first[token] = line

    @classmethod
    def load(cls, path: str) -> Self:
        path = f"{path}/{cls.files[0]}" if files.gfile.isdir(path) else path
        return cls(distinct(list(map(cls.token_of, read_lines(path))), path), path)

    @staticmethod
    def token_of(line: str) -> str:
        """Returns the token on a line of the file."""
        return line.removesuffix("\r")

    @classmethod
    def is_short(cls, token: str) -> bool:
        """Returns whether a token has at most MAX_TOKEN_BYTES, without `suffix`."""
        return len(token.removeprefix(cls.suffix).encode()) <= MAX_TOKEN_BYTES

    def contents(self) -> tuple[bytes, ...]:
        return ("".join(f"{token}\n" for token in self.tokens).encode(),)

    def continuation(self, token: str) -> bytes:
        continues = self.suffix and token.startswith(self.suffix)
        return (token.removeprefix(self.suffix) if continues else f" {token}").encode()


@dataclasses.dataclass(frozen=True)
class WordSplitter:
    """Splits texts into words as the tokenizer does before WordPiece; can be pickled."""

    lower_case: bool
    strip_accents: bool

    def __call__(self, texts: list[str]) -> tf.Tensor:
        """Returns all words of the texts, string [words]; those of long texts are last."""
        limit = byte_ranges.LONG_TEXT
        parts = [x for x in texts if len(x) <= limit], [x for x in texts if len(x) > limit]
        return tf.concat([self._words(part) for part in parts if part], 0)

    def _words(self, texts: list[str]) -> tf.Tensor:
        normalized = _normalizer(self.lower_case, self.strip_accents)(texts)
        _, starts, ends = _word_finder().tokenize_with_offsets(normalized)
        return byte_ranges.cut_words(normalized, starts, ends)


# Created once per process, so that a splitter can be pickled.
@functools.cache
def _normalizer(lower_case: bool, strip_accents: bool) -> normalizer.Normalizer:
    return normalizer.Normalizer(lower_case, strip_accents)


@functools.cache
def _word_finder() -> Any:
    return make_word_finder()


def make_word_finder() -> Any:
    """A tokenizer with a single piece, which therefore finds whole words."""
    return tf_text.FastWordpieceTokenizer([*SPECIAL_TOKENS, "x"], token_out_type=tf.int32)


def learnable_words(words: collections.Counter[bytes]) -> collections.Counter[str]:
    """Returns the words whose characters Unicode has assigned; raises InputError if there are none.

    All other characters are normalized to one (see `normalizer`), which no token may contain.
    """
    texts = ((word.decode(), count) for word, count in words.items())
    found = collections.Counter({t: n for t, n in texts if normalizer.UNASSIGNED not in t})
    if not found:
        raise InputError("the corpus has no words to learn a vocabulary from.")
    return found


class WordPieceVocabulary(LinesVocabulary):
    """The tokens of a vocab.txt.

    Raises:
      InputError: a special token is missing, or a token is empty, repeated or too long.
    """

    kind: ClassVar[str] = "wordpiece"
    files: ClassVar[tuple[str, ...]] = (FILE,)
    marker_files: ClassVar[tuple[str, ...]] = (FILE,)
    roles: ClassVar[Mapping[str, str]] = ROLES
    setting_types: ClassVar[Mapping[str, type]] = {
        **CasedVocabulary.setting_types,
        "clean_text": bool,
        "max_characters_per_word": int,
        "typed": bool,
    }
    learned_lower_case: ClassVar[bool] = True
    suffix: ClassVar[str] = SUFFIX

    def __post_init__(self, name: str):
        if self._begin_with(_SPACE) > self._begin_with(SUFFIX):
            raise InputError(
                f"{name}: this tokenizer is not supported: its pieces begin words with {_SPACE}, "
                f"as SentencePiece's do, and those of BERT continue words with {SUFFIX}."
            )
        missing = [token for token in SPECIAL_TOKENS if token not in self.tokens]
        if missing:
            raise InputError(
                f"{name}: lacks {', '.join(missing)}; a BERT vocabulary has "
                f"{', '.join(SPECIAL_TOKENS)}."
            )
        super().__post_init__(name)

    def _begin_with(self, mark: str) -> int:
        return sum(token.startswith(mark) for token in self.tokens)

    def resolve(self, settings: ChosenSettings) -> TokenizerSettings:
        usual: TokenizerSettings = {"clean_text": True, "typed": True}
        usual["max_characters_per_word"] = MAX_CHARACTERS_PER_WORD
        return super().resolve(settings) | self.unusual(settings, usual)

    @staticmethod
    def token_of(line: str) -> str:
        # Google's Chinese vocabulary has a line separator (U+2028) as a token, which no text gives.
        return line.strip() or line.strip(" \t\r")

    @classmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns special tokens, then characters, then pieces, the characters sorted.

        A coverage of 1.0 covers every character at every place where it occurs.
        """
        counts = learnable_words(words)
        alphabet = sorted(_alphabet(counts, coverage))
        if len(SPECIAL_TOKENS) + len(alphabet) > size:
            raise InputError(
                f"the corpus has {len(alphabet)} characters and continuing characters (##), which "
                f"do not fit a vocabulary of {size}: raise the size, or leave rare characters to "
                "[UNK] with --character_coverage=0.9995."
            )
        return cls((*SPECIAL_TOKENS, *alphabet, *_train(counts, size, alphabet)))

    def write(self, path: str) -> None:
        """Writes the vocabulary as a file of any name."""
        files.write_bytes(path, *self.contents())

    def text(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces).replace(f" {SUFFIX}", "")


def _alphabet(words: collections.Counter[str], coverage: float) -> set[str]:
    """Returns the first (c) and continuing (##c) characters that cover a fraction of the text."""
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        counts[word[0]] += count
        for character in word[1:]:
            counts[f"##{character}"] += count
    return covering(counts, coverage)


def covering(counts: collections.Counter[str], coverage: float) -> set[str]:
    """Returns the most frequent keys that make up a fraction of all counts."""
    budget = (1 - coverage) * counts.total()
    alphabet = set(counts)
    for piece, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        budget -= count
        if budget < 0:
            break
        alphabet.discard(piece)
    return alphabet


def _train(words: collections.Counter[str], size: int, alphabet: list[str]) -> list[str]:
    """Returns the pieces of several characters that the tokenizers library finds, in its order."""
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    # The alphabet is passed as special tokens because the ids of those are fixed; the trainer would
    # number continuing characters in the order of a hash table, and break ties by that order.
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
    model.train_from_iterator(repeat_words(kept), trainer)
    ids = model.get_vocab()
    pieces = (p for p in ids if p not in fixed and WordPieceVocabulary.is_short(p))
    return sorted(pieces, key=ids.__getitem__)[: size - len(fixed)]
