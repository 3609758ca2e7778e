"""Norms and gelus of converted models: recognized by runtimes, and with the same results."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.export import conversion, onnx_patterns, sources
from bert_tf.export.module import RESULT, Assembly
from bert_tf.serving.engines import traced
from pipelines.tokenizers.packing import MODEL_INPUTS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def _convert(function):
    """A concrete function in ONNX, without the rules and with them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnx_patterns, "rules", list)
        plain = conversion.to_onnx(function)
    return plain, conversion.to_onnx(function)


@pytest.fixture(scope="module", params=["same", "score"])
def models(request, folders):
    """The activation, and the converted model without the rules and with them."""
    folder = folders[request.param]
    (model,) = Assembly(sources.find([f"{request.param}={folder}"]), "float32").models
    function = traced(model.signatures[0].computation)
    return weights.read(folder).config.hidden_act, *_convert(function)


def _kinds(content):
    return collections.Counter(node.op_type for node in onnx.load_from_string(content).graph.node)


def _run(content, name, inputs):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run([name], inputs)[0]


def _inputs():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 50, (3, 17)).astype(np.int32)
    mask = (np.arange(17) < [[17], [4], [9]]).astype(np.int32)
    return dict(zip(MODEL_INPUTS, (ids * mask, mask, (ids % 2) * mask), strict=True))


@pytest.mark.more_cases
def test_the_results_are_the_same(models):
    _, plain, rewritten = models
    onnx.checker.check_model(onnx.load_from_string(rewritten), full_check=True)
    found = [_run(content, RESULT.format(0), _inputs()) for content in (plain, rewritten)]
    np.testing.assert_allclose(*found, atol=1e-5)


def test_runtimes_recognize_them(models, tmp_path):
    activation, plain, rewritten = models
    layers = 2
    assert _kinds(plain)["LayerNormalization"] == 0
    assert _kinds(rewritten)["LayerNormalization"] == 2 * layers + 1
    assert _kinds(rewritten)["ReduceMean"] == 0
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = f"{tmp_path}/optimized.onnx"
    onnxruntime.InferenceSession(rewritten, options, providers=["CPUExecutionProvider"])
    fused = _kinds((tmp_path / "optimized.onnx").read_bytes())
    wanted = {"gelu": "FastGelu", "gelu_erf": "Gelu"}[activation]
    assert fused[wanted] + fused["BiasGelu"] == layers, fused


def _norm(x, axis=-1, square=tf.square):
    centred = x - tf.reduce_mean(x, axis, keepdims=True)
    inverse = tf.math.rsqrt(tf.reduce_mean(square(centred), axis, keepdims=True) + 1e-6)
    return centred * ([1.0, 2, 3, 4] * inverse) + [0.5, 0, -1, 2]


@pytest.mark.parametrize(
    ("function", "kind", "count"),
    [
        (_norm, "LayerNormalization", 1),
        (lambda x: _norm(x, axis=0), "LayerNormalization", 0),
        (lambda x: _norm(x, square=lambda y: tf.square(y - 1)), "LayerNormalization", 0),
        (lambda x: tf.math.erf(np.float32(np.sqrt(0.5)) * x), "Div", 1),
        (lambda x: tf.math.erf(0.7 * x), "Div", 0),
        (lambda x: 0.044715 * x * x * x, "Pow", 1),
        (lambda x: 0.05 * x * x * x, "Pow", 0),
        (lambda x: 0.044715 * x * tf.abs(x) * x, "Pow", 0),
    ],
)
def test_only_norms_and_gelus_are_rewritten(function, kind, count):
    specs = {"x": tf.TensorSpec([None, 4], tf.float32, "x")}
    concrete = tf.function(lambda **inputs: {"y": function(inputs["x"])}).get_concrete_function(
        **specs
    )
    plain, rewritten = _convert(concrete)
    assert _kinds(plain)[kind] == 0 and _kinds(rewritten)[kind] == count
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = [_run(content, "y", {"x": x}) for content in (plain, rewritten)]
    np.testing.assert_allclose(*found, atol=1e-5)
