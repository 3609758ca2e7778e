"""The published tokenization rules in plain Python, independent of TensorFlow.

Written from the description of the rules, one function a rule, to compare
`pipelines.tokenizers.wordpiece` with.
"""

import unicodedata

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def clean(text: str) -> str:
    """Drops U+0000, U+FFFD and Cc/Cf characters; makes white space a space."""
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category == "Zs":
            kept.append(" ")
        elif character not in "\0\ufffd" and category not in ("Cc", "Cf"):
            kept.append(character)
    return "".join(kept)


def isolate_cjk(text: str) -> str:
    """Puts spaces round CJK ideographs."""
    return "".join(
        f" {c} " if any(low <= ord(c) <= high for low, high in _CJK) else c for c in text
    )


def strip_marks(word: str) -> str:
    """Decomposes and drops non-spacing marks."""
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def is_assigned(character: str) -> bool:
    """Whether Unicode has assigned a code point; ideographs count by their ranges, as for words."""
    cjk = any(low <= ord(character) <= high for low, high in _CJK)
    return cjk or unicodedata.category(character) != "Cn"


def is_punctuation(character: str) -> bool:
    """ASCII that is no letter, digit, space or control character, and all of P*."""
    if "!" <= character <= "~" and not character.isalnum():
        return True
    return unicodedata.category(character).startswith("P")


def split_punctuation(word: str) -> list[str]:
    """Makes each punctuation character a word of its own."""
    spaced = "".join(f" {c} " if is_punctuation(c) else c for c in word)
    return [part for part in spaced.split(" ") if part]


def basic_words(text: str, lower_case: bool) -> list[str]:
    """The words of a text."""
    words = []
    for word in isolate_cjk(clean(text)).split():
        normalized = strip_marks(word.lower()) if lower_case else word
        words.extend(" ".join(split_punctuation(normalized)).split())
    return words


def wordpiece(word: str, vocabulary: set[str], longest: int = 200) -> list[str]:
    """The longest matching pieces from the left, or [UNK]."""
    if len(word) > longest:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = (e for e in range(len(word), start, -1) if prefix + word[start:e] in vocabulary)
        end = next(ends, None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def tokenize(text: str, vocabulary: set[str], lower_case: bool) -> list[str]:
    """The pieces of a text."""
    return [
        piece for word in basic_words(text, lower_case) for piece in wordpiece(word, vocabulary)
    ]
