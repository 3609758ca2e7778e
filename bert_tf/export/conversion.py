"""Functions of TensorFlow in the formats of other runtimes."""

import logging
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from bert_tf.export import onnx_patterns
from bert_tf.export.module import quiet
from pipelines.common import optional

_OPSET = 17
_LARGE = 1024  # elements of a matrix that tf2onnx does not see
_AXES = {2: ("batch", "length"), 3: ("batch", "choices", "length")}  # names in ONNX, by rank


def to_litert(function: Any, quantized: bool = False) -> bytes:
    """A function in LiteRT's format.

    Args:
      function: concrete, of plain ops on numbers.
      quantized: whether weights become int8 (dynamic range); everything is computed in float32.
    """
    # From a SavedModel, because only that keeps the names of inputs and outputs.
    with tempfile.TemporaryDirectory() as folder, quiet():
        module = tf.Module()
        module.variables_used = function.variables
        tf.saved_model.save(module, folder, {"serving_default": function})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if quantized:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        return converter.convert()


def to_onnx(function: Any) -> bytes:
    """A function in ONNX; inputs and outputs keep their names.

    Args:
      function: concrete, of plain ops on numbers.

    Raises:
      InputError: tf2onnx is not installed.
    """
    tf2onnx, onnx = optional.load("tf2onnx", "onnx"), optional.load("onnx", "onnx")
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)
    frozen = convert_variables_to_constants_v2(
        function, lower_control_flow=False, aggressive_inlining=True
    )
    definition = frozen.graph.as_graph_def(add_shapes=True)
    # The matrices are inputs until tf2onnx has finished: it copies a graph with all its constants
    # for each of two dozen passes, which took three quarters of the time.
    matrices = {}
    for node in definition.node:
        if node.op != "Const":
            continue
        tensor = node.attr["value"].tensor
        sizes = [axis.size for axis in tensor.tensor_shape.dim]
        if len(sizes) > 1 and math.prod(sizes) > _LARGE:
            matrices[f"{node.name}:0"] = tf.make_ndarray(tensor)
            node.op = "Placeholder"
            node.attr["shape"].shape.CopyFrom(tensor.tensor_shape)
            del node.attr["value"]
    inputs = [value.name for value in function.inputs if value.dtype != tf.resource]
    names = dict(zip(inputs, function.structured_input_signature[1], strict=True))
    results = {value.name: name for name, value in function.structured_outputs.items()}
    with quiet():
        model, _ = tf2onnx.convert.from_graph_def(
            definition,
            input_names=[*names, *matrices],
            output_names=list(results),
            opset=_OPSET,
            custom_rewriter=onnx_patterns.rules(),
            tensors_to_rename=names | results,
        )
    infos = list(model.graph.input)
    model.graph.ClearField("input")
    used = {name for node in model.graph.node for name in node.input}
    for info in infos:
        if info.name in matrices:
            if info.name not in used:
                continue
            tensor = onnx.numpy_helper.from_array(matrices[info.name], info.name)
            model.graph.initializer.append(tensor)
        else:
            axes = info.type.tensor_type.shape.dim
            for axis, name in zip(axes, _AXES[len(axes)], strict=True):
                axis.dim_param = name
            model.graph.input.append(info)
    return model.SerializeToString()


def onnx_in_int8(model: bytes) -> bytes:
    """An ONNX model with int8 weights (dynamic quantization).

    Args:
      model: in float32.

    Raises:
      InputError: ONNX Runtime is not installed.
    """
    quantization = optional.load("onnxruntime.quantization", "onnx")
    with tempfile.TemporaryDirectory() as folder:
        full, quantized = Path(folder, "full.onnx"), Path(folder, "quantized.onnx")
        full.write_bytes(model)
        # Seven bits: sums of eight overflow on processors without instructions for them.
        quantization.quantize_dynamic(full, quantized, per_channel=True, reduce_range=True)
        return quantized.read_bytes()


def onnx_with_int8_weights(model: bytes) -> bytes:
    """An ONNX model whose matrix products have int8 weights, with a scale for each column.

    OpenVINO keeps them in int8, and rounds the other factor to int8 in groups of a row.

    Args:
      model: in float32.

    Raises:
      InputError: the package onnx is not installed.
    """
    onnx = optional.load("onnx", "openvino")
    loaded = onnx.load_from_string(model)
    graph, nodes, replaced = loaded.graph, [], set()
    matrices = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    for node in graph.node:
        name = node.input[1] if node.op_type == "MatMul" else ""
        if name in matrices:
            node.input[1] = f"{name}/float"
            if name not in replaced:
                replaced.add(name)
                values = onnx.numpy_helper.to_array(matrices[name])
                scale = np.maximum(np.abs(values).max(0), 1e-12) / 127
                parts = (np.round(values / scale).astype(np.int8), scale.astype(np.float32))
                names = [f"{name}/int8", f"{name}/scale"]
                graph.initializer.extend(map(onnx.numpy_helper.from_array, parts, names))
                nodes.append(
                    onnx.helper.make_node("DequantizeLinear", names, [node.input[1]], axis=1)
                )
        nodes.append(node)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    graph.ClearField("node")
    graph.node.extend(nodes)
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    return loaded.SerializeToString()
