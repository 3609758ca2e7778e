"""Text normalization of the BERT tokenizer as TensorFlow operations.

Unicode categories are those of the running Python; differences of TensorFlow's Unicode tables are
corrected.
"""

import functools
import string
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import byte_ranges

# Replaces every code point that Unicode has not assigned; learned vocabularies never contain it.
UNASSIGNED = "\U0010ffff"
# Text that only lower-casing can change, in which every byte is a character.
_PLAIN = r"[\t\n\r -~]*"
# Valid UTF-8; "." would also match surrogates and overlong encodings.
_VALID = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"
# The ranges of CJK ideographs, for the tokenizer.
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class Normalizer(tf.Module):
    """Removes control characters and, if requested, lower-cases and strips accents.

    Args:
      lower_case: whether to lower-case.
      strip_accents: whether to decompose (NFD) and remove non-spacing marks.
      alphabet: the characters of the vocabulary; unassigned code points among them are kept.
      clean_text: whether to remove control characters and U+FFFD.
    """

    def __init__(
        self, lower_case: bool, strip_accents: bool, alphabet: str = "", clean_text: bool = True
    ):
        super().__init__(name="normalizer")
        self.lower_case = lower_case
        self.strip_accents = strip_accents
        self._cleans = clean_text
        # A word with an unassigned character is unknown unless the vocabulary has the character.
        known = "".join({c for c in alphabet if unicodedata.category(c) == "Cn"})
        self._unassigned = character_class(_unassigned(), without=known)
        self._dropped = character_class(_dropped())

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
        """Normalizes string [batch] texts; bytes that are not UTF-8 are removed."""
        texts = tf.convert_to_tensor(texts, tf.string)
        plain = is_plain(texts)
        rows = tf.where(~plain)
        others = self._normalize_unicode(tf.gather_nd(texts, rows))
        if self.lower_case:
            texts = tf.strings.lower(texts)  # ASCII only, and fast
        return tf.tensor_scatter_nd_update(texts, rows, others)

    def original_offsets(
        self, texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Maps byte offsets in normalized texts to byte offsets in the original texts.

        Each character is normalized on its own, which gives as many bytes as in context (context
        only decides between two forms of sigma, both of two bytes). Removed marks are joined to the
        character before them.
        """
        characters, offsets = tf.strings.unicode_split_with_offsets(texts, "UTF-8")
        flat = characters.flat_values
        lengths = tf.cast(tf.strings.length(self(flat)), tf.int64)
        joined = (lengths == 0) & is_mark(flat)
        return byte_ranges.to_original(texts, offsets, lengths, joined, starts, ends)

    def _normalize_unicode(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.cond(  # invalid bytes become U+FFFD, which cleaning removes
            tf.reduce_all(tf.strings.regex_full_match(texts, _VALID)),
            lambda: texts,
            lambda: tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"),
        )
        if self._cleans:
            texts = tf.strings.regex_replace(texts, self._dropped, "")
        texts = tf.strings.regex_replace(texts, self._unassigned, UNASSIGNED)
        if self.lower_case:
            texts = lower(texts)
        if self.strip_accents:
            texts = tf_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, character_class(_marks()), "")
        return texts


@functools.cache
def separators(has_sigma: bool) -> np.ndarray:
    """Returns the characters before and after which a text can be cut, bool [0x10000].

    Each part of the text has the ids that it has in the whole. This holds for punctuation and
    ideographs, which are words of their own. Only the lower case of a capital sigma depends on
    more than its word: `lower` skips case-ignorable signs, such as "'" and ".", to find a letter.
    """
    found = np.zeros(0x110000, bool)
    found[_of_categories(*(name for name in _categories() if name[0] == "P"))] = True
    found[[ord(sign) for sign in string.punctuation]] = True
    for low, high in _CJK:
        found[low : high + 1] = True
    if has_sigma:
        found[_case_ignorable()] = False
    return found[:0x10000]


@functools.cache
def white_space() -> str:
    """Returns an RE2 character class of what is white space in Python."""
    return character_class(np.array([c for c in range(sys.maxunicode + 1) if chr(c).isspace()]))


def is_plain(texts: tf.Tensor) -> tf.Tensor:
    """Returns which of string [batch] texts are ASCII without control characters, bool [batch]."""
    return tf.strings.regex_full_match(texts, _PLAIN)


def is_mark(characters: tf.Tensor) -> tf.Tensor:
    """Returns which of string [n] characters are non-spacing marks (Mn), bool [n]."""
    return tf.strings.regex_full_match(characters, character_class(_marks()))


@functools.cache
def _categories() -> dict[str, np.ndarray]:
    """Returns the code points of each Unicode category, ascending."""
    names = np.array([unicodedata.category(chr(c)) for c in range(sys.maxunicode + 1)])
    return {str(name): np.flatnonzero(names == name) for name in np.unique(names)}


def _of_categories(*names: str) -> np.ndarray:
    return np.sort(np.concatenate([_categories()[name] for name in names]))


def _dropped() -> np.ndarray:
    controls = [c for c in _of_categories("Cc", "Cf") if chr(c) not in "\t\n\r"]
    return np.sort([*controls, 0xFFFD])


def _marks() -> np.ndarray:
    return _of_categories("Mn")


@functools.cache
def _unassigned() -> np.ndarray:
    found = _of_categories("Cn")
    # The CJK blocks are split by range, assigned or not.
    return found[~np.any([(found >= low) & (found <= high) for low, high in _CJK], axis=0)]


@functools.cache
def _assigned() -> list[str]:
    """Returns the characters that may have properties; private ones have none."""
    names = set(_categories()) - {"Cn", "Co", "Cs"}
    return list(map(chr, _of_categories(*names)))


def lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases as Python does, including letters unknown to TensorFlow."""
    texts = tf.cond(
        tf.reduce_any(tf.strings.regex_full_match(texts, "(?s).*Σ.*")),
        lambda: _lower_sigma(texts),
        lambda: texts,
    )
    missing = _letters_that_tensorflow_does_not_lower()
    if missing:
        some = rf"(?s).*[{''.join(missing)}].*"
        texts = tf.cond(
            tf.reduce_any(tf.strings.regex_full_match(texts, some)),
            lambda: functools.reduce(
                lambda text, c: tf.strings.regex_replace(text, c, c.lower()), missing, texts
            ),
            lambda: texts,
        )
    return tf.cond(
        tf.reduce_any(tf.strings.regex_full_match(texts, r"(?s).*\x00.*")),
        lambda: _lower_around_nul(texts),
        lambda: tf.strings.lower(texts, encoding="utf-8"),
    )


def _lower_around_nul(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases the parts between U+0000, at which the operation would end a text."""
    parts = tf.strings.split(texts, "\0")
    lowered = parts.with_flat_values(tf.strings.lower(parts.flat_values, encoding="utf-8"))
    return tf.strings.reduce_join(lowered, -1, separator="\0")


def _lower_sigma(texts: tf.Tensor) -> tf.Tensor:
    """Replaces capital sigmas by final ones (after a letter and before none) or ordinary ones.

    This is Unicode's Final_Sigma condition with Python's tables: case-ignorable characters are
    skipped, and letters are cased characters.
    """
    cased, skipped = character_class(_cased()), f"{character_class(_case_ignorable())}*"
    for _ in range(2):  # one match may consume two adjacent sigmas
        texts = tf.strings.regex_replace(texts, f"Σ({skipped}{cased})", r"σ\1")
    texts = tf.strings.regex_replace(texts, f"({cased}{skipped})Σ", r"\1ς")
    return tf.strings.regex_replace(texts, "Σ", "σ")


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


def _ranges(code_points: np.ndarray) -> list[tuple[int, int]]:
    """Returns ascending code points as ranges; surrogates are not among them."""
    breaks = np.flatnonzero(np.diff(code_points) != 1)
    first = code_points[np.concatenate([[0], breaks + 1])]
    last = code_points[np.concatenate([breaks, [len(code_points) - 1]])]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def character_class(code_points: np.ndarray, without: str = "") -> str:
    """Returns an RE2 character class of code points, without some characters."""
    ranges = []
    for low, high in _ranges(code_points):
        for character in sorted(c for c in without if low <= ord(c) <= high):
            ranges.append((low, ord(character) - 1))
            low = ord(character) + 1
        ranges.append((low, high))
    pieces = (f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges if low <= high)
    return "[" + "".join(pieces) + "]"
