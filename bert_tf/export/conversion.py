"""Functions of TensorFlow in the formats of other runtimes."""

import logging
import tempfile
from typing import Any

import tensorflow as tf

from bert_tf.export import onnx_patterns
from bert_tf.export.module import quiet
from pipelines.common import files, optional

_OPSET = 17
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
    tf2onnx = optional.load("tf2onnx", "onnx")
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)
    specs = function.structured_input_signature[1]
    signature = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()]
    wrapped = tf.function(lambda *values: function(**dict(zip(specs, values, strict=True))))
    with quiet():
        model, _ = tf2onnx.convert.from_function(
            wrapped, signature, opset=_OPSET, custom_rewriter=onnx_patterns.rules()
        )
    for info in model.graph.input:
        axes = info.type.tensor_type.shape.dim
        for axis, name in zip(axes, _AXES[len(axes)], strict=True):
            axis.dim_param = name
    return model.SerializeToString()


def onnx_in_int8(path: str) -> bytes:
    """An ONNX model with int8 weights (dynamic quantization).

    Args:
      path: of the model in float32.

    Raises:
      InputError: ONNX Runtime is not installed.
    """
    quantization = optional.load("onnxruntime.quantization", "onnx")
    with tempfile.TemporaryDirectory() as folder:
        # Seven bits: sums of eight overflow on processors without instructions for them.
        quantization.quantize_dynamic(
            path, f"{folder}/model.onnx", per_channel=True, reduce_range=True
        )
        with files.gfile.GFile(f"{folder}/model.onnx", "rb") as file:
            return file.read()
