"""Strategies of the property tests: texts of many scripts, words, labels, mutated files."""

import json
import string

from hypothesis import strategies as st

# Characters that have rules of their own, by kind.
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
    """A text of at most `parts` words, spaces and characters of every kind."""
    return st.lists(_PARTS, max_size=parts).map("".join)


def long_texts(parts: int = 6):
    """Like `texts`, with some very long words."""
    return st.lists(st.one_of(_PARTS, _PARTS, _PARTS, _LONG), max_size=parts).map("".join)


def batches(of, size: int = 8):
    """Lists of one to `size` values of a strategy."""
    return st.lists(of, min_size=1, max_size=size)


def raw_texts():
    """Bytes that may be UTF-8, truncated or overlong UTF-8, or surrogates."""
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
    """Labels or tags of a file: not empty, without white space."""
    return st.text(st.sampled_from("abcXYZ019-_.|é한"), min_size=1, max_size=6)


def words():
    """Words without white space; some look like syntax of a file format."""
    signs = st.sampled_from(
        ["#", "##", "#tag", '"', '""', "'", ",", "-", "--", "_", "0", "[]", "{}"]
    )
    visible = st.characters(codec="utf-8", exclude_categories=["C", "Z"])
    return st.one_of(_SHORT, signs, st.text(visible, min_size=1, max_size=6))


def seeds():
    """Seeds of a generator."""
    return st.integers(0, 2**32 - 1)


# Bytes that readers of files often mishandle.
_NASTY = st.sampled_from(
    (
        b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n\n", b"\r\n", b"\t",
        b'"', b"'", b"\\", b"\\ud800", b"\xe2\x80\xa8", b"\xc2\x85", b"\x1c", b"NaN", b"-Infinity",
        b"1e999", b"-1", b"0", b"0.5", b"true", b"null", b"[]", b"{}", b"[[", b"{", b",", b":",
        b"9" * 400, b"99999999999999999999", b"[MASK]", b"[PAD]", b"##", b"\xe4\xb8\xad",
        b"\xcc\x81", b"x" * 300, b"-DOCSTART-", b"#", b"\x1f\x8b",
    )
)  # fmt: skip
_MAX_BYTES = 400  # of random content, and of a part that is removed or repeated


@st.composite
def mutated_bytes(draw, real):
    """One of some real contents of a file after up to three small changes."""
    content = bytearray(draw(st.sampled_from(real)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(content) - 1)))
        part = slice(start, start + draw(st.integers(1, _MAX_BYTES)))
        change = draw(st.sampled_from(("insert", "replace", "remove", "repeat", "flip", "cut")))
        if change == "insert":
            content[start:start] = draw(_NASTY)
        elif change == "replace":
            nasty = draw(_NASTY)
            content[start : start + len(nasty)] = nasty
        elif change == "remove":
            del content[part]
        elif change == "repeat":
            content[start:start] = content[part]
        elif change == "flip" and content:
            content[start] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del content[start:]
    return bytes(content)


def file_contents(real):
    """Contents of a file: mostly real ones with small changes, else random bytes or text."""
    text = st.text(max_size=_MAX_BYTES).map(lambda text: text.encode("utf-8", "surrogatepass"))
    nasty = st.lists(_NASTY, max_size=12).map(b"".join)
    mutated = mutated_bytes(real)
    return st.one_of(*[mutated] * 4, st.binary(max_size=_MAX_BYTES), text, nasty)


# JSON values of any shape, NaN and infinity included.
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(("", "-1", "gelu", "mask", "\ud800", "../x", "a" * 500)),
    ),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def mutated_json(draw, real):
    """The JSON text of one of some values in which one or two values are other, gone or new."""
    value = json.loads(json.dumps(draw(st.sampled_from(real))))
    for _ in range(draw(st.integers(1, 2))):
        value = _mutated_value(draw, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _mutated_value(draw, value):
    if isinstance(value, str) and draw(st.booleans()):
        return draw(st.text(max_size=40))
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 5)) == 0:
        return draw(JSON_VALUES)
    key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    change = draw(st.integers(0, 9))
    if change == 0:
        del value[key]
    elif change == 1 and isinstance(value, dict):
        value[draw(st.text(max_size=8))] = draw(JSON_VALUES)
    elif change == 1:
        value.append(draw(JSON_VALUES))
    else:
        value[key] = _mutated_value(draw, value[key])
    return value
