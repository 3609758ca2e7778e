"""Exports for other runtimes: LiteRT and ONNX, of the signatures that take token ids.

Each is compared with the original when it is written.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export import conversion, quiet_tensorflow
from bert_tf.export.module import Assembly, trace_portable
from bert_tf.export.sources import ModelSource
from bert_tf.models.base_config import EncoderConfig
from bert_tf.tasks.signatures import Signature, Tensors
from pipelines.common import checksums, files, json_files, optional
from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import MODEL_INPUTS

_REPORT = "report.json"
_BATCH, _LENGTH = 4, 24  # of what is compared
Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


class Runtime(enum.StrEnum):
    """What can be written."""

    LITERT = "litert"
    LITERT_INT8 = "litert_int8"  # dynamic range: weights in int8, computed as float32
    ONNX = "onnx"


_ENDINGS = {
    Runtime.LITERT: ".tflite",
    Runtime.LITERT_INT8: ".int8.tflite",
    Runtime.ONNX: ".onnx",
}


def export(
    sources: Sequence[ModelSource], folder: str, formats: Sequence[Runtime]
) -> dict[str, Any]:
    """Writes <signature>.tflite, <signature>.int8.tflite and <signature>.onnx, and a report.

    Args:
      sources: the models.
      folder: where to; it appears when it is whole, and its report.json has the report.
      formats: which to write.

    Returns:
      By file name: `bytes`, and by output the `largest_difference` from the
      original and the `cosine` of both, over random sequences.

    Raises:
      InputError: the folder exists already, the family of a model is not for these runtimes, or
        a model cannot be converted, or differs from the
        original.
    """
    for source in sources:
        config = source.bundle.config
        if not config.portable:
            raise InputError(
                f"{source.folder}: {config.title} is not written for LiteRT or ONNX; export it as "
                "a SavedModel (bert-tf export), or for TF Hub (bert-tf export-hub)."
            )
    with files.folder_aside(folder) as partial:
        report = _write_all(sources, partial, formats)
        json_files.write(f"{partial}/{_REPORT}", report)
        checksums.write(partial, report)
    return report


def _write_all(
    sources: Sequence[ModelSource], folder: str, formats: Sequence[Runtime]
) -> dict[str, Any]:
    assembly = Assembly(sources, "float32", portable=True)
    report: dict[str, Any] = {}
    for signature in (each for model in assembly.models for each in model.signatures):
        if signature.inputs.keys() != set(MODEL_INPUTS):
            continue
        function = trace_portable(signature)
        inputs = _inputs([source.bundle.config for source in sources], signature)
        wanted = {k: v.numpy() for k, v in function(**_constants(inputs)).items()}
        for target in formats:
            name = f"{signature.name}{_ENDINGS[target]}"
            with quiet_tensorflow.quiet():
                content = _CONVERTERS[target](function)
            found = _RUNNERS[target](content)(inputs)
            report[name] = {"bytes": len(content)} | _compare(name, wanted, found, target)
            _write(f"{folder}/{name}", content)
    return report


def _inputs(configs: Sequence[EncoderConfig], signature: Signature) -> dict[str, np.ndarray]:
    """Random sequences with padding, that all models take."""
    rng = np.random.default_rng(0)
    length = min(_LENGTH, *(config.max_length for config in configs))
    lengths = rng.integers(length // 2, length + 1, (_BATCH, 1))
    mask = (np.arange(length) < lengths).astype(np.int32)
    vocab_size = min(config.vocab_size for config in configs)
    ids = rng.integers(1, vocab_size, mask.shape).astype(np.int32) * mask
    several = all(config.type_vocab_size > 1 for config in configs)
    types = (several & (np.arange(length) >= length // 3)).astype(np.int32) * mask
    values = dict(zip(MODEL_INPUTS, (ids, mask, types), strict=True))
    rank = len(signature.inputs[MODEL_INPUTS[0]].shape)
    return {k: v.reshape(2, 2, length) if rank == 3 else v for k, v in values.items()}


def _constants(inputs: dict[str, np.ndarray]) -> Tensors:
    return {name: tf.constant(value) for name, value in inputs.items()}


def _compare(
    name: str, wanted: dict[str, np.ndarray], found: dict[str, np.ndarray], target: Runtime
) -> dict[str, Any]:
    """How far outputs are apart.

    Raises:
      InputError: further than rounding explains.
    """
    result: dict[str, Any] = {"largest_difference": {}, "cosine": {}}
    for key, value in wanted.items():
        a, b = value.astype(np.float64).ravel(), found[key].astype(np.float64).ravel()
        product = np.linalg.norm(a) * np.linalg.norm(b)
        result["largest_difference"][key] = float(np.abs(a - b).max())
        result["cosine"][key] = float(a @ b / product) if product else 1.0
        if not np.isfinite(b).all() or (
            target is not Runtime.LITERT_INT8 and not np.allclose(a, b, atol=1e-3)
        ):
            raise InputError(
                f"{name}: {key} differs from the original by "
                f"{result['largest_difference'][key]:.2g}; it was not written."
            )
    return result


def _run_litert(content: bytes) -> Run:
    litert = optional.load("ai_edge_litert.interpreter", "litert")
    runner = litert.Interpreter(model_content=content).get_signature_runner()
    return lambda inputs: runner(**inputs)


def _run_onnx(content: bytes) -> Run:
    onnxruntime = optional.load("onnxruntime", "onnx")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


_CONVERTERS: dict[Runtime, Callable[[Any], bytes]] = {
    Runtime.LITERT: conversion.to_litert,
    Runtime.LITERT_INT8: lambda function: conversion.to_litert(function, quantized=True),
    Runtime.ONNX: conversion.to_onnx,
}
_RUNNERS: dict[Runtime, Callable[[bytes], Run]] = {
    Runtime.LITERT: _run_litert,
    Runtime.LITERT_INT8: _run_litert,
    Runtime.ONNX: _run_onnx,
}


def _write(path: str, content: bytes) -> None:
    with files.write_aside(path) as partial, files.gfile.GFile(partial, "wb") as file:
        file.write(content)
