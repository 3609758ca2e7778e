"""Rewriting rules for tf2onnx: norms and gelus in the forms that runtimes of ONNX recognize.

A runtime computes a norm or a gelu in one pass over memory if it recognizes it. TensorFlow's graph
has them as single operations, in an order that none recognizes.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pipelines.common import optional

_TOLERANCE = 1e-6  # of constants, relative
_CUBIC = 0.044715  # of the gelu with tanh
_CONSTANT, _ADD = "Const|ConstV2", "Add|AddV2"
Rule = Callable[[Any, Any], Any]  # maps a graph of tf2onnx and its operations to operations


def rules() -> list[Rule]:
    """The rules, for opset 17 or later; results are the same up to rounding.

    Raises:
      InputError: tf2onnx is not installed.
    """
    return [_rewrite_norms, _rewrite_erf_gelus, _rewrite_tanh_gelus]


def _rewrite_norms(graph: Any, ops: Any) -> Any:
    """(x - mean) * (scale * rsqrt(variance + epsilon)) + offset, over rows."""
    pattern = _pattern()
    centred = pattern("Sub", "centred", ["*", pattern("Mean", "mean")], False)
    square = pattern("Square", inputs=[pattern("Sub", "squared")])
    total = pattern(_ADD, inputs=[pattern("Mean", "variance", [square, "*"], False), _number()])
    factor = pattern("Mul", inputs=[pattern(_CONSTANT, "scale"), pattern("Rsqrt", inputs=[total])])
    product = pattern("Mul", inputs=[centred, factor])
    norm = pattern(_ADD, "whole", [product, pattern(_CONSTANT, "offset")])
    for match in _matches(norm, ops):
        sub, mean, variance = (match.get_op(name) for name in ("centred", "mean", "variance"))
        axes = (np.ravel(op.inputs[1].get_tensor_value()).tolist() for op in (mean, variance))
        of_rows = all(found in ([1], [-1]) for found in axes)
        same = sub is match.get_op("squared") and mean.input[0] == sub.input[0]
        if same and of_rows:
            inputs = [sub.input[0], match.get_tensor("scale"), match.get_tensor("offset")]
            attributes = {"axis": -1, "epsilon": _value(match)}
            _replace(graph, match.get_op("whole"), "LayerNormalization", inputs, attributes)
    return ops


def _rewrite_erf_gelus(graph: Any, ops: Any) -> Any:
    """erf(x * sqrt(1/2)) becomes erf(x / sqrt(2))."""
    pattern = _pattern()
    scaled = pattern("Mul", "scaled", [pattern("*", "x"), _number()])
    for match in _matches(pattern("Erf", inputs=[scaled]), ops):
        if math.isclose(_value(match), math.sqrt(0.5), rel_tol=_TOLERANCE):
            inputs = [match.get_tensor("x"), _constant(graph, math.sqrt(2.0))]
            _replace(graph, match.get_op("scaled"), "Div", inputs)
    return ops


def _rewrite_tanh_gelus(graph: Any, ops: Any) -> Any:
    """c * x * x * x becomes c * pow(x, 3)."""
    pattern = _pattern()
    found = pattern("Mul", "x1", [pattern("*", "a"), _number()])
    found = pattern("Mul", "x2", [pattern("*", "b"), found])
    found = pattern("Mul", "x3", [pattern("*", "c"), found])
    for match in _matches(found, ops):
        names = {match.get_tensor(name) for name in "abc"}
        if len(names) == 1 and math.isclose(_value(match), _CUBIC, rel_tol=_TOLERANCE):
            cube = graph.make_node("Pow", [*names, _constant(graph, 3.0)]).output[0]
            inputs = [cube, _constant(graph, _CUBIC)]
            _replace(graph, match.get_op("x3"), "Mul", inputs)
    return ops


def _pattern() -> Any:
    return optional.load("tf2onnx.graph_matcher", "onnx").OpTypePattern


def _number() -> Any:
    return _pattern()(_CONSTANT, "number")


def _matches(pattern: Any, ops: Any) -> Iterator[Any]:
    matcher = optional.load("tf2onnx.graph_matcher", "onnx")
    return matcher.GraphMatcher(pattern, allow_reorder=True).match_ops(ops)


def _value(match: Any) -> float:
    """The value of the constant that a pattern calls `number`; NaN if it is not one number."""
    found = match.get_op("number").get_tensor_value(as_list=False)
    return float(found.reshape(())) if found.size == 1 else math.nan


def _constant(graph: Any, value: float) -> str:
    name = f"number_{value!r}"
    node = graph.get_node_by_name(name) or graph.make_const(name, np.array(value, np.float32))
    return node.output[0]


def _replace(graph: Any, op: Any, kind: str, inputs: list[str], attributes: Any = None) -> None:
    """Replaces an operation by one of ONNX, with the same output."""
    shapes, dtypes, outputs = op.output_shapes, op.output_dtypes, list(op.output)
    graph.remove_node(op.name)
    graph.make_node(
        kind, inputs, attributes, outputs=outputs, shapes=shapes, dtypes=dtypes, name=op.name
    )
