"""What property tests draw: texts of many scripts, words, labels."""

import string

from hypothesis import strategies as st

# Characters that rules treat in their own way, by what they are.
_CONTROLS = "\0\x01\x07\x0b\x0c\x1c\x1f\x7f\x85\x9f\xad\u200b\u200d\u200f\u2028\u2029\ufeff\ufffd"
_WHITE = " \t\n\r\xa0\u1680\u2003\u202f\u3000"
_MARKS = "\u0300\u0301\u0308\u0327\u0345\u05b0\u064b\u093f\u0e31\u20d0\U0001d167"
_PUNCTUATION = string.punctuation + "¡«»‘’“”…–—。，、！？；：「」·՞؟।"
_CASED = "aZéÀßẞıİǅǆΣσςΩДжԱᏣꭰﬁﬃ𐐀ⱯⱭ"
_SCRIPTS = "אבاءکहिกำ한ᄒㅎ국日一龥㐀豈𠀀𪚥あア゙ｱ①²½Ⅷ٣१👍🏽♥€"
_UNASSIGNED = "\u0378\u0530\u2fe0\uffff\U0003fffe\U000e0fff\U0010fffe\U0010ffff"
_PRIVATE = "\ue000\uf8ff\U000f0000\U00100000"

# Any code point that UTF-8 can write, assigned or not.
CHARACTERS = st.characters(codec="utf-8")
TRICKY = st.sampled_from(
    _CONTROLS + _WHITE + _MARKS + _PUNCTUATION + _CASED + _SCRIPTS + _UNASSIGNED + _PRIVATE
)
_LETTERS = st.sampled_from("abcdeABCDE0189éÉñ한국語")
_SHORT = st.text(_LETTERS, min_size=1, max_size=8)
# Words about as long as limits of 100 and 200 characters, and of 256 bytes.
_LONG = st.builds(
    lambda unit, size: (unit * size)[:size],
    st.text(st.sampled_from("abé한𐐀"), min_size=1, max_size=2),
    st.sampled_from((63, 64, 65, 99, 100, 101, 127, 128, 129, 199, 200, 201, 257)),
)
_PARTS = st.one_of(_SHORT, _SHORT, TRICKY, TRICKY, CHARACTERS, st.just(" "), st.just(" "))


def texts(parts: int = 12):
    """A text of so many parts at most: words, spaces, and characters of every kind."""
    return st.lists(_PARTS, max_size=parts).map("".join)


def long_texts(parts: int = 6):
    """As `texts`, some of whose words are very long."""
    return st.lists(st.one_of(_PARTS, _PARTS, _PARTS, _LONG), max_size=parts).map("".join)


def batches(of, size: int = 8):
    """Some of them, which are handed on together."""
    return st.lists(of, min_size=1, max_size=size)


def raw_texts():
    """Bytes as they come: UTF-8, cut off, too long, surrogates, or none at all."""
    pieces = st.one_of(
        st.sampled_from("ab é中👍'").map(str.encode),
        st.sampled_from(
            [
                b"\xed\xa0\x80",
                b"\xf4\x90\x80\x80",
                b"\xe0\x80\x80",
                b"\xc0\xaf",
                b"\xf0\x9f",
                b"\xff",
            ]
        ),
        CHARACTERS.map(str.encode),
        st.binary(max_size=4),
    )
    return st.lists(pieces, max_size=8).map(b"".join)


def labels():
    """What a file can have for a label or a tag: no white space, and not empty."""
    return st.text(st.sampled_from("abcXYZ019-_.|é한"), min_size=1, max_size=6)


def words():
    """Words of a sentence: without white space, of which some look like signs of a format."""
    signs = st.sampled_from(
        ["#", "##", "#tag", '"', '""', "'", ",", "-", "--", "_", "0", "[]", "{}"]
    )
    visible = st.characters(codec="utf-8", exclude_categories=["C", "Z"])
    return st.one_of(_SHORT, signs, st.text(visible, min_size=1, max_size=6))


def seeds():
    """Seeds of a generator."""
    return st.integers(0, 2**32 - 1)
