"""Random changes of bytes, JSON values and protobuf messages."""

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

_MAX_LENGTH = 1 << 18  # bytes after a change
_DIGITS = re.compile(rb"[0-9]+")
_NUMBERS = (b"0", b"-1", b"1", b"65536", b"999999999", b"4294967296", b"9" * 30, b"1e999", b"nan")
_SIZES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 40) + 1, (1 << 63) - 1)
_NASTY = (
    b"\n", b"\r", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"((((", b"[[[[", b'{"a":', b'"', b"\t",
    b",", b"<", b"</", b"&x;", b"{}", b"null", b"NaN", b"\x1f\x8b\x08\0", b"PK\x03\x04", b"ARROW1",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 31, 1 << 63, 10**40, 1e308, -0.5, "", "\0", "é👍\ud800", "x" * 100_000,
    [], {}, [[]] * 300, [[[[[[[[[1]]]]]]]]], {"b64": "YQ=="}, {"b64": "?"}, {"a": {}},
)  # fmt: skip
_COPIES = (0, 2, 150)


def changed_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bytes after one to four changes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        span = data[start : start + rng.choice((1, 4, 30, 300))]
        kind = rng.randrange(7)
        if kind == 0 and start < len(data):
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[start : start + len(span)]
        elif kind == 2 and rng.random() < 0.3:
            del data[start:]
        elif kind == 3:
            data[start:start] = _repeated(span, rng.choice((1, 2, 100, 10_000)))
        elif kind == 4:
            nasty = _repeated(rng.choice(_NASTY), rng.choice((1, 1, 3, 1000, 100_000)))
            data[start : start + rng.choice((0, len(nasty)))] = nasty
        elif kind == 5:
            size = rng.choice((1, 2, 4, 8))
            value = rng.choice(_SIZES) % (1 << 8 * size)
            data[start : start + size] = value.to_bytes(size, rng.choice(("little", "big")))
        else:
            found = _DIGITS.search(data, start) or _DIGITS.search(data)
            if found:
                data[found.start() : found.end()] = rng.choice(_NUMBERS)
        del data[_MAX_LENGTH:]
    return bytes(data)


def _repeated(part: bytes | bytearray, times: int) -> bytes | bytearray:
    return part * min(times, _MAX_LENGTH // max(1, len(part)))


def changed_json(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value in which one to three parts are removed, repeated or replaced."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(value))
        if not places:
            break
        (inside, key), (other, other_key) = rng.choice(places), rng.choice(places)
        kind = rng.randrange(4)
        if kind == 0:
            del inside[key]
        elif kind == 1:
            inside[key] = [inside[key]] * rng.choice(_COPIES)
        else:
            inside[key] = copy.deepcopy(other[other_key] if kind == 2 else rng.choice(_VALUES))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """The containers and keys of all values within a value."""
    keys = range(len(value)) if isinstance(value, list) else value
    for key in keys if isinstance(value, dict | list) else ():
        yield value, key
        yield from _places(value[key])


def changed_message(message: Message, rng: random.Random) -> bytes:
    """An encoded message in which one to three fields are removed, repeated or replaced.

    If there is no such message, bytes of the original one are changed.
    """
    lines = text_format.MessageToString(message).splitlines()
    for _ in range(rng.randint(1, 3)):
        fields = [number for number, line in enumerate(lines) if ": " in line]
        if not fields:
            break
        at, other = rng.choice(fields), rng.choice(fields)
        name, _, _ = lines[at].partition(": ")
        kind = rng.randrange(4)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines[at : at + 1] = [lines[at]] * rng.choice(_COPIES[1:])
        elif kind == 2:
            lines[at] = f"{name}: {lines[other].partition(': ')[2]}"
        else:
            lines[at] = f"{name}: {rng.choice(_NUMBERS).decode()}"
    try:
        return text_format.Parse("\n".join(lines), type(message)()).SerializeToString()
    except (text_format.ParseError, ValueError):
        return changed_bytes(message.SerializeToString(), rng)
