"""cuDNN's fused attention: where it is used, what XLA is told, and its values where there is a GPU."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import flash_attention, fused_ops
from bert_tf.models.layers.attention import attend

SIZES = {"batch": 2, "heads": 3, "length": 6, "size": 8}
_CALL = re.compile(
    r'\((.*), u8\[0\].*custom-call\((.*)\), custom_call_target="(.*?)".*backend_config=({.*})'
)


@pytest.fixture
def with_gpu(monkeypatch):
    """A machine that seems to have a GPU: programs can be traced for it, but not run."""
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["GPU:0"])
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["GPU:0"])
    details = {"compute_capability": (8, 0)}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    return details


def normal(seed, dtype=tf.bfloat16, *, batch, heads, length, size):
    values = tf.random.stateless_normal([batch, heads, length, size], [seed, 0])
    return tf.cast(values, dtype)


def gradients(function, inputs):
    """The output of a function of query, key and value, and the gradients for a random upstream."""
    *inputs, upstream = inputs
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = function(*inputs)
    return [output, *tape.gradient(output, inputs, upstream)]


def calls(dtype=tf.bfloat16, rate=0.0, whole=True, **sizes):
    """The custom calls in the program of attention and its gradient: results, operands, target."""
    bias = tf.constant([0.0, 0.0, 0.0, 0.0, -1e9, -1e9, 0.0])[: (SIZES | sizes)["length"]]

    @tf.function(jit_compile=True, autograph=False)
    def program(*inputs):
        def attended(query, key, value):
            mask = tf.tile(bias[tf.newaxis, tf.newaxis, tf.newaxis], [2, 1, 1, 1])
            context, _ = attend(query, key, value, mask, rate, tf.constant(1))
            heads = [*query.shape[:1], query.shape[2], query.shape[1], query.shape[3]]
            return tf.transpose(tf.reshape(context, heads), [0, 2, 1, 3])

        with fused_ops.compile_whole(whole):
            return gradients(attended, inputs)

    inputs = [normal(seed, dtype, **(SIZES | sizes)) for seed in range(4)]
    return _CALL.findall(program.experimental_get_compiler_ir(*inputs)(stage="hlo"))


def shapes(text):
    return re.findall(r"\w+\[[\d,]*\]", text)


def test_xla_is_told_the_operands_in_the_order_of_cudnn(with_gpu):
    forward, backward = calls()
    x, norms, bias = "bf16[2,3,6,8]", "f32[2,3,6]", "bf16[2,1,6,6]"
    assert shapes(forward[0]) == [x, norms]
    assert shapes(forward[1]) == [x, x, x, bias]
    assert shapes(backward[0]) == [x, x, x]
    assert shapes(backward[1]) == [x, x, x, norms, x, bias, x]
    assert forward[2] == "__cudnn$fmhaScaleBiasSoftmax"
    assert backward[2] == "__cudnn$fmhaScaleBiasSoftmaxBackward"
    for call, products in ((forward, 2), (backward, 4)):
        told = json.loads(call[3])["cudnn_fmha_backend_config"]
        assert told["fmha_scale"] == pytest.approx(8**-0.5)
        assert told["intermediate_tensor_shape"]["dimensions"] == ["2", "3", "6", "6"]
        assert sum(name.endswith("dot_dimension_numbers") for name in told) == products


@pytest.mark.parametrize(
    "case",
    [
        {"dtype": tf.float32},
        {"rate": 0.1},
        {"whole": False},
        {"length": 7},
        {"size": 12},
        {"size": 136},
    ],
    ids=str,
)
def test_what_cudnn_has_no_kernels_for_is_computed_as_before(case, with_gpu):
    assert len(calls()) == 2
    assert calls(**case) == []


def test_old_gpus_and_cpus_compute_as_before(with_gpu, monkeypatch):
    with_gpu["compute_capability"] = (7, 5)
    assert calls() == []
    monkeypatch.undo()
    if not tf.config.list_logical_devices("GPU"):
        assert calls() == []


@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="there is no GPU")
@pytest.mark.parametrize(("length", "size"), [(512, 64), (66, 128)])
def test_values_and_gradients_are_those_of_plain_attention(length, size):
    inputs = [normal(seed, batch=4, heads=6, length=length, size=size) for seed in range(4)]
    seen = tf.sequence_mask([length, length // 2, 3, 1], length, tf.float32)
    bias = (1 - seen[:, tf.newaxis, tf.newaxis]) * -1e9

    @tf.function(jit_compile=True, autograph=False)
    def fused(*inputs):
        with fused_ops.compile_whole():
            assert flash_attention.applies(inputs[0], inputs[1])
            return gradients(lambda *qkv: flash_attention.attend(*qkv, bias), inputs)

    def plain(query, key, value):
        scores = tf.matmul(query, key, transpose_b=True) / size**0.5 + bias
        return tf.matmul(tf.nn.softmax(scores), value)

    exact = gradients(plain, [tf.cast(x, tf.float32) for x in inputs])
    for ours, theirs in zip(fused(*inputs), exact, strict=True):
        error = np.linalg.norm(tf.cast(ours, tf.float32) - theirs)
        assert error < 5e-3 * np.linalg.norm(theirs)
