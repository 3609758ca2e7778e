"""Functions of TensorFlow in the formats of other runtimes."""

import logging
import tempfile
from typing import Any

import tensorflow as tf

from bert_tf.export import onnx_patterns
from pipelines.common import files, optional

_OPSET = 17
# Names of the inputs' axes in ONNX, by their number.
_AXES = {2: ("batch", "length"), 3: ("batch", "choices", "length")}


def to_litert(function: Any, quantized: bool = False) -> bytes:
    """A function in LiteRT's format.

    Args:
      function: concrete, of plain ops on numbers.
      quantized: whether weights become int8 (dynamic range); all is computed as float32.
    """
    # From a SavedModel, because only that keeps the names of inputs and outputs.
    with tempfile.TemporaryDirectory() as folder:
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
    tf2onnx = optional.load("tf2onnx", "onnx")
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)
    signature = [
        tf.TensorSpec(spec.shape, spec.dtype, name)
        for name, spec in function.structured_input_signature[1].items()
    ]
    names = [spec.name for spec in signature]
    wrapped = tf.function(lambda *values: function(**dict(zip(names, values, strict=True))))
    model, _ = tf2onnx.convert.from_function(wrapped, signature, opset=_OPSET)
    outputs = sorted(function.structured_outputs)
    for info, name in zip(model.graph.output, outputs, strict=True):
        for node in model.graph.node:
            node.output[:] = [name if output == info.name else output for output in node.output]
            node.input[:] = [name if used == info.name else used for used in node.input]
        info.name = name
    for info in model.graph.input:
        axes = info.type.tensor_type.shape.dim
        for axis, name in zip(axes, _AXES[len(axes)], strict=True):
            axis.dim_param = name
    onnx_patterns.rewrite(model)
    return model.SerializeToString()


def onnx_in_int8(path: str) -> bytes:
    """An ONNX model whose weights are int8 (dynamic quantization).

    Args:
      path: of the model in float32.

    Raises:
      InputError: ONNX Runtime is not installed.
    """
    quantization = optional.load("onnxruntime.quantization", "onnx")
    with tempfile.TemporaryDirectory() as folder:
        # Seven bits: sums of eight overflow on processors that have no instructions for them.
        quantization.quantize_dynamic(
            path, f"{folder}/model.onnx", per_channel=True, reduce_range=True
        )
        with files.gfile.GFile(f"{folder}/model.onnx", "rb") as file:
            return file.read()
