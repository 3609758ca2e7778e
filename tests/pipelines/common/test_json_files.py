"""JSON of others: what is parsed, and what is refused in one line."""

import json
import math
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import pytest

from pipelines.common import json_files
from pipelines.common.errors import InputError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"^f: is not JSON \(Expecting property name"),
        ('{"a": 1,\n"b"}', r"^f: line 2: is not JSON"),
        ("NaN", r"is not JSON \(NaN is not a number\)"),
        ('{"a": [1, -Infinity]}', r"is not JSON \(-Infinity is not a number\)"),
        ("1e999", r"is not JSON \(1e999 is too large\)"),
        ("9" * 5000, "a number of too many digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("", "is not JSON"),
        ("{} {}", "Extra data"),
    ],
)
def test_what_is_no_json_is_one_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        json_files.parse(text, "f")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_kept():
    text = r'{"a\ud800": ["\udc00x", "\ud83d\ude00", 1, null], "b": "\\ud800"}'
    found = json_files.parse(text, "f")
    assert found == {"a\ufffd": ["\ufffdx", "\U0001f600", 1, None], "b": "\\ud800"}
    json.dumps(found).encode()


def test_a_byte_order_mark_is_let_be(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert json_files.read(str(path), dict[str, int]) == {"a": 1}
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match=r"a\.json: is not JSON \(byte 7 is not UTF-8\)"):
        json_files.read(str(path), Any)
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        json_files.read(f"{tmp_path}/none.json", Any)


class Part(TypedDict):
    name: str
    count: Annotated[int, msgspec.Meta(ge=0)]
    note: NotRequired[str | None]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "f: expected object, got array"),
        ({"parts": {}}, "f: at parts: expected array, got object"),
        (
            {"parts": [{"name": 1, "count": 1}]},
            r"f: at parts\[0\].name: expected text, got a whole",
        ),
        ({"parts": [{"name": "a"}]}, r"f: at parts\[0\]: lacks the field count"),
        ({"parts": [{"name": "a", "count": -1}]}, r"at parts\[0\].count: expected a whole number"),
        ({"parts": [{"name": "a", "count": True}]}, "expected a whole number, got true or false"),
    ],
)
def test_another_shape_is_named_with_its_place(value, message):
    class Whole(TypedDict):
        parts: list[Part]

    with pytest.raises(InputError, match=message):
        json_files.check(value, Whole, "f")


def test_what_a_shape_does_not_name_is_let_be():
    value: dict[str, Any] = {"name": "a", "count": 1, "more": [1.5]}
    assert json_files.check(value, Part, "f") is value


def test_data_of_others_may_have_numbers_that_are_none():
    found = json_files.parse('{"a": NaN, "b": [1e999], "c": "\\ud800"}', "f", finite=False)
    assert math.isnan(found["a"]) and found["b"] == [math.inf] and found["c"] == "\ufffd"
    assert json_files.parse('"\ud800"', "f") == "\ufffd"
