"""Messages of gRPC are bounded before they are parsed."""

import pytest
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, predict_pb2

from bert_tf.serving.server import rpc_values
from bert_tf.serving.server.faults import Fault, RefusalError

_MAX = 131_072


def _many(count):
    """A message with values of all kinds, `count` in all, and a list of packed numbers."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "bert"
    request.model_spec.version.value = 3
    numbers = request.inputs["numbers"]
    numbers.dtype = tf.int32.as_datatype_enum
    numbers.int_val.extend(range(1, 300_000))
    numbers.tensor_shape.dim.add(size=1)
    # model_spec, name, version, its value; inputs, key, value, dtype, int_val, shape, dim, size
    request.output_filter.extend(["xx"] * (count - 12))
    return request


def test_values_are_counted_but_not_packed_numbers():
    request = _many(_MAX)
    assert rpc_values.decoded(request.SerializeToString(), type(request)) == request
    with pytest.raises(RefusalError, match="more than 131,072 values") as raised:
        rpc_values.decoded(_many(_MAX + 1).SerializeToString(), type(request))
    assert raised.value.fault is Fault.TOO_LARGE


_PADDING = b"\xfa\x01\x80\x80\x20" + bytes(1 << 19)  # an unknown field, so that values are counted


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0d1234\x0911111111",
        b"\x12\x02\x0a\x00",
        b"\x12\x03\x0a\x00",
        b"\x12\x02\x0a\x01",
        b"\x12\x04\x0a\x03x",
        b"\x08" + b"\xff" * 9 + b"\x01",
        b"\x08" + b"\xff" * 11 + b"\x01",
        b"\x0e\x00",
        b"\x0f",
        b"\x0d123",
        b"\x80",
    ],
)
@pytest.mark.parametrize("padding", [(b"", b""), (_PADDING, b""), (b"", _PADDING)])
def test_large_messages_are_valid_if_small_ones_are(data, padding):
    kind = classification_pb2.ClassificationRequest
    data = data.join(padding)
    try:
        expected = kind.FromString(data)
    except Exception:
        with pytest.raises(RefusalError, match=r"is not a ClassificationRequest\.") as raised:
            rpc_values.decoded(data, kind)
        assert raised.value.fault is Fault.INVALID
    else:
        assert rpc_values.decoded(data, kind) == expected


def test_groups_are_not_followed():
    kind = classification_pb2.ClassificationRequest
    assert kind.FromString(b"\x33\x34") == rpc_values.decoded(b"\x33\x34", kind)
    with pytest.raises(RefusalError, match=r"is not a ClassificationRequest\."):
        rpc_values.decoded(b"\x33\x34" + _PADDING, kind)
