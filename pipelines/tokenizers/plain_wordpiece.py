"""WordPiece of plain text without TensorFlow, for the one text that somebody waits for.

A graph of some hundred small operations takes ten times as long for a sentence as the sentence's
words need. Plain text is ASCII without control characters: there is nothing to normalize but case,
and words are runs of letters and digits, or one sign each (`wordpiece`, steps 3 to 5).
"""

import functools
import re
from collections.abc import Mapping

_PLAIN = re.compile(r"[\t\n\r -~]*")
_WORD = re.compile(r"[0-9A-Za-z]+|[!-/:-@\[-`{-~]")
_KNOWN = 1 << 16  # words whose pieces are kept


class PlainWordPiece:
    """Ids of plain texts.

    >>> PlainWordPiece({"hel": 5, "##lo": 6}, "##", 1, True, 200).ids("Hello hi")
    [5, 6, 1]

    Args:
      table: ids by piece.
      suffix: what a piece begins with that continues a word.
      unknown_id: of words that pieces do not cover.
      lower_case: whether text is lower-cased.
      longest: characters of the longest word that is not unknown.
    """

    def __init__(
        self,
        table: Mapping[str, int],
        suffix: str,
        unknown_id: int,
        lower_case: bool,
        longest: int,
    ):
        self._table, self._suffix, self._unknown = table, suffix, unknown_id
        self._lower_case, self._longest = lower_case, longest
        self._longest_piece = max(map(len, table), default=0)
        self._pieces = functools.lru_cache(_KNOWN)(self._split)

    def ids(self, text: str) -> list[int] | None:
        """The ids of a text's pieces; None where it is not plain."""
        if not _PLAIN.fullmatch(text):
            return None
        if self._lower_case:
            text = text.lower()
        return [number for word in _WORD.findall(text) for number in self._pieces(word)]

    def _split(self, word: str) -> tuple[int, ...]:
        """The ids of a word's pieces, the longest first."""
        found: list[int] = []
        begin = 0
        while begin < len(word) <= self._longest:
            prefix = self._suffix if begin else ""
            last = min(len(word), begin + self._longest_piece)
            ends = range(last, begin, -1)
            known = ((end, self._table.get(prefix + word[begin:end])) for end in ends)
            end, number = next((each for each in known if each[1] is not None), (0, None))
            if number is None:
                return (self._unknown,)
            found.append(number)
            begin = end
        return tuple(found) or (self._unknown,)
