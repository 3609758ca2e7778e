"""Parts of a converted model in the forms that runtimes of ONNX know.

A runtime computes a norm or a gelu in one pass over memory where it recognizes it. The conversion
writes them as the single operations that TensorFlow has, in an order that none recognizes.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pipelines.common import optional

_TOLERANCE = 1e-6  # of constants, relatively
_CUBIC = 0.044715  # of the gelu with tanh
_Node = Any  # onnx.NodeProto, whose package is optional


def rewrite(model: Any) -> None:
    """Gives norms and gelus of a model their known forms; it computes the same, up to rounding.

    Args:
      model: an onnx.ModelProto of opset 17 or later, whose norms are those of
        `fused_ops.inference`: of rows.
    """
    graph = _Graph(model.graph)
    for node in list(model.graph.node):
        norm = _norm(graph, node)
        if norm:
            graph.replace(node, "LayerNormalization", norm.inputs, axis=-1, epsilon=norm.epsilon)
    for node in list(model.graph.node):
        _divide_under_erf(graph, node)
        _raise_to_third_power(graph, node)
    graph.drop_unused()


@dataclasses.dataclass(frozen=True)
class _Norm:
    """Inputs (x, scale, offset) and epsilon of a norm."""

    inputs: tuple[str, str, str]
    epsilon: float


class _Graph:
    """A graph's nodes by what they compute."""

    def __init__(self, graph: Any):
        onnx = optional.load("onnx", "onnx")
        self._helper, self._numpy = onnx.helper, onnx.numpy_helper
        self._graph = graph
        self._makers = {name: node for node in graph.node for name in node.output}
        self._constants = {each.name: each for each in graph.initializer}

    def maker(self, name: str, kind: str) -> _Node | None:
        """The node of a kind that computes a value."""
        node = self._makers.get(name)
        return node if node is not None and node.op_type == kind else None

    def constant(self, name: str) -> np.ndarray | None:
        """The value, if it is known."""
        found = self._constants.get(name)
        return None if found is None else self._numpy.to_array(found)

    def splits(self, node: _Node | None) -> Iterator[tuple[str, str]]:
        """Both orders of the inputs of a node that has two, of which none is the first."""
        if node is not None:
            first, second = node.input
            yield from ((first, second), (second, first))

    def by_constant(self, node: _Node | None) -> tuple[str, float] | None:
        """What a node combines with one known number, and the number."""
        for name, other in self.splits(node):
            value = self.constant(other)
            if value is not None and value.size == 1:
                return name, float(value.reshape(()))
        return None

    def axes(self, node: _Node) -> list[int]:
        """Those that a node reduces."""
        return [axis for each in node.attribute if each.name == "axes" for axis in each.ints]

    def number(self, value: float) -> str:
        """The name of a constant with a value."""
        name = f"number_{value!r}"
        if name not in self._constants:
            array = np.array(value, np.float32)
            self._graph.initializer.append(self._numpy.from_array(array, name))
            self._constants[name] = self._graph.initializer[-1]
        return name

    def replace(self, node: _Node, kind: str, inputs: Iterable[str], **attributes: Any) -> None:
        """Makes a node another, with the same output."""
        new = self._helper.make_node(kind, list(inputs), list(node.output), node.name, **attributes)
        node.CopyFrom(new)

    def insert(self, node: _Node, kind: str, inputs: Iterable[str], name: str) -> str:
        """Puts a node before another; returns its output."""
        place = next(i for i, each in enumerate(self._graph.node) if each.name == node.name)
        self._graph.node.insert(place, self._helper.make_node(kind, list(inputs), [name], name))
        return name

    def drop_unused(self) -> None:
        """Drops nodes and constants that nothing needs."""
        needed = {output.name for output in self._graph.output}
        kept = []
        for node in reversed(self._graph.node):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node.input)
        nodes = [_copy(node) for node in reversed(kept)]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        constants = [_copy(each) for each in self._graph.initializer if each.name in needed]
        del self._graph.initializer[:]
        self._graph.initializer.extend(constants)


def _copy(proto: Any) -> Any:
    found = type(proto)()
    found.CopyFrom(proto)
    return found


def _norm(graph: _Graph, node: _Node) -> _Norm | None:
    """The norm that ends with a node: centred * (scale * 1 / sqrt(variance + epsilon)) + offset."""
    if node.op_type != "Add":
        return None
    for product, offset in graph.splits(node):
        if graph.constant(offset) is None:
            continue
        for centred, factor in graph.splits(graph.maker(product, "Mul")):
            for inverse, scale in graph.splits(graph.maker(factor, "Mul")):
                found = _standardized(graph, centred, inverse)
                if found and graph.constant(scale) is not None:
                    x, epsilon = found
                    return _Norm((x, scale, offset), epsilon)
    return None


def _standardized(graph: _Graph, centred: str, inverse: str) -> tuple[str, float] | None:
    """What is standardized, and epsilon, if these are x - mean(x) and its inverse deviation."""
    difference = graph.maker(centred, "Sub")
    reciprocal = graph.maker(inverse, "Reciprocal")
    root = reciprocal and graph.maker(reciprocal.input[0], "Sqrt")
    total = root and graph.by_constant(graph.maker(root.input[0], "Add"))
    if difference is None or not total:
        return None
    variance, mean = (
        graph.maker(total[0], "ReduceMean"),
        graph.maker(difference.input[1], "ReduceMean"),
    )
    if variance is None or mean is None or mean.input[0] != difference.input[0]:
        return None
    square = graph.maker(variance.input[0], "Mul")
    if square is None or list(square.input) != [centred, centred]:
        return None
    of_rows = all(graph.axes(each) in ([1], [-1]) for each in (variance, mean))
    return (difference.input[0], total[1]) if of_rows else None


def _divide_under_erf(graph: _Graph, node: _Node) -> None:
    """erf(x * sqrt(1/2)) as erf(x / sqrt(2)), by which a gelu is known."""
    scaled = graph.maker(node.input[0], "Mul") if node.op_type == "Erf" else None
    found = graph.by_constant(scaled)
    if scaled is not None and found and math.isclose(found[1], math.sqrt(0.5), rel_tol=_TOLERANCE):
        graph.replace(scaled, "Div", [found[0], graph.number(math.sqrt(2.0))])


def _raise_to_third_power(graph: _Graph, node: _Node) -> None:
    """c * x * x * x as pow(x, 3) * c, by which a gelu with tanh is known."""
    if node.op_type != "Mul":
        return
    for product, x in graph.splits(node):
        for scaled, again in graph.splits(graph.maker(product, "Mul")):
            found = graph.by_constant(graph.maker(scaled, "Mul"))
            if (
                found
                and found[0] == again == x
                and math.isclose(found[1], _CUBIC, rel_tol=_TOLERANCE)
            ):
                cube = graph.insert(node, "Pow", [x, graph.number(3.0)], f"{node.output[0]}_cube")
                graph.replace(node, "Mul", [cube, graph.number(_CUBIC)])
                return
