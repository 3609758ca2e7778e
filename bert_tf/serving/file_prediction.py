"""Predictions of a fine-tuned model for a file."""

import dataclasses
import fnmatch
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NotRequired, TypedDict

import tensorflow as tf
from absl import logging
from tqdm import tqdm

from bert_tf import tasks, weights
from bert_tf.export import saved_model
from bert_tf.finetuning import batches, task_data
from bert_tf.serving import engines
from bert_tf.serving.plan import EngineName
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks import Task, objectives
from bert_tf.tasks.classification.zero_shot import ZeroShot
from bert_tf.weights import formats
from pipelines.common import compressed, files, json_files, locks, outputs
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from pipelines.labelled import text_lines
from pipelines.labelled.source import Source

_MANIFEST = "manifest.json"
_MADE_BY = "bert_tf.predict"
_Predict = Callable[[Sequence[Any]], list[Any]]


class _Manifest(TypedDict):
    made_by: str
    inputs: NotRequired[dict[str, str]]  # paths by split


def predict_file(
    model: str,
    source: Source,
    output: str | None = None,
    task_name: str | None = None,
    *,
    kind: str | None = None,
    labelled: bool = False,
    labels: Sequence[str] = (),
    engine: str = EngineName.TENSORFLOW,
    max_seq_length: int | None = None,
) -> tuple[list[str], dict[str, float]]:
    """Writes the official prediction files for the examples of a file.

    Args:
      model: folder of a fine-tuned model, in any format with task heads, or of an export.
      source: the file.
      output: folder to write to; None: predictions/<task>, in the folder of a fine-tuned model
        or, for an export, in the current one.
      task_name: one of several tasks of the model.
      kind: the layout of the file, if it is not the task's own, such as "ax" for a model of mnli;
        also the kind of task, if the model of another program does not have it.
      labelled: whether to read the labels of the file, and to score the predictions.
      labels: what a model of textual entailment chooses from; none: the labels of the task.
      engine: of an export, see `Predictor`.
      max_seq_length: maximum number of tokens in a sequence; None: that of the task.

    Returns:
      The paths of the output files, and the metrics (none without labels).

    Raises:
      InputError: the model does not have the task, the file is bad, or the output folder holds
        something other than predictions, or those of another file of this name.
    """
    if output:
        _check_output(output, source.path)
    task, predict = open_task(model, task_name, kind, engine, max_seq_length, labels)
    if not output:
        folder = "." if saved_model.is_export(model) else formats.folder_of(model)
        output = f"{folder}/predictions/{task.name}"
        _check_output(output, source.path)
    reading = _reading(task, kind)
    split = _split_of(source.path, reading)
    _inputs(output, split, source.path)
    examples = read(task, source, kind, labelled)
    predictions = predict(examples)
    texts = reading.files(examples, predictions, split)
    with locks.held(output):
        inputs = _inputs(output, split, source.path)
        json_files.write(f"{output}/{_MANIFEST}", {"made_by": _MADE_BY, "inputs": inputs})
        for name, text in texts.items():
            files.write_text(f"{output}/{name}", text)
    metrics = reading.metrics(examples, predictions) if labelled else {}
    return [f"{output}/{name}" for name in texts], metrics


def open_task(
    model: str,
    task_name: str | None = None,
    kind: str | None = None,
    engine: str = EngineName.TENSORFLOW,
    max_seq_length: int | None = None,
    labels: Sequence[str] = (),
) -> tuple[Task, _Predict]:
    """A task of a model, and its function from examples to predictions.

    Args:
      model: as for `predict_file`.
      task_name: one of several tasks of the model.
      kind: of the task, if the model of another program does not have it.
      engine: of an export.
      max_seq_length: as for `predict_file`.
      labels: as for `predict_file`.

    Raises:
      InputError: the model does not have the task, or too few positions; or it cannot choose among
        labels that it was not trained for.
    """
    if not saved_model.is_export(model):
        return _open(model, task_name, kind, max_seq_length, labels)
    if max_seq_length:
        raise InputError(
            f"--max_seq_length: is part of an export such as {model}; export the model "
            "again with it."
        )
    predictor = Predictor(model, engine)
    if not any(each["tasks"] for each in predictor.manifest["models"]):
        raise InputError(
            f"{model}: has no task to predict for. For vectors of texts, ask its signature embed "
            "(bert-tf ask), or embed a file with the original model (bert-tf embed)."
        )
    task = predictor.task(task_name)
    task = ZeroShot.of(task, labels) if labels else task
    return task, lambda examples: predictor.predict(task, examples, progress)


def _check_output(output: str, source: str) -> None:
    """Raises InputError if a folder has neither a manifest of predictions nor the source alone."""
    path = f"{output}/{_MANIFEST}"
    if files.gfile.exists(output) and not files.gfile.isdir(output):
        raise InputError(f"--output={output}: is a file; name a folder to write to.")
    exists = files.gfile.exists(path)
    if not exists or json_files.read(path, dict[str, Any]).get("made_by") != _MADE_BY:
        outputs.check_folder(output, "predictions", (), (), [source])


def _inputs(output: str, split: str, path: str) -> dict[str, str]:
    """The files by split whose predictions a folder has, with another file.

    Raises:
      InputError: the predictions of its split are of another file.
    """
    manifest, path = f"{output}/{_MANIFEST}", files.absolute(path)
    exists = files.gfile.exists(manifest)
    known = json_files.read(manifest, _Manifest).get("inputs", {}) if exists else {}
    if known.get(split, path) != path:
        raise InputError(
            f"{output}: has predictions of {known[split]} under the name {split}; name another "
            f"folder with --output for those of {path}."
        )
    return known | {split: path}


def read(
    task: Task, source: Source, kind: str | None = None, labelled: bool = False
) -> Sequence[Any]:
    """Reads the examples of a file for a task of the model; their problems are logged.

    Raises:
      InputError: the file is bad, or its layout is not that of the task's files.
    """
    reading = _reading(task, kind)
    split = _split_of(source.path, reading)
    source = dataclasses.replace(source, usual=dict(reading.columns))
    try:
        examples = task_data.read(reading, source, split, {}, labelled)
    except InputError as error:
        if reading.source.named_columns or kind:
            raise
        raise InputError(
            f"{error} If the file does not have the layout of {reading.kind}, name its layout with "
            f"--kind={reading.shape}."
        ) from error
    task_data.count_problems(reading, examples, split, {})
    task.check(examples)
    return examples


def _open(
    folder: str,
    task_name: str | None,
    kind: str | None,
    max_seq_length: int | None,
    labels: Sequence[str],
) -> tuple[Task, _Predict]:
    """A task of a fine-tuned model, and its function from examples to predictions."""
    bundle = weights.read(folder)
    if max_seq_length:
        bundle = bundle.with_max_length(max_seq_length)
    if not bundle.tasks:
        raise InputError(
            f"{folder}: has no task to predict for; fine-tune it for one first (bert-tf finetune). "
            "For vectors of texts it needs none: bert-tf embed."
        )
    description = bundle.task(task_name)
    if kind and "kind" not in description:
        description = tasks.of_kind(description, kind)
    task = tasks.load(description, bundle.config.max_seq_length)
    tokenizer = bundle.tokenizer()
    bundle.config.check_segments(tokenizer.types(task.segments), folder)
    model = bundle.task_model([task])
    task = ZeroShot.of(task, labels) if labels else task
    predictor = batches.make_logits_function(
        objectives.make(model, task, lambda: tokenizer),
        tf.distribute.get_strategy(),
        progress=progress,
        at_once=1 if task.generation else max(1, cores() // engines.tensorflow_threads()),
    )

    def predict(examples: Sequence[Any]) -> list[Any]:
        features = task_data.make_features(task, list(examples), tokenizer)
        task_data.warn_of_unknown(examples, features, tokenizer)
        for what, count in features.counts.items():
            if count:
                logging.info("%s: %d", what, count)
        return task.predict(examples, features, predictor(features))

    return task, predict


def progress(items: Iterable[Any]) -> Any:
    """Shows a progress bar of batches, unless they take less than a second."""
    return tqdm(items, desc="predict", unit="batch", delay=1)


def _reading(task: Task, kind: str | None) -> Task:
    """The task that reads the file, and writes and scores the predictions."""
    if kind is None:
        return task
    other = tasks.alike(kind, task.describe())
    # None: the file decides whether it has pairs.
    return other.restore(task.describe() | {"pair": None})


def _split_of(path: str, task: Task) -> str:
    """The split of a file by its name, or else its name."""
    file, part = text_lines.split_part(compressed.name_unpacked(path))
    parts = [f"{part}.json"] if part else file.split("/")
    for split, patterns in task.source.splits.items():
        for pattern in patterns:
            end = parts[-1 - pattern.count("/") :]  # a pattern may have a folder
            if fnmatch.fnmatchcase("/".join(end).lower(), pattern.lower()):
                return split
    return part or os.path.splitext(parts[-1])[0]
