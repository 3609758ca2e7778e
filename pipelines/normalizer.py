"""Text normalization of the BERT tokenizer as TensorFlow ops.

Unicode categories are those of the running Python; where TensorFlow's Unicode
tables are newer or older, what is done here corrects for it.
"""

import functools
import itertools
import unicodedata
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow_text as tf_text

# Stands for every code point that Unicode has not assigned: no vocabulary holds it.
_UNASSIGNED = "\U0010ffff"
# Text that only lower-casing can change, and where bytes are characters.
_PLAIN = r"[\t\n\r -~]*"
# The ranges that the tokenizer takes for CJK ideographs.
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class Normalizer(tf.Module):
    """Drops control characters and, if wanted, lower-cases and strips accents.

    Args:
      lower_case: whether to lower-case.
      strip_accents: whether to decompose (NFD) and drop non-spacing marks.
      alphabet: the characters of the vocabulary; only unassigned code points
        among them are let through as they are.
    """

    def __init__(self, lower_case: bool, strip_accents: bool, alphabet: str = ""):
        super().__init__(name="normalizer")
        self.lower_case = lower_case
        self.strip_accents = strip_accents
        # A word with an unassigned character is [UNK] unless the vocabulary has that character.
        known = "".join({c for c in alphabet if _is_unassigned(c)})
        self._unassigned = _character_class(_is_unassigned, without=known)
        self._dropped = _character_class(_is_dropped)

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
        """Normalizes string [batch] texts; bytes that are not UTF-8 are dropped."""
        texts = tf.convert_to_tensor(texts, tf.string)
        plain = is_plain(texts)
        rows = tf.where(~plain)
        others = self._normalize_unicode(tf.gather_nd(texts, rows))
        if self.lower_case:
            texts = tf.strings.lower(texts)  # ASCII only, and fast
        return tf.tensor_scatter_nd_update(texts, rows, others)

    def _normalize_unicode(self, texts: tf.Tensor) -> tf.Tensor:
        valid = tf.reduce_all(tf.strings.regex_full_match(texts, "(?s).*"))
        texts = tf.cond(  # bad bytes to U+FFFD, which is dropped next
            valid,
            lambda: texts,
            lambda: tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"),
        )
        texts = tf.strings.regex_replace(texts, self._dropped, "")
        texts = tf.strings.regex_replace(texts, self._unassigned, _UNASSIGNED)
        if self.lower_case:
            texts = _lower(texts)
        if self.strip_accents:
            texts = tf_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, _character_class(_is_mark), "")
        return texts


def is_plain(texts: tf.Tensor) -> tf.Tensor:
    """Whether each of string [batch] texts is ASCII without control characters; bool [batch]."""
    return tf.strings.regex_full_match(texts, _PLAIN)


def is_mark(characters: tf.Tensor) -> tf.Tensor:
    """Whether each of string [n] characters is a non-spacing mark (Mn); bool [n]."""
    return tf.strings.regex_full_match(characters, _character_class(_is_mark))


def _is_dropped(character: str) -> bool:
    if character in "\t\n\r":
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) == "Mn"


def _is_unassigned(character: str) -> bool:
    # The CJK blocks are split by range, assigned or not.
    return unicodedata.category(character) == "Cn" and not any(
        low <= ord(character) <= high for low, high in _CJK
    )


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases as Python does, also what TensorFlow's tables do not have yet."""
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
    return tf.strings.lower(texts, encoding="utf-8")


def _lower_sigma(texts: tf.Tensor) -> tf.Tensor:
    """Makes each capital sigma a final one (after a letter and before none), or an ordinary one.

    Unicode's Final_Sigma condition, with Python's tables: what it skips is
    case-ignorable, what it takes for a letter is cased.
    """
    cased, skipped = _character_class(_is_cased), f"{_character_class(_is_case_ignorable)}*"
    for _ in range(2):  # of two sigmas in a row, one match takes both
        texts = tf.strings.regex_replace(texts, f"Σ({skipped}{cased})", r"σ\1")
    texts = tf.strings.regex_replace(texts, f"({cased}{skipped})Σ", r"\1ς")
    return tf.strings.regex_replace(texts, "Σ", "σ")


def _is_cased(character: str) -> bool:
    return f"aΣ{character}".lower()[1] == "σ"


def _is_case_ignorable(character: str) -> bool:
    return not _is_cased(character) and f"aΣ{character}b".lower()[1] == "σ"


@functools.cache
def _letters_that_tensorflow_does_not_lower() -> list[str]:
    letters = [c for c in map(chr, range(0x80, 0x110000)) if c.lower() != c]
    with tf.init_scope():
        lowered = tf.strings.lower(tf.constant(letters), encoding="utf-8").numpy()
    return [c for c, low in zip(letters, lowered, strict=True) if low.decode() != c.lower()]


@functools.cache
def _code_point_ranges(predicate: Callable[[str], bool]) -> list[tuple[int, int]]:
    """The ranges of code points, surrogates left out, that hold a predicate."""
    ranges: list[tuple[int, int]] = []
    for code_point in range(0x110000):
        if 0xD800 <= code_point < 0xE000 or not predicate(chr(code_point)):
            continue
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1] = (ranges[-1][0], code_point)
        else:
            ranges.append((code_point, code_point))
    return ranges


def _character_class(*predicates: Callable[[str], bool], without: str = "") -> str:
    """An RE2 character class: what holds any of the predicates, less some characters."""
    ranges = []
    for low, high in itertools.chain.from_iterable(map(_code_point_ranges, predicates)):
        for character in sorted(c for c in without if low <= ord(c) <= high):
            ranges.append((low, ord(character) - 1))
            low = ord(character) + 1
        ranges.append((low, high))
    pieces = (f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges if low <= high)
    return "[" + "".join(pieces) + "]"
