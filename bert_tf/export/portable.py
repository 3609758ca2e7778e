"""Exports for LiteRT and ONNX: the signatures that take token ids.

Each file is compared with the original before it is written.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export import conversion
from bert_tf.export.module import Assembly, trace_portable
from bert_tf.export.sources import ModelSource
from bert_tf.tasks.signatures import Signature
from pipelines.common import checksums, files, json_files, optional
from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import MODEL_INPUTS

_REPORT = "report.json"
_BATCH, _LENGTH = 4, 24  # of the compared sequences
Arrays = dict[str, np.ndarray]


class Runtime(enum.StrEnum):
    """Formats of files."""

    LITERT = "litert"
    LITERT_INT8 = "litert_int8"  # dynamic range: weights in int8, computed in float32
    ONNX = "onnx"


class _Target(NamedTuple):
    """How a format is written and run."""

    ending: str
    convert: Callable[[Any], bytes]
    run: Callable[[bytes, Arrays], Mapping[str, np.ndarray]]


def _run_litert(content: bytes, inputs: Arrays) -> Mapping[str, np.ndarray]:
    litert = optional.load("ai_edge_litert.interpreter", "litert")
    return litert.Interpreter(model_content=content).get_signature_runner()(**inputs)


def _run_onnx(content: bytes, inputs: Arrays) -> Mapping[str, np.ndarray]:
    onnxruntime = optional.load("onnxruntime", "onnx")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


_TARGETS = {
    Runtime.LITERT: _Target(".tflite", conversion.to_litert, _run_litert),
    Runtime.LITERT_INT8: _Target(
        ".int8.tflite", lambda function: conversion.to_litert(function, True), _run_litert
    ),
    Runtime.ONNX: _Target(".onnx", conversion.to_onnx, _run_onnx),
}


def export(
    sources: Sequence[ModelSource], folder: str, formats: Sequence[Runtime]
) -> dict[str, Any]:
    """Writes <signature>.tflite, <signature>.int8.tflite and <signature>.onnx, and a report.

    Args:
      sources: the models.
      folder: to write to; it appears when it is complete, with the report in report.json.
      formats: to write.

    Returns:
      By file name: `bytes`, and by output the `largest_difference` from the
      original and the `cosine` of both, over random sequences.

    Raises:
      InputError: the folder exists, these runtimes do not support the family of a model, or a model
        cannot be converted, or its results differ from the original's.
    """
    for source in sources:
        config = source.bundle.config
        if not config.portable:
            raise InputError(
                f"{source.folder}: {config.title} cannot be written for LiteRT or ONNX; export it "
                "as a SavedModel (bert-tf export), or for TF Hub (bert-tf export-hub)."
            )
        if source.task and source.task.generation:
            raise InputError(
                f"{source.folder}: {source.task.name} writes texts in a loop, which is not written "
                "for LiteRT or ONNX; export it as a SavedModel (bert-tf export)."
            )
    report: dict[str, Any] = {}
    with files.folder_aside(folder) as partial:
        for signature in Assembly(sources, "float32", portable=True).signatures:
            if signature.inputs.keys() == set(MODEL_INPUTS):
                report |= _write(signature, _inputs(sources, signature), partial, formats)
        json_files.write(f"{partial}/{_REPORT}", report)
        checksums.write(partial, report)
    return report


def _write(
    signature: Signature, inputs: Arrays, folder: str, formats: Sequence[Runtime]
) -> dict[str, Any]:
    function = trace_portable(signature)
    outputs = function(**{name: tf.constant(value) for name, value in inputs.items()})
    expected = {name: value.numpy() for name, value in outputs.items()}
    report: dict[str, Any] = {}
    for runtime in formats:
        target = _TARGETS[runtime]
        name = f"{signature.name}{target.ending}"
        content = target.convert(function)
        compared = _compare(name, expected, target.run(content, inputs), runtime)
        report[name] = {"bytes": len(content), **compared}
        with files.gfile.GFile(f"{folder}/{name}", "wb") as file:
            file.write(content)
    return report


def _inputs(sources: Sequence[ModelSource], signature: Signature) -> Arrays:
    """Random sequences with padding, valid for all models."""
    configs = [source.bundle.config for source in sources]
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


def _compare(
    name: str, expected: Arrays, found: Mapping[str, np.ndarray], runtime: Runtime
) -> dict[str, Any]:
    """The differences between outputs.

    Raises:
      InputError: they are larger than rounding errors.
    """
    differences, cosines = {}, {}
    for key, value in expected.items():
        a, b = value.astype(np.float64).ravel(), found[key].astype(np.float64).ravel()
        product = np.linalg.norm(a) * np.linalg.norm(b)
        differences[key] = float(np.abs(a - b).max())
        cosines[key] = float(a @ b / product) if product else 1.0
        rounded = runtime is Runtime.LITERT_INT8 or np.allclose(a, b, atol=1e-3)
        if not np.isfinite(b).all() or not rounded:
            raise InputError(
                f"{name}: {key} differs from the original by {differences[key]:.2g}; it was not "
                "written."
            )
    return {"largest_difference": differences, "cosine": cosines}
