"""Requests of REST: what is asked arrives as it was; all else is refused with one line."""

import base64

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.serving.server import rest_values
from bert_tf.serving.server.faults import Fault, RefusalError
from tests import strategies

_NAMES = ("text_a", "text_b")
_CELLS = st.one_of(
    strategies.texts(2),
    st.binary(max_size=6),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32),
)


def _asked(value):
    """As a client writes it: bytes in base64."""
    if isinstance(value, list):
        return list(map(_asked, value))
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


@given(st.lists(st.lists(st.lists(_CELLS, max_size=3), min_size=2, max_size=2), min_size=1))
def test_rows_and_columns_are_the_same_inputs(rows):
    wanted = {name: [row[i] for row in rows] for i, name in enumerate(_NAMES)}
    by_rows = {"instances": [dict(zip(_NAMES, _asked(row), strict=True)) for row in rows]}
    by_columns = {"inputs": {name: _asked(values) for name, values in wanted.items()}}
    for body in (by_rows, by_columns):
        assert repr(rest_values.inputs_of(body, _NAMES)) == repr(wanted)
    assert rest_values.is_by_rows(by_rows) and not rest_values.is_by_rows(by_columns)
    alone = {"instances": [_asked(row[0]) for row in rows]}
    assert repr(rest_values.inputs_of(alone, ["text"])) == repr({"text": wanted["text_a"]})


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(_CELLS.map(type), max_size=1), max_size=3),
    st.data(),
)
def test_examples_hold_what_was_given(kinds, data):
    of = {
        str: strategies.texts(2),
        bytes: st.binary(),
        int: st.integers(-9, 9),
        float: st.floats(width=32),
    }
    values = {n: data.draw(st.lists(of[(k or [str])[0]], min_size=1)) for n, k in kinds.items()}
    shared = {"a": "shared"}
    body = {"context": shared, "examples": [{n: _asked(v) for n, v in values.items()}]}
    (encoded,) = rest_values.examples_of(body)
    found = tf.train.Example.FromString(encoded).features.feature
    for name, wanted in {"a": ["shared"], **values}.items():
        feature = found[name]
        stored = getattr(feature, feature.WhichOneof("kind")).value
        if isinstance(wanted[0], float):
            np.testing.assert_array_equal(
                np.array(stored, np.float32), np.array(wanted, np.float32)
            )
        else:
            assert list(stored) == [v.encode() if isinstance(v, str) else v for v in wanted]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_numbers_of_more_than_64_bits_are_refused(number):
    for values in ([number], number, [1.5, 10**400]):
        with pytest.raises(RefusalError, match="a: has a number beyond 64 bits"):
            rest_values.examples_of({"examples": [{"a": values}]})


@pytest.mark.parametrize("depth", [9, 400, 5000])
def test_lists_that_are_nested_too_deeply_are_refused(depth):
    nested = "x"
    for _ in range(depth):
        nested = [nested]
    bodies = ({"inputs": nested}, {"instances": [nested]}, {"inputs": {"text": nested}})
    for body in bodies:
        with pytest.raises(RefusalError, match="nested 8 deep") as caught:
            rest_values.inputs_of(body, ["text"])
        assert caught.value.fault is Fault.INVALID
    with pytest.raises(RefusalError, match="nested 8 deep"):
        rest_values.examples_of({"examples": [{"text": nested}]})


@given(st.lists(strategies.texts(2), min_size=1), st.booleans())
def test_answers_are_asked_for_text_or_bytes(texts, by_rows):
    values = np.array([text.encode() for text in texts], object)
    outputs = {"label": values, "raw_bytes": values, "score": np.arange(len(texts), dtype="f4")}
    found = rest_values.predictions_of(outputs, by_rows)
    rows = [
        {"label": text, "raw_bytes": _asked(text.encode()), "score": float(n)}
        for n, text in enumerate(texts)
    ]
    if by_rows:
        assert found == {"predictions": rows}
    else:
        assert found == {"outputs": {n: [row[n] for row in rows] for n in outputs}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (rb'{"instances": ["\ud83dx"]}', r"half of a surrogate pair \(.ud800 to .udfff\)"),
        (b'{"instances": ["x', "Input data was truncated"),
    ],
)
def test_half_of_a_surrogate_pair_is_told_apart_from_half_of_a_body(body, words):
    with pytest.raises(RefusalError, match=words):
        rest_values.decoded(body, dict)
