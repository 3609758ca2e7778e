"""Classes of characters, and lower-casing, with the Unicode tables of the running Python.

Those of TensorFlow's operations are older or newer; where they differ, Python's count.
"""

import functools
import re
import string
import sys
import unicodedata

import numpy as np
import tensorflow as tf

# Replaces every code point that Unicode has not assigned; learned vocabularies never contain it.
UNASSIGNED = "\U0010ffff"
# The ranges of CJK ideographs, for the tokenizer.
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
# The scripts that are written without spaces between words: ideographs, kana, Thai, Lao, Burmese,
# and Khmer.
_UNSPACED = re.compile(
    r"[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u31F0-\u31FF\uFF66-\uFF9F"
    f"{''.join(f'{chr(low)}-{chr(high)}' for low, high in _CJK)}]"
)


@functools.cache
def separators(has_sigma: bool) -> np.ndarray:
    """Returns the characters before and after which a text can be cut, bool [0x10000].

    Each part of the text has the ids that it has in the whole. This holds for punctuation and
    ideographs, which are words of their own. Only the lower case of a capital sigma depends on
    more than its word: `lower` skips case-ignorable signs, such as "'" and ".", to find a letter.
    """
    found = np.zeros(0x110000, bool)
    found[of_categories(*(name for name in _categories() if name[0] == "P"))] = True
    found[[ord(sign) for sign in string.punctuation]] = True
    for low, high in _CJK:
        found[low : high + 1] = True
    if has_sigma:
        found[_case_ignorable()] = False
    return found[:0x10000]


def begins_unspaced(text: str) -> bool:
    """Returns whether the first character is of a script without spaces between words."""
    return _UNSPACED.match(text) is not None


@functools.cache
def white_space() -> str:
    """Returns an RE2 character class of what is white space in Python."""
    return character_class(np.array([c for c in range(sys.maxunicode + 1) if chr(c).isspace()]))


@functools.cache
def _categories() -> dict[str, np.ndarray]:
    """Returns the code points of each Unicode category, ascending."""
    names = np.array([unicodedata.category(chr(c)) for c in range(sys.maxunicode + 1)])
    return {str(name): np.flatnonzero(names == name) for name in np.unique(names)}


def of_categories(*names: str) -> np.ndarray:
    """Returns the code points of Unicode categories, ascending."""
    return np.sort(np.concatenate([_categories()[name] for name in names]))


@functools.cache
def unassigned() -> np.ndarray:
    """Returns the code points that Unicode has not assigned, except for those of ideographs."""
    found = of_categories("Cn")
    # The CJK blocks are split by range, assigned or not.
    return found[~np.any([(found >= low) & (found <= high) for low, high in _CJK], axis=0)]


@functools.cache
def _assigned() -> list[str]:
    """Returns the characters that may have properties; private ones have none."""
    names = set(_categories()) - {"Cn", "Co", "Cs"}
    return list(map(chr, of_categories(*names)))


def lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases string [batch] texts as Python does; looks for what is rare and slow first."""

    def any_has(characters: str) -> tf.Tensor:
        return tf.reduce_any(tf.strings.regex_full_match(texts, f"(?s).*[{characters}].*"))

    def lower_sigma() -> tf.Tensor:
        # Unicode's Final_Sigma: after a letter and before none; case-ignorable ones are skipped.
        cased, skipped = character_class(_cased()), f"{character_class(_case_ignorable())}*"
        found = texts
        for _ in range(2):  # one match may consume two adjacent sigmas
            found = tf.strings.regex_replace(found, f"Σ({skipped}{cased})", r"σ\1")
        found = tf.strings.regex_replace(found, f"({cased}{skipped})Σ", r"\1ς")
        return tf.strings.regex_replace(found, "Σ", "σ")

    def lower_missing() -> tf.Tensor:
        found = texts
        for letter in missing:
            found = tf.strings.regex_replace(found, letter, letter.lower())
        return found

    def lower_around_nul() -> tf.Tensor:  # at which the operation would end a text
        parts = tf.strings.split(texts, "\0")
        lowered = tf.strings.lower(parts.flat_values, encoding="utf-8")
        # As a separator of `reduce_join`, U+0000 would be an empty text.
        joined = tf.strings.reduce_join(parts.with_flat_values(lowered + tf.constant("\0")), -1)
        return tf.strings.regex_replace(joined, r"\x00$", "")

    texts = tf.cond(any_has("Σ"), lower_sigma, lambda: texts)
    if missing := _letters_that_tensorflow_does_not_lower():
        texts = tf.cond(any_has("".join(missing)), lower_missing, lambda: texts)
    whole = functools.partial(tf.strings.lower, texts, encoding="utf-8")
    return tf.cond(any_has(r"\x00"), lower_around_nul, whole)


@functools.cache
def _cased() -> np.ndarray:
    return np.array([ord(c) for c in _assigned() if f"aΣ{c}".lower()[1] == "σ"])


@functools.cache
def _case_ignorable() -> np.ndarray:
    cased = set(_cased().tolist())
    ignored = (ord(c) for c in _assigned() if f"aΣ{c}b".lower()[1] == "σ")
    return np.array([c for c in ignored if c not in cased])


@functools.cache
def _letters_that_tensorflow_does_not_lower() -> list[str]:
    letters = [c for c in _assigned() if c >= "\x80" and c.lower() != c]
    with tf.init_scope():
        lowered = tf.strings.lower(tf.constant(letters), encoding="utf-8").numpy()
    return [c for c, low in zip(letters, lowered, strict=True) if low.decode() != c.lower()]


def character_class(code_points: np.ndarray, without: str = "") -> str:
    """Returns an RE2 character class of ascending code points, without some characters."""
    breaks = np.flatnonzero(np.diff(code_points) != 1)
    firsts = code_points[np.concatenate([[0], breaks + 1])].tolist()
    lasts = code_points[np.concatenate([breaks, [len(code_points) - 1]])].tolist()
    ranges = []
    for low, high in zip(firsts, lasts, strict=True):
        for character in sorted(c for c in without if low <= ord(c) <= high):
            ranges.append((low, ord(character) - 1))
            low = ord(character) + 1
        ranges.append((low, high))
    pieces = (f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges if low <= high)
    return "[" + "".join(pieces) + "]"
