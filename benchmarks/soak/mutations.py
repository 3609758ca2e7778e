"""Inputs as they should not be: random bytes and texts, and real ones with something done to them.

Strategies of Hypothesis, which makes an input that fails as small as it can before it is shown.
"""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

# What readers trip over, wherever it stands.
_NASTY = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n\n", b"\r\n", b"\t", b'"',
    b"'", b"\\", b"\\ud800", b"\xe2\x80\xa8", b"\xc2\x85", b"\x1c", b"NaN", b"-Infinity", b"1e999",
    b"-1", b"0", b"0.5", b"true", b"null", b"[]", b"{}", b"[[", b"{", b",", b":", b"9" * 400,
    b"99999999999999999999", b"[MASK]", b"[PAD]", b"##", b"\xe4\xb8\xad", b"\xcc\x81", b"x" * 300,
    b"-DOCSTART-", b"#", b"\x1f\x8b",
)  # fmt: skip
_MOST_CHANGES = 3
_LONGEST = 400  # bytes that are random, or taken out, at the most


@st.composite
def changed(draw: st.DrawFn, real: Sequence[bytes]) -> bytes:
    """Real contents of a file in which a few bytes were changed."""
    content = bytearray(draw(st.sampled_from(real)))
    for _ in range(draw(st.integers(1, _MOST_CHANGES))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        kind = draw(st.sampled_from(("insert", "replace", "remove", "repeat", "flip", "cut")))
        size = draw(st.integers(1, _LONGEST))
        if kind == "insert":
            content[place:place] = draw(st.sampled_from(_NASTY))
        elif kind == "replace":
            nasty = draw(st.sampled_from(_NASTY))
            content[place : place + len(nasty)] = nasty
        elif kind == "remove":
            del content[place : place + size]
        elif kind == "repeat":
            content[place:place] = content[place : place + size]
        elif kind == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del content[place:]
    return bytes(content)


def contents(real: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Contents of a file: changed ones mostly, else bytes and texts of no kind."""
    texts = st.text(max_size=_LONGEST).map(lambda text: text.encode("utf-8", "surrogatepass"))
    bare = st.lists(st.sampled_from(_NASTY), max_size=12).map(b"".join)
    known = changed(real)
    return st.one_of(known, known, known, known, st.binary(max_size=_LONGEST), texts, bare)


# JSON values of any shape, and numbers that JSON has not.
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(("", "-1", "gelu", "mask", "\ud800", "../x", "a" * 500)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def other_values(draw: st.DrawFn, real: Sequence[Any]) -> bytes:
    """A JSON text of real values, one of which is another, missing, or one too many."""
    value = json.loads(json.dumps(draw(st.sampled_from(real))))
    for _ in range(draw(st.integers(1, 2))):
        value = _with_other(draw, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _with_other(draw: st.DrawFn, value: Any) -> Any:
    """A value with another one in it, at a place that is drawn."""
    if isinstance(value, str) and draw(st.booleans()):
        return draw(st.text(max_size=40))
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = draw(st.sampled_from(places))
    what = draw(st.integers(0, 9))
    if what == 0:
        del value[place]
    elif what == 1 and isinstance(value, dict):
        value[draw(st.text(max_size=8))] = draw(VALUES)
    elif what == 1 and isinstance(value, list):
        value.append(draw(VALUES))
    else:
        value[place] = _with_other(draw, value[place])
    return value
