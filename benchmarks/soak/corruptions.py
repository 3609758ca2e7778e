"""Output files with damage: reported, harmless, or not noticed in formats without checksums.

A case copies a folder, changes bytes of one of its files, and reads the folder as its commands do.
Either an error names the file or its folder, or the result (weights, ids, batches or answers) is
unchanged, bit by bit; only a format without checksums may have other values. Each case is a process
of its own, as damage might crash TensorFlow.
"""

import dataclasses
import hashlib
import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.soak import small_inputs, steps
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from bert_tf import weights
from bert_tf.export import saved_model
from bert_tf.pretraining import inputs
from bert_tf.pretraining.settings import Phase, PretrainingSettings
from bert_tf.serving.predictor import Predictor
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader
from tests import commands

CATEGORY = "corruptions"
_TIMEOUT = 300.0  # seconds of a case
_BATCH = 16
_MAX_SPAN = 64  # bytes that are zeroed or added
_SIGNATURES = ("mood", "embed", "fill_mask")
_TEXTS = ["The small model reads every layer.", "a [MASK] kernel", "Zürich 中国"]


@dataclasses.dataclass(frozen=True)
class Target:
    """A folder that is damaged.

    Attributes:
      folder: the undamaged folder.
      read: reads a copy and returns a digest of all results.
      unsealed: suffixes of files whose format has no checksums, so that damage within values
        cannot be detected.
      weight: relative frequency among the targets.
    """

    folder: str
    read: Callable[[str], str]
    unsealed: tuple[str, ...] = ()
    weight: int = 1


def _digest(*parts: np.ndarray | bytes | str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype == object:
            part = repr(part.tolist())
        digest.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _model(folder: str) -> str:
    """Weights, configuration, tokenizer and tasks of a model in any format."""
    found = weights.read(folder)
    return _digest(found.sha256(), repr(found.tasks), repr(found.resolved_settings()))


def _examples(folder: str) -> str:
    """Two epochs of training batches, and the held-out ones, as a pre-training run reads them."""
    settings = PretrainingSettings((Phase(folder, 1, _BATCH),), model="debug")
    data = inputs.open_data(settings)
    (training,) = data.training
    count = -(-2 * training.total // _BATCH)
    batches = [*example_reader.training_batches(training, _BATCH, 1).take(count)]
    if data.held_out:
        batches += example_reader.evaluation_batches(data.held_out, _BATCH)
    parts = (value.numpy() for batch in batches for _, value in sorted(batch.items()))
    settings_of = {key: data.manifests[0].get(key) for key in ("settings", "tokenizer")}
    return _digest(*parts, data.tokenizer.vocabulary.sha256, repr(settings_of))


def _opened_examples(folder: str) -> str:
    try:
        return _examples(folder)
    except tf.errors.DataLossError:  # `pretrain` reports it like this
        raise example_reader.find_damage(map(str, Path(folder).glob("*.tfrecord"))) from None


def _export(folder: str) -> str:
    """Answers of a task and of the pre-trained model, and the manifest."""
    predictor = Predictor(folder)
    answers = [predictor(signature, text=_TEXTS) for signature in _SIGNATURES]
    found = (outputs[name] for outputs in answers for name in sorted(outputs))
    return _digest(*found, repr(predictor.manifest))


def _targets(folder: Path) -> dict[str, Target]:
    made = small_inputs.make(folder)
    safetensors = (".safetensors", ".json", ".txt")
    return {
        "examples": Target(made.examples, _opened_examples, weight=3),
        "model": Target(made.models["mood"], _model, weight=3),
        "tf1": Target(made.foreign[Format.TF1], _model, (".json", ".txt"), weight=2),
        "huggingface": Target(made.foreign[Format.HUGGINGFACE], _model, safetensors, weight=2),
        "export": Target(saved_model.newest(made.export), _export),
        "hub": Target(made.hub, lambda folder: _model(f"{folder}/encoder")),
    }


def make(workspace: Workspace) -> Case:
    """Returns the cases; each reads its folder undamaged first."""
    small_inputs.make(workspace.folder)

    def case(number: int) -> Outcome:
        arguments = (workspace.folder, workspace.seed, number)
        done = commands.Running(__name__, *arguments).wait(_TIMEOUT)
        if done.returncode:
            what = f"the process ended with status {done.returncode}"
            return Outcome({}, (f"{what}: {steps.last_line(done.stderr)}",))
        counts, failures = json.loads(done.stdout.splitlines()[-1])
        return Outcome(counts, tuple(failures))

    return case


def _case(workspace: Workspace, number: int) -> Outcome:
    rng = workspace.rng(CATEGORY, number)
    targets = _targets(workspace.folder)
    (name,) = rng.choices(list(targets), [target.weight for target in targets.values()])
    target = targets[name]
    expected = target.read(target.folder)
    copy = workspace.folder / CATEGORY / str(number)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(target.folder, copy)
    path = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
    what = f"{name}: {path.relative_to(copy)}: {_damage(path, rng)}"
    result, failure = _read_damaged(target, copy, path, expected)
    if not failure:
        shutil.rmtree(copy)
    counts = {"corruptions": 1, result: 1, f"{name}, {result}": 1}
    return Outcome(counts, (f"{what}: {failure}",) if failure else ())


def _damage(path: Path, rng: random.Random) -> str:
    """Changes a file; returns a description."""
    content = bytearray(path.read_bytes())
    kind = rng.choice(("flipped", "cut", "zeroed", "emptied", "removed", "longer"))
    start = rng.randrange(len(content)) if content else 0
    if kind == "flipped" and content:
        content[start] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[start:]
    elif kind == "zeroed":
        size = min(rng.randint(1, _MAX_SPAN), len(content) - start)
        content[start : start + size] = bytes(size)
    elif kind == "emptied":
        content.clear()
    elif kind == "longer":
        content += rng.randbytes(rng.randint(1, _MAX_SPAN))
    path.write_bytes(content)
    if kind == "removed":
        path.unlink()
    return f"{kind} at {start}"


def _read_damaged(target: Target, copy: Path, path: Path, expected: str) -> tuple[str, str | None]:
    """The result of reading a damaged copy, and what is wrong with it."""
    try:
        same = target.read(str(copy)) == expected
    except InputError as error:
        text = str(error)
        return "reported", None if str(copy) in text else f"does not name the place: {text}"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    if same:
        return "harmless", None
    if path.name.endswith(target.unsealed):
        return "not detected, in a format without checksums", None
    return "not detected", "other values without an error"


if __name__ == "__main__":
    _, folder, seed, number = sys.argv
    outcome = _case(Workspace(Path(folder), int(seed)), int(number))
    print(json.dumps(dataclasses.astuple(outcome)))
