"""JSON that is written comes back; other text is an error of one line."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.common import json_files
from pipelines.common.errors import InputError
from tests import strategies

_TEXT = strategies.texts(3)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=10,
)


def _without_nan(value):
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_without_nan, value))
    return value if not isinstance(value, float) or math.isfinite(value) else None


@given(_VALUES)
def test_values_come_back(tmp_path_factory, value):
    path = str(tmp_path_factory.mktemp("json") / "a.json")
    json_files.write(path, value)
    assert json_files.read(path, object) == _without_nan(value)


@given(_VALUES, st.booleans(), st.booleans())
def test_numbers_that_are_none_are_refused_where_they_must_be_finite(value, ascii_only, finite):
    text = json.dumps(value, ensure_ascii=ascii_only)
    if finite and _without_nan(value) != value:
        with pytest.raises(InputError, match="^place: is not JSON"):
            json_files.parse(text, "place", finite=True)
    else:
        # NaN is no number that equals itself: its text does.
        assert json.dumps(json_files.parse(text, "place", finite)) == json.dumps(value)


@given(
    st.text(st.sampled_from('{}[]",:0123456789.eE+-truefalsn\\ud8a\n \ufeff\ud800é'), max_size=30)
    | st.sampled_from(["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "1e999", "-Infinity", "NaN"])
)
def test_any_text_is_a_value_that_utf8_can_write_or_an_error(text):
    for finite in (False, True):
        try:
            value = json_files.parse(text, "place", finite)
        except InputError as error:
            assert str(error).startswith("place: ") and "\n" not in str(error)
        else:
            json.dumps(value, ensure_ascii=False).encode()
