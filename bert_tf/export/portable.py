"""Exports for LiteRT and ONNX: the signatures that take token ids.

For programs that read a model of the Hugging Face Hub in ONNX (transformers.js, fastembed,
text-embeddings-inference), a folder for each model, with the inputs and outputs of transformers.
Each file is compared with the original before it is written. Files in int8 are written where they
keep the scores of their tasks.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.export import conversion, saved_model
from bert_tf.export.module import Assembly, ExportedModel, trace_portable
from bert_tf.export.saved_model import Check, ReducedScore
from bert_tf.export.sources import ModelSource
from bert_tf.models import fused_ops
from bert_tf.tasks import embedding, span
from bert_tf.tasks.signatures import Signature
from bert_tf.weights import formats as weights_formats
from bert_tf.weights import huggingface, own
from pipelines.common import files, json_files, manifest, optional
from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import MODEL_INPUTS

_REPORT = "report.json"
_PRETRAINED = "pretrained"  # names the folder of a model without a task
HUGGING_FACE = "huggingface"  # the format of folders, and the folder of these
_HUB_INPUTS = {
    "input_word_ids": "input_ids",
    "input_mask": "attention_mask",
    "input_type_ids": "token_type_ids",
}
_HUB_SHAPES = ("classification", "multilabel", "regression", "tagging", "span", "embedding")
_BATCH, _LENGTH = 4, 24  # of the compared sequences
Arrays = dict[str, np.ndarray]


class _Target(NamedTuple):
    """How a format is written and run.

    Attributes:
      engine: name of the engine that runs it, in scores.
      ending: of the names of its files.
      convert: from a function to a file.
      quantize: from a function, and the file of it, to one with int8 weights.
      run: runs a file.
    """

    engine: str
    ending: str
    convert: Callable[[Any], bytes]
    quantize: Callable[[Any, bytes], bytes]
    run: Callable[[bytes, Arrays], Mapping[str, np.ndarray]]


def _run_litert(content: bytes, inputs: Arrays) -> Mapping[str, np.ndarray]:
    litert = optional.load("ai_edge_litert.interpreter", "litert")
    return litert.Interpreter(model_content=content).get_signature_runner()(**inputs)


def _run_onnx(content: bytes, inputs: Arrays) -> Mapping[str, np.ndarray]:
    onnxruntime = optional.load("onnxruntime", "onnx")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


TARGETS = {
    "litert": _Target(
        "litert",
        ".tflite",
        conversion.to_litert,
        lambda function, _: conversion.to_litert(function, quantized=True),
        _run_litert,
    ),
    "onnx": _Target(
        "onnxruntime",
        ".onnx",
        conversion.to_onnx,
        lambda _, content: conversion.onnx_in_int8(content),
        _run_onnx,
    ),
}


def export(
    sources: Sequence[ModelSource], folder: str, formats: Sequence[str], check: Check | None = None
) -> dict[str, Any]:
    """Writes <signature>.tflite and <signature>.onnx, the same in int8, folders, and a report.

    A folder for each task has its vocabulary, tokenizer settings, labels and thresholds.

    Args:
      sources: the models.
      folder: to write to; it appears when it is complete, with the report in report.json.
      formats: to write, of `TARGETS`, or `HUGGING_FACE`.
      check: scores the models in int8; without it, nothing is written in int8.

    Returns:
      By file name: `bytes`, and by output the `largest_difference` from the
      original and the `cosine` of both, over random sequences; `score` of one in int8.

    Raises:
      InputError: the folder exists, these runtimes do not support the family of a model, or a model
        cannot be converted, or its results differ from the original's; and the errors of `check`.
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
        if HUGGING_FACE in formats:
            _check_hub(source)
    report: dict[str, Any] = {}
    with files.folder_aside(folder) as partial:
        kept: dict[tuple[str, str], ReducedScore] = {}  # by engine and signature of token ids
        if check:
            with tempfile.TemporaryDirectory() as place:
                saved_model.write(sources, f"{place}/full")
                found = check(f"{place}/full")
            kept = {(each["engine"], f"{each['task']}_ids"): each for each in found}
        models = Assembly(sources, "float32", portable=True).models
        targets = [name for name in formats if name != HUGGING_FACE]
        for signature in (signature for model in models for signature in model.signatures):
            if targets and signature.inputs.keys() == set(MODEL_INPUTS):
                report |= _write(signature, _inputs(sources, signature), partial, targets, kept)
            elif targets and signature.name.endswith("_ids"):
                logging.warning(
                    "%s is left out: it takes more than token ids; the folders of --format=%s have "
                    "masked LMs.",
                    signature.name,
                    HUGGING_FACE,
                )
        if HUGGING_FACE in formats:
            for model in models:
                report |= _write_hub_folder(model, partial, kept)
        json_files.write(f"{partial}/{_REPORT}", report)
        # What a program needs besides: vocabulary, tokenizer settings, labels and thresholds.
        described = []
        for source in sources if targets else ():
            described.append(source.task.name if source.task else _PRETRAINED)
            own.write_tokenizer(source.bundle, f"{partial}/{described[-1]}")
            if source.task:
                place = f"{partial}/{described[-1]}/{own.TASKS}"
                json_files.write(place, [source.task.describe()])
        seal = f"{partial}/{manifest.CHECKSUMS}"
        folders = [HUGGING_FACE] if HUGGING_FACE in formats else []
        single = [name for name in report if "/" not in name]
        manifest.write_sealed(seal, {}, [*single, *described, *folders])
    return report


def _write(
    signature: Signature,
    inputs: Arrays,
    folder: str,
    formats: Sequence[str],
    kept: Mapping[tuple[str, str], ReducedScore],
) -> dict[str, Any]:
    """Writes a signature in each format, and in int8 where that keeps the scores."""
    function = trace_portable(signature)
    report: dict[str, Any] = {}
    for target in map(TARGETS.__getitem__, formats):
        names = f"{signature.name}{target.ending}", f"{signature.name}.int8{target.ending}"
        score = kept.get((target.engine, signature.name))
        report |= _write_files(function, inputs, folder, target, names, score)
    return report


def _write_files(
    function: Any,
    inputs: Arrays,
    folder: str,
    target: _Target,
    names: tuple[str, str],
    score: ReducedScore | None,
) -> dict[str, Any]:
    """Writes a concrete function by the first name, and in int8, if it has a score, by the other.

    Returns:
      What the report has of them.
    """
    outputs = function(**{name: tf.constant(value) for name, value in inputs.items()})
    expected = {name: value.numpy() for name, value in outputs.items()}
    contents = {names[0]: target.convert(function)}
    if score:
        contents[names[1]] = target.quantize(function, contents[names[0]])
    report: dict[str, Any] = {}
    for place, content in contents.items():
        rounded = place == names[0]
        compared = _compare(place, expected, target.run(content, inputs), rounded)
        scored = {} if rounded else {"score": score}
        report[place] = {"bytes": len(content), **compared, **scored}
        with files.gfile.GFile(f"{folder}/{place}", "wb") as file:
            file.write(content)
    return report


def _check_hub(source: ModelSource) -> None:
    """Raises InputError if transformers, or its version for JavaScript, has no class for a task."""
    task, why = source.task, ""
    if source.generation or (task and task.shape not in _HUB_SHAPES):
        why = f"transformers.js has no class for it ({task.shape if task else 'it writes texts'})"
    elif task and task.shape == embedding.SHAPE.name and task.units:
        why = "transformers.js and fastembed leave the Dense layer of vectors out"
    if why:
        name = task.name if task else _PRETRAINED
        raise InputError(f"{source.folder}: {name}: {why}; export it without --format=huggingface.")


def _write_hub_folder(
    model: ExportedModel, folder: str, kept: Mapping[tuple[str, str], ReducedScore]
) -> dict[str, Any]:
    """Writes the files of transformers without the weights, and the model as onnx/model.onnx."""
    source, served, task = model.source, model.served, model.source.task
    name = task.name if task else _PRETRAINED
    heads = f"heads/{source.head}/"
    bare = task is None and model.token_logits is None  # other heads are not in the file
    bundle = dataclasses.replace(
        source.bundle,
        weights={
            key.replace(heads, f"heads/{name}/"): value
            for key, value in source.bundle.weights.items()
            if key.startswith((heads, "encoder/")) or not (bare or key.startswith("heads/"))
        },
        tasks=(task.describe(),) if task else (),
    )
    weights_formats.check_heads(bundle, HUGGING_FACE)
    place = f"{HUGGING_FACE}/{name}"
    files.gfile.makedirs(f"{folder}/{place}/onnx")
    huggingface.write_settings(bundle, f"{folder}/{place}")
    if not files.gfile.exists(f"{folder}/{place}/tokenizer.json"):
        raise InputError(
            f"{source.folder}: {name}: no tokenizer.json is written of its vocabulary "
            f"({bundle.require_vocabulary().kind}), but of WordPiece and byte-level BPE; export "
            "it without --format=huggingface."
        )
    # A model without token types is not given any.
    typed = served.config.type_vocab_size > 1
    theirs = dict(list(_HUB_INPUTS.items())[: 2 + typed])

    def function(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = {ours: tf.cast(inputs[given], tf.int32) for ours, given in theirs.items()}
        rows.setdefault(MODEL_INPUTS[2], tf.zeros_like(rows[MODEL_INPUTS[0]]))
        with fused_ops.inference():
            if task and task.shape != embedding.SHAPE.name:
                (logits,) = served.logits.function(rows, False)
                if task.shape == span.SHAPE.name:
                    return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
                return {"logits": logits}
            hidden = served.outputs(rows, False)["sequence_output"]
            if model.token_logits is None:
                return {"last_hidden_state": hidden}
            logits = model.token_logits(tf.reshape(hidden, [-1, served.config.hidden_size]))
            return {"logits": tf.reshape(logits, tf.concat([tf.shape(hidden)[:2], [-1]], 0))}

    specs = {given: tf.TensorSpec([None, None], tf.int64, given) for given in theirs.values()}
    traced = tf.function(function, autograph=False).get_concrete_function(**specs)
    values = _random_sequences([source])
    inputs = {given: values[ours].astype(np.int64) for ours, given in theirs.items()}
    target, score = TARGETS["onnx"], kept.get((TARGETS["onnx"].engine, f"{name}_ids"))
    names = f"{place}/onnx/model.onnx", f"{place}/onnx/model_quantized.onnx"
    return _write_files(traced, inputs, folder, target, names, score)


def _inputs(sources: Sequence[ModelSource], signature: Signature) -> Arrays:
    values, rank = _random_sequences(sources), len(signature.inputs[MODEL_INPUTS[0]].shape)
    return {k: v.reshape(2, 2, -1) if rank == 3 else v for k, v in values.items()}


def _random_sequences(sources: Sequence[ModelSource]) -> Arrays:
    """Sequences with padding, int32 [batch, length], valid for all models."""
    configs = [source.bundle.config for source in sources]
    rng = np.random.default_rng(0)
    length = min(_LENGTH, *(config.max_seq_length for config in configs))
    lengths = rng.integers(length // 2, length + 1, (_BATCH, 1))
    mask = (np.arange(length) < lengths).astype(np.int32)
    vocab_size = min(config.vocab_size for config in configs)
    ids = rng.integers(1, vocab_size, mask.shape).astype(np.int32) * mask
    several = all(config.type_vocab_size > 1 for config in configs)
    types = (several & (np.arange(length) >= length // 3)).astype(np.int32) * mask
    return dict(zip(MODEL_INPUTS, (ids, mask, types), strict=True))


def _compare(
    name: str, expected: Arrays, found: Mapping[str, np.ndarray], rounded: bool
) -> dict[str, Any]:
    """The differences between outputs.

    Raises:
      InputError: a result is not finite; or a file that is only `rounded` differs by more.
    """
    differences, cosines = {}, {}
    for key, value in expected.items():
        a, b = value.astype(np.float64).ravel(), found[key].astype(np.float64).ravel()
        product = np.linalg.norm(a) * np.linalg.norm(b)
        differences[key] = float(np.abs(a - b).max())
        cosines[key] = float(a @ b / product) if product else 1.0
        if not np.isfinite(b).all() or (rounded and not np.allclose(a, b, atol=1e-3)):
            raise InputError(
                f"{name}: {key} differs from the original by {differences[key]:.2g}; it was not "
                "written."
            )
    return {"largest_difference": differences, "cosine": cosines}
