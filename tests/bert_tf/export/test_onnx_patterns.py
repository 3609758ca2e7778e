"""Norms and gelus of converted models: known to runtimes, and the same numbers."""

import collections

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.export import conversion, onnx_patterns, sources
from bert_tf.export.module import Assembly
from bert_tf.serving.engines.base import RESULTS, traced
from pipelines.tokenizers.packing import MODEL_INPUTS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module", params=["same", "score"])
def models(request, folders):
    """The activation, and the model as it was converted, before and after."""
    folder = folders[request.param]
    (model,) = Assembly(sources.find([f"{request.param}={folder}"]), "float32").models
    computation = model.signatures[0].computation
    kept = {}

    def keep(found):
        kept["plain"] = found.SerializeToString()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnx_patterns, "rewrite", keep)
        conversion.to_onnx(traced(computation))
    rewritten = onnx.load_from_string(kept["plain"])
    onnx_patterns.rewrite(rewritten)
    return weights.read(folder).config.hidden_act, kept["plain"], rewritten.SerializeToString()


def _kinds(content):
    return collections.Counter(node.op_type for node in onnx.load_from_string(content).graph.node)


def _inputs():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 50, (3, 17)).astype(np.int32)
    mask = (np.arange(17) < [[17], [4], [9]]).astype(np.int32)
    return dict(zip(MODEL_INPUTS, (ids * mask, mask, (ids % 2) * mask), strict=True))


def test_the_numbers_are_the_same(models):
    _, plain, rewritten = models
    onnx.checker.check_model(onnx.load_from_string(rewritten), full_check=True)
    found = [
        onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(
            [RESULTS.format(0)], _inputs()
        )[0]
        for content in (plain, rewritten)
    ]
    np.testing.assert_allclose(*found, atol=1e-5)


def test_runtimes_know_them(models, tmp_path):
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


def _model(*nodes, **constants):
    """A graph of x: float32 [rows, 4] with these nodes, of which the last is the result."""
    initializers = [
        onnx.numpy_helper.from_array(np.array(value, np.float32), name)
        for name, value in constants.items()
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 4])
        for name in ("x", nodes[-1].output[0])
    )
    graph = onnx.helper.make_graph(list(nodes), "g", [x], [y], initializers)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def _node(kind, inputs, output, **attributes):
    return onnx.helper.make_node(kind, inputs.split(), [output], output, **attributes)


def _norm_nodes(square="centred centred", axis=1):
    return (
        _node("ReduceMean", "x", "mean", axes=[axis], keepdims=1),
        _node("Sub", "x mean", "centred"),
        _node("Mul", square, "square"),
        _node("ReduceMean", "square", "variance", axes=[axis], keepdims=1),
        _node("Add", "variance epsilon", "total"),
        _node("Sqrt", "total", "root"),
        _node("Reciprocal", "root", "inverse"),
        _node("Mul", "scale inverse", "factor"),
        _node("Mul", "centred factor", "product"),
        _node("Add", "offset product", "y"),
    )


_NORM = {"epsilon": 1e-6, "scale": [1.0, 2, 3, 4], "offset": [0.5, 0, -1, 2]}


def test_a_norm_by_hand():
    model = _model(*_norm_nodes(), **_NORM)
    onnx_patterns.rewrite(model)
    (node,) = model.graph.node
    assert node.op_type == "LayerNormalization" and list(node.input) == ["x", "scale", "offset"]
    assert [each.name for each in model.graph.initializer] == ["scale", "offset"]
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert attributes["axis"] == -1 and attributes["epsilon"] == pytest.approx(1e-6)


@pytest.mark.parametrize("nodes", [_norm_nodes("centred x"), _norm_nodes(axis=0)])
def test_what_is_no_norm_stays(nodes):
    model = _model(*nodes, **_NORM)
    before = model.SerializeToString()
    onnx_patterns.rewrite(model)
    assert model.SerializeToString() == before


@pytest.mark.parametrize(
    ("number", "kind"), [(np.sqrt(0.5), "Div"), (0.7, "Mul")], ids=["of gelu", "another"]
)
def test_what_is_under_an_erf(number, kind):
    model = _model(_node("Mul", "c x", "scaled"), _node("Erf", "scaled", "y"), c=number)
    onnx_patterns.rewrite(model)
    assert [node.op_type for node in model.graph.node] == [kind, "Erf"]


@pytest.mark.parametrize(
    ("number", "kinds"),
    [(0.044715, ["Pow", "Mul"]), (0.05, ["Mul"] * 3)],
    ids=["of gelu", "another"],
)
def test_a_third_power(number, kinds):
    model = _model(
        _node("Mul", "x c", "a"), _node("Mul", "a x", "b"), _node("Mul", "x b", "y"), c=number
    )
    onnx_patterns.rewrite(model)
    assert [node.op_type for node in model.graph.node] == kinds
