"""A SavedModel in TF Serving's layout: <folder>/<version>/, with all that belongs to it."""

import datetime
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, NotRequired, TypedDict

import tensorflow as tf
from absl import logging

from bert_tf.export import model_card, quiet_tensorflow, warmup
from bert_tf.export.module import Exported
from bert_tf.export.sources import ModelSource
from bert_tf.tasks import TaskEntry
from bert_tf.tasks.signatures import Method, Signature
from bert_tf.weights import own
from pipelines.common import checksums, files, json_files, locks, outputs
from pipelines.common.errors import InputError

# Its op set is what the tests hold exports against.
OLDEST_SERVING = "2.14"
MANIFEST = "manifest.json"
EXTRA = "assets.extra"
# Preprocessing and postprocessing of the signatures, as a SavedModel of their own.
PARTS = "parts"
# What a folder of versions has besides them, and `make serve` writes.
BATCHING = "batching.config"
_VERSIONS = ("[0-9]*", BATCHING)
_LARGEST = (1 << 63) - 1  # version numbers are int64 in the protocol
_PACKAGES = ("tensorflow", "tensorflow-text", "keras")


class _Model(TypedDict):
    """A model of an export: what is asked of it here; more besides."""

    tasks: list[TaskEntry]


class Reduced(TypedDict):
    """How a task is scored in a precision that is less than float32.

    Attributes:
      engine: what computes.
      precision: what it multiplies in.
      task: its name.
      metric: its main one.
      score: on dev data.
      full: the same in float32.
    """

    engine: str
    precision: str
    task: str
    metric: str
    score: float
    full: float


class Manifest(TypedDict):
    """What an export says of itself: what is asked of it here; more besides."""

    models: list[_Model]
    parameters: int
    encoders: int
    signatures: dict[str, dict[str, Any]]
    reduced: NotRequired[list[Reduced]]


# Scores an export that is written, but not there yet; raises InputError where they are too low.
Check = Callable[[str], list[Reduced]]


def export(
    sources: Sequence[ModelSource],
    folder: str,
    version: int | None = None,
    dtype: str = "float32",
    check: Check | None = None,
) -> str:
    """Writes a new version; it appears when it is whole.

    Args:
      sources: the models; the first one's first signature is `serving_default`.
      folder: of the versions.
      version: its number; None: the next one.
      dtype: "float32" or "bfloat16".
      check: is asked before the version appears; what it finds is in manifest and model card.

    Returns:
      The version's folder.

    Raises:
      InputError: the version exists already, names collide, or the folder holds something else
        than versions, or is another process's at the moment; and those of `check`.
    """
    folder = folder.rstrip("/")
    ours = [f"{number}/{MANIFEST}" for number in versions(folder)]
    outputs.check_folder(folder, "exported versions", ours, _VERSIONS)
    with locks.held(folder):
        return _export(sources, folder, version, dtype, check)


def _export(
    sources: Sequence[ModelSource],
    folder: str,
    version: int | None,
    dtype: str,
    check: Check | None,
) -> str:
    if version is None:
        version = 1 + max(versions(folder), default=0)
    path = f"{folder}/{version}"
    if version > _LARGEST:
        raise InputError(f"{path}: is beyond the numbers of versions; name another folder (OUT=).")
    if files.gfile.exists(path):
        raise InputError(f"{path}: exists already; name another version, or remove it.")
    write(sources, path, dtype, check=check)
    return path


def versions(folder: str) -> list[int]:
    """The numbers of the versions in a folder, ascending; see `version_number`."""
    if not files.gfile.isdir(folder):
        return []
    names = files.names_in(folder)
    for name in names:
        if name.isdecimal() and version_number(name) is None:
            _report_number(f"{folder}/{name}")
    return sorted(n for name in names if (n := version_number(name)) is not None)


def version_number(name: str) -> int | None:
    """The version that a folder of a name is: an int64 of plain digits; None of other names."""
    number = int(name) if name.isdecimal() and len(name) < 20 else -1
    return number if str(number) == name and number <= _LARGEST else None


@functools.cache  # once
def _report_number(path: str) -> None:
    logging.warning(
        "%s: is not a version: its number has leading zeros or is beyond 64 bits.", path
    )


def is_export(path: str) -> bool:
    """Whether a folder is to be run as an export: a Hub encoder, which is not, has no manifest."""
    return bool(versions(path)) or files.gfile.exists(f"{path}/{MANIFEST}")


def write(
    sources: Sequence[ModelSource],
    path: str,
    dtype: str = "float32",
    replace: bool = False,
    check: Check | None = None,
) -> None:
    """Writes a SavedModel with manifest, model card, labels, vocabulary and warm-up requests.

    Args:
      sources: see `export`.
      path: its folder, which appears when it is whole.
      dtype: see `export`.
      replace: whether a folder that is there makes room.
      check: see `export`.

    Raises:
      InputError: names collide, the folder is there, or the disk is full.
    """
    module = Exported(sources, dtype)
    # The partial folder is not named like a version: no server sees it.
    with files.folder_aside(path, replace) as partial:
        with quiet_tensorflow.quiet():
            functions = module.functions()
            tf.saved_model.save(module, partial, functions)
            _set_methods(module, partial)
            parts = module.parts()
            tf.saved_model.save(parts, f"{partial}/{PARTS}", parts.functions)
        warmup.write(module.signatures, f"{partial}/{EXTRA}")
        manifest = _write_extras(sources, module, functions, partial, dtype)
        _write_manifest(manifest, partial)
        if check:
            _write_manifest(manifest | {"reduced": check(partial)}, partial)
        check_complete(partial)


def check_there(path: str) -> None:
    """Checks that all files of a version are there: it may be on its way, file by file.

    Args:
      path: of the version.

    Raises:
      InputError: it has no checksums, or lacks files that they name.
    """
    if not files.gfile.exists(f"{path}/{checksums.CHECKSUMS}"):
        raise InputError(
            f"{path}: is not complete: it has no {checksums.CHECKSUMS}. If nobody is copying it, "
            "copy it again; if it never had one, write {} into that file, and nothing is checked."
        )
    wanted = [MANIFEST, *checksums.read(path)]
    if not all(files.gfile.exists(f"{path}/{name}") for name in wanted):
        raise InputError(
            f"{path}: is not complete: files that its {checksums.CHECKSUMS} names are missing. If "
            "nobody is copying it, copy it again."
        )


def check_complete(path: str) -> None:
    """Checks that a version is there as it was written.

    Args:
      path: of the version.

    Raises:
      InputError: it is not complete, or damaged.
    """
    check_there(path)
    read_manifest(path)
    checksums.check(path)


def _set_methods(module: Exported, path: str) -> None:
    """Names TF Serving's interface of each signature; tf.saved_model.save says "predict" of all."""
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(path)
    for signature in module.signatures:
        if signature.method is not Method.PREDICT:
            updater.replace_method_name(signature.name, signature.method, tags="serve")
    updater.save()


def _write_extras(
    sources: Sequence[ModelSource],
    module: Exported,
    functions: Mapping[str, Any],
    path: str,
    dtype: str,
) -> dict[str, Any]:
    """Writes what is beside the SavedModel; returns the manifest."""
    labels = {
        source.task.name: list(source.task.labels)
        for source in sources
        if source.task and source.task.labels
    }
    json_files.write(f"{path}/{EXTRA}/labels.json", labels)
    vocabularies = [source.bundle.require_vocabulary() for source in sources]
    places: dict[str, str] = {}  # by checksum
    for vocabulary in vocabularies:
        if vocabulary.sha256 not in places:
            mark = f"-{len(places) + 1}" if places else ""
            name, *_ = vocabulary.save(f"{path}/{EXTRA}", mark)
            places[vocabulary.sha256] = f"{EXTRA}/{name}"
    names = [places[vocabulary.sha256] for vocabulary in vocabularies]
    return _manifest(sources, names, module, functions, dtype)


def _write_manifest(manifest: dict[str, Any], path: str) -> None:
    """Writes manifest, model card and checksums."""
    json_files.write(f"{path}/{MANIFEST}", manifest)
    files.write_text(f"{path}/README.md", model_card.render(manifest))
    checksums.write(path, _checked(path))


def _checked(path: str) -> list[str]:
    """What decides the answers of an export, relative to it."""
    # But the warm-up requests, for which users may have better ones.
    beside = [f"{EXTRA}/{name}" for name in files.names_in(f"{path}/{EXTRA}")]
    checked = [name for name in beside if name != f"{EXTRA}/{warmup.FILE}"]
    return ["saved_model.pb", "assets", "variables", PARTS, MANIFEST, *checked]


def sums(path: str) -> dict[str, str]:
    """The checksums of what decides the answers of an export, which may have them written down.

    Args:
      path: of the export.
    """
    written = files.gfile.exists(f"{path}/{checksums.CHECKSUMS}")
    return (written and checksums.read(path)) or checksums.of(path, _checked(path))


def _manifest(
    sources: Sequence[ModelSource],
    vocabularies: Sequence[str],
    module: Exported,
    functions: Mapping[str, Any],
    dtype: str,
) -> dict[str, Any]:
    assembly = module.assembly
    return {
        "format": 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "oldest_serving": OLDEST_SERVING,
        "precision": dtype,
        "parameters": sum(variable.shape.num_elements() for variable in module.weights),
        "encoders": len(assembly.encoders),
        "models": [
            _described(source, name, encoder)
            for source, name, encoder in zip(
                sources, vocabularies, assembly.encoder_of, strict=True
            )
        ],
        "signatures": {
            signature.name: _described_signature(signature, functions[signature.name], number)
            for number, model in enumerate(assembly.models)
            for signature in model.signatures
        },
        "versions": {name: metadata.version(name) for name in _PACKAGES},
    }


def _described_signature(signature: Signature, function: Any, model: int) -> dict[str, Any]:
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


def _described(source: ModelSource, vocabulary: str, encoder: int) -> dict[str, Any]:
    """A model in the manifest, with the file of its vocabulary and the number of its encoder."""
    task = source.task
    data = {task.name if task else "": source.data.get(source.head)}
    return {
        "name": os.path.basename(source.folder.rstrip("/")),
        "weights_sha256": source.bundle.sha256(),
        "config": source.bundle.config.to_dict(),
        "encoder": encoder,
        "vocabulary": vocabulary,
        "tokenizer": source.bundle.resolved_settings(),
        "mask_token": source.bundle.require_vocabulary().roles["mask"],
        "tasks": [task.describe()] if task else [],
        "scores": source.scores,
        "data": {name: told for name, told in data.items() if told},
    }


def read_manifest(path: str) -> Manifest:
    """The manifest of an export.

    Raises:
      InputError: the folder is no export, or its manifest is damaged.
    """
    if not files.gfile.exists(f"{path}/{MANIFEST}"):
        raise InputError(f"{path}: is no export (it has no {MANIFEST}); make one with make export.")
    found = json_files.read(f"{path}/{MANIFEST}", Manifest)
    for model in found["models"]:
        for task in model["tasks"]:
            own.check_task(task, f"{path}/{MANIFEST}")
    return found


def kept_precisions(path: str) -> dict[str, str]:
    """The precision, other than float32, in which an engine was checked, by the engine.

    Args:
      path: of a version.
    """
    return {each["engine"]: each["precision"] for each in read_manifest(path).get("reduced", ())}


def newest(path: str) -> str:
    """The export itself, or the newest version in a folder of versions.

    Raises:
      InputError: there is none.
    """
    path = path.rstrip("/")
    if files.gfile.exists(f"{path}/{MANIFEST}"):
        return path
    found = versions(path)
    if not found:
        raise InputError(f"{path}: has no exported version; make one with make export.")
    return f"{path}/{found[-1]}"
