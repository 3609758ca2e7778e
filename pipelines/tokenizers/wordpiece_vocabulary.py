"""WordPiece vocabularies, and what they share with other vocabularies of one token per line."""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import ClassVar, Self

import tokenizers

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers import kept_tokens
from pipelines.tokenizers.unicode_tables import UNASSIGNED
from pipelines.tokenizers.vocabulary import (
    BERT,
    MPNET,
    CasedVocabulary,
    SequenceForm,
    TokenizerSettings,
    distinct,
    read_lines,
    repeat_words,
)

FILE = "vocab.txt"
SPECIAL_TOKENS = tuple(BERT.roles.values())
SUFFIX = "##"  # prefix of the pieces that continue a word
# The longest token that tensorflow_text's tokenizer accepts.
MAX_TOKEN_BYTES = 256
MAX_CHARACTERS_PER_WORD = 200
# Of Korean syllables: a first consonant before its vowel, and a syllable as one character.
_IN_PARTS = re.compile("[\u1100-\u115f][\u1160-\u11a7]").search
_WHOLE = re.compile("[\uac00-\ud7a3]").search
_SPACE = "▁"  # SentencePiece's mark of the space before a word


@dataclasses.dataclass(frozen=True)
class LinesVocabulary(CasedVocabulary):
    """Tokens in a file, one per line, for text that may be lower-cased.

    Raises:
      InputError: a token is empty, repeated, or longer than MAX_TOKEN_BYTES (without `suffix`).
    """

    tokens: tuple[str, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    usual: ClassVar[TokenizerSettings] = {
        **CasedVocabulary.usual,
        "clean_text": True,
        "decompose": False,
        "typed": True,
        "max_characters_per_word": MAX_CHARACTERS_PER_WORD,
    }
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


def learnable_words(words: collections.Counter[bytes]) -> collections.Counter[str]:
    """Returns the words whose characters Unicode has assigned; raises InputError if there are none.

    All other characters are normalized to one (`wordpiece.Normalizer`), which no token may have.
    """
    texts = ((word.decode(), count) for word, count in words.items())
    found = collections.Counter({t: n for t, n in texts if UNASSIGNED not in t})
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
    forms: ClassVar[tuple[SequenceForm, ...]] = (BERT, MPNET)
    usual: ClassVar[TokenizerSettings] = {**LinesVocabulary.usual, "kept_tokens": ""}
    suffix: ClassVar[str] = SUFFIX

    def __post_init__(self, name: str):
        first, second = (
            sum(token.startswith(mark) for token in self.tokens) for mark in (_SPACE, SUFFIX)
        )
        if first > second:
            raise InputError(
                f"{name}: this tokenizer is not supported: its pieces begin words with {_SPACE}, "
                f"as SentencePiece's do, and those of BERT continue words with {SUFFIX}."
            )
        self.check_special_tokens(name)
        super().__post_init__(name)

    def _decided(self, chosen: TokenizerSettings) -> TokenizerSettings:
        """KR-BERT's text is decomposed: tokens have syllables in parts, and no whole ones.

        BERT's uncased vocabulary has parts, too, but each alone; it strips accents, as one that is
        learned of decomposed text does.
        """
        cases = super()._decided(chosen)
        is_stripped = {**cases, **chosen}["strip_accents"]
        decompose = not is_stripped and any(map(_IN_PARTS, self.tokens))
        decompose = decompose and not any(map(_WHOLE, {*self.tokens} - {*kept_tokens.of(chosen)}))
        return {**cases, "decompose": decompose}

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
        characters: collections.Counter[str] = collections.Counter()
        for word, count in counts.items():
            for piece in (word[0], *(f"{SUFFIX}{character}" for character in word[1:])):
                characters[piece] += count
        alphabet = sorted(covering(characters, coverage))
        fixed = dict.fromkeys([*SPECIAL_TOKENS, *alphabet])
        if len(SPECIAL_TOKENS) + len(alphabet) > size:
            raise InputError(
                f"the corpus has {len(alphabet)} characters and continuing characters (##), which "
                f"do not fit a vocabulary of {size}: raise the size, or leave rare characters to "
                "[UNK] with --character_coverage=0.9995."
            )
        model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        # The alphabet is passed as special tokens because the ids of those are fixed; the trainer
        # would number continuing characters in the order of a hash table, and break ties by that
        # order.
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=list(fixed), min_frequency=2, show_progress=False
        )
        kept = (
            (word, count)
            for word, count in sorted(counts.items())
            if word[0] in fixed and all(f"{SUFFIX}{character}" in fixed for character in word[1:])
        )
        model.train_from_iterator(repeat_words(kept), trainer)
        ids = model.get_vocab()
        pieces = sorted((p for p in ids if p not in fixed and cls.is_short(p)), key=ids.__getitem__)
        return cls((*SPECIAL_TOKENS, *alphabet, *pieces[: size - len(fixed)]))

    def write(self, path: str) -> None:
        """Writes the vocabulary as a file of any name."""
        files.write_bytes(path, *self.contents())

    def text(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces).replace(f" {SUFFIX}", "")


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
