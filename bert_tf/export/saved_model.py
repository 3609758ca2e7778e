"""A SavedModel in TF Serving's layout: <folder>/<version>/, with everything that belongs to it."""

import datetime
import functools
import os
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NotRequired, TypedDict

from absl import logging

from bert_tf.export import model_card, warmup
from bert_tf.export.module import Assembly, ExportedModel
from bert_tf.export.sources import ModelSource
from bert_tf.tasks import TaskEntry, pretrained
from bert_tf.tasks.signatures import Signature
from bert_tf.weights import own
from pipelines.common import files, json_files, locks, outputs, texts
from pipelines.common import manifest as manifests
from pipelines.common.errors import InputError

OLDEST_SERVING = "2.14"  # the tests compare the ops of exports with those of this version
MANIFEST = "manifest.json"
EXTRA = "assets.extra"
PARTS = "parts"  # preprocessing and postprocessing of the signatures, a SavedModel of its own
BATCHING = "batching.config"  # next to the versions; written by `make serve`
_VERSIONS = ("[0-9]*", BATCHING)
_MAX_VERSION = (1 << 63) - 1  # version numbers are int64 in the protocol
_MAX_SHOWN = 3  # missing files
_PACKAGES = ("tensorflow", "tensorflow-text", "keras")


class _ModelEntry(TypedDict):
    """A model in a manifest: the checked fields."""

    tasks: list[TaskEntry]


class ReducedScore(TypedDict):
    """Score of a task with an engine in a precision lower than float32."""

    engine: str
    precision: str
    task: str
    metric: str  # the main one of the task
    score: float  # on dev data
    full: float  # the same in float32


class Manifest(TypedDict):
    """The manifest of an export: the checked fields."""

    models: list[_ModelEntry]
    date: str
    parameters: int
    encoders: int
    precision: str
    signatures: dict[str, dict[str, Any]]
    reduced: NotRequired[list[ReducedScore]]


# Scores a complete export before it appears; raises InputError if the scores are too low.
Check = Callable[[str], list[ReducedScore]]


def check_output(folder: str) -> None:
    """Raises InputError if a folder holds something other than versions."""
    ours = [f"{number}/{MANIFEST}" for number in versions(folder)]
    outputs.check_folder(folder, "exported versions", ours, _VERSIONS)


def export(
    sources: Sequence[ModelSource], folder: str, dtype: str = "float32", check: Check | None = None
) -> str:
    """Writes the next version, which appears when it is complete.

    Args:
      sources: the models; the first one's first signature is `serving_default`.
      folder: of the versions.
      dtype: "float32" or "bfloat16".
      check: called before the version appears; manifest and model card have its result.

    Returns:
      The version's folder.

    Raises:
      InputError: names collide, the folder holds something other than versions or another process
        is writing to it; and the errors of `check`.
    """
    folder = folder.rstrip("/")
    check_output(folder)
    with locks.held(folder):
        version = 1 + max(versions(folder), default=0)
        path = f"{folder}/{version}"
        if version > _MAX_VERSION:
            raise InputError(f"{path}: is not an int64; export to another folder (--output, OUT=).")
        write(sources, path, dtype, check=check)
    return path


def versions(folder: str) -> list[int]:
    """The numbers of the versions in a folder, ascending."""
    if not files.gfile.isdir(folder):
        return []
    found = []
    for name in files.names_in(folder):
        number = _version_number(name)
        if number is not None and files.gfile.isdir(f"{folder}/{name}"):
            found.append(number)
        elif name.isdecimal():
            _warn_of_number(f"{folder}/{name}")
    return sorted(found)


def find(path: str) -> dict[int, str]:
    """The versions in a folder by number, ascending; an export itself has its own number, or 1."""
    if files.gfile.exists(f"{path}/{MANIFEST}"):
        number = _version_number(path.rpartition("/")[2])
        return {1 if number is None else number: path}
    return {number: f"{path}/{number}" for number in versions(path)}


def _version_number(name: str) -> int | None:
    """The version of a folder by its name: an int64 in plain digits; None for other names."""
    number = int(name) if name.isdecimal() and len(name) < 20 else -1
    return number if str(number) == name and number <= _MAX_VERSION else None


@functools.cache  # once
def _warn_of_number(path: str) -> None:
    logging.warning(
        "%s: is not a version: it is not a folder, or its number has leading zeros or is beyond 64 "
        "bits.",
        path,
    )


def is_export(path: str) -> bool:
    """Whether a folder is an export, or has versions; an encoder for TF Hub has no manifest."""
    return bool(find(path))


def newest(path: str) -> str:
    """The export itself, or the newest version in a folder of versions.

    Raises:
      InputError: there is none.
    """
    path = path.rstrip("/")
    found = find(path)
    if not found:
        raise InputError(f"{path}: has no exported version; make one with bert-tf export.")
    return found[max(found)]


def write(
    sources: Sequence[ModelSource],
    path: str,
    dtype: str = "float32",
    replace: bool = False,
    check: Check | None = None,
) -> None:
    """Writes a SavedModel with manifest, model card, labels, vocabulary and warm-up requests.

    The folder appears when it is complete, and may replace an existing one. The other arguments are
    those of `export`.

    Raises:
      InputError: names collide, the folder exists, or the disk is full.
    """
    assembly = Assembly(sources, dtype)
    # The name of the partial folder is not that of a version: no server loads it.
    with files.folder_aside(path, replace) as partial:
        assembly.save(partial, f"{partial}/{PARTS}")
        warmup.write(assembly.signatures, f"{partial}/{EXTRA}")
        labels = {
            source.task.name: list(source.task.labels)
            for source in sources
            if source.task and source.task.labels
        }
        json_files.write(f"{partial}/{EXTRA}/labels.json", labels)
        manifest = _manifest(assembly, _write_vocabularies(sources, partial), dtype)
        _write_manifest(manifest, partial)
        if check:
            _write_manifest(manifest | {"reduced": check(partial)}, partial)
        check_complete(partial)


def _write_vocabularies(sources: Sequence[ModelSource], path: str) -> list[str]:
    """Writes each distinct vocabulary once; returns the file of each source, relative to `path`."""
    places: dict[str, str] = {}  # by checksum
    vocabularies = [source.bundle.require_vocabulary() for source in sources]
    for vocabulary in vocabularies:
        if vocabulary.sha256 not in places:
            mark = f"{len(places) + 1}-" if places else ""
            name, *_ = vocabulary.save(f"{path}/{EXTRA}", mark)
            places[vocabulary.sha256] = f"{EXTRA}/{name}"
    return [places[vocabulary.sha256] for vocabulary in vocabularies]


def _write_manifest(manifest: dict[str, Any], path: str) -> None:
    """Writes model card and manifest."""
    files.write_text(f"{path}/README.md", model_card.render(manifest))
    manifests.write_sealed(f"{path}/{MANIFEST}", manifest, _checked(path))


def _checked(path: str) -> list[str]:
    """The files and folders that an export's answers depend on, relative to it."""
    # Users may replace the warm-up requests.
    extra = [f"{EXTRA}/{n}" for n in files.names_in(f"{path}/{EXTRA}") if n != warmup.FILE]
    return ["saved_model.pb", "assets", "variables", PARTS, *extra]


def checksums(path: str) -> dict[str, str]:
    """Checksums of the files that an export's answers depend on; read, or computed."""
    place = f"{path}/{MANIFEST}"
    found = manifests.read_listed(place) or manifests.checksums(path, _checked(path))
    return found | {MANIFEST: files.sha256(place)}


def check_present(path: str) -> None:
    """Checks that all files of a version are present: it may still be being copied.

    Raises:
      InputError: it has no manifest, or lacks files that the manifest lists.
    """
    place = f"{path}/{MANIFEST}"
    listed = manifests.read_listed(place) if files.gfile.exists(place) else [MANIFEST]
    missing = [name for name in listed if not files.gfile.exists(f"{path}/{name}")]
    if missing:
        raise InputError(
            f"{path}: is not complete: it has no {texts.listed(missing, _MAX_SHOWN)}. If it is not "
            "being copied now, copy it again."
        )


def check_complete(path: str) -> Manifest:
    """Checks that a version is complete and unchanged; returns its manifest.

    Raises:
      InputError: it is not complete, or damaged.
    """
    check_present(path)
    manifests.check(f"{path}/{MANIFEST}")
    return read_manifest(path)


def _manifest(assembly: Assembly, vocabularies: Sequence[str], dtype: str) -> dict[str, Any]:
    functions = assembly.functions()
    return {
        "format": 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "oldest_serving": OLDEST_SERVING,
        "precision": dtype,
        "parameters": sum(variable.shape.num_elements() for variable in assembly.variables),
        "encoders": len({model.encoder for model in assembly.models}),
        "models": [
            _describe_model(model, vocabulary)
            for model, vocabulary in zip(assembly.models, vocabularies, strict=True)
        ],
        "signatures": {
            signature.name: _describe_signature(signature, functions[signature.name], number)
            for number, model in enumerate(assembly.models)
            for signature in model.signatures
        },
        "versions": {name: metadata.version(name) for name in _PACKAGES},
    }


def _describe_signature(signature: Signature, function: Any, model: int) -> dict[str, Any]:
    """A signature in the manifest, with the number of its model."""
    axes = signature.sequence_axes
    return {
        "method": signature.method.value,
        "inputs": {
            name: [spec.dtype.name, list(spec.shape)] for name, spec in signature.inputs.items()
        },
        "outputs": {
            name: [spec.dtype.name, spec.shape.as_list()]
            for name, spec in function.structured_outputs.items()
        },
        "model": model,
        "computation": signature.computation.name,
        **({"sequence_axes": axes} if axes > 1 else {}),
    }


def _describe_model(model: ExportedModel, vocabulary: str) -> dict[str, Any]:
    """A model in the manifest, with the file of its vocabulary."""
    source, task = model.source, model.source.task
    data = source.data.get(source.head)
    return {
        "name": os.path.basename(source.folder.rstrip("/")),
        "weights_sha256": source.bundle.sha256(),
        "config": source.bundle.config.to_dict(),
        "encoder": model.encoder,
        "vocabulary": vocabulary,
        "tokenizer": source.bundle.resolved_settings(),
        "mask_token": source.bundle.require_vocabulary().roles["mask"],
        "tasks": [task.describe()] if task else [],
        **({} if task else {"sample": pretrained.sample(model.tokenizer)}),
        "scores": source.scores,
        "data": {task.name if task else "": data} if data else {},
        **({"generation": source.generation.describe()} if source.generation else {}),
    }


def read_manifest(path: str) -> Manifest:
    """Reads the manifest of an export.

    Raises:
      InputError: the folder is not an export, or its manifest is damaged.
    """
    if not files.gfile.exists(f"{path}/{MANIFEST}"):
        raise InputError(
            f"{path}: is not an export (it has no {MANIFEST}); make one with bert-tf export."
        )
    found = manifests.read_sealed(f"{path}/{MANIFEST}", Manifest)
    for model in found["models"]:
        for task in model["tasks"]:
            own.check_task(task, f"{path}/{MANIFEST}")
    return found


def tasks_of(manifest: Manifest) -> dict[str, Any]:
    """The descriptions of the tasks of an export, by name."""
    return {task["name"]: task for model in manifest["models"] for task in model["tasks"]}


def kept_precisions(path: str) -> dict[str, str]:
    """Precision of each engine in which the export keeps its scores, where it is not float32.

    TensorFlow's is the precision in which the weights are stored.
    """
    manifest = read_manifest(path)
    checked = {each["engine"]: each["precision"] for each in manifest.get("reduced", ())}
    return {"tensorflow": manifest["precision"]} | checked
