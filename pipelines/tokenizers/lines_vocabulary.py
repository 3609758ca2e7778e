"""What vocabularies share that are a file of tokens, one a line, of text that may be uncased."""

import collections
from collections.abc import Mapping, Sequence

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
