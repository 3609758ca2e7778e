"""Files of outputs with damage: named in a line, or harmless.

A case copies a folder, changes bytes of one of its files, and reads the folder as its commands do.
Either that is refused in a line which names the file or its folder, or what comes out of it (the
weights, ids, batches, or answers) is what it was, bit by bit.
"""

import dataclasses
import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.soak import small
from benchmarks.soak.outcomes import Case, Outcome, Place
from bert_tf import weights
from bert_tf.export import saved_model
from bert_tf.pretraining import inputs
from bert_tf.pretraining.settings import Phase, PretrainingSettings
from bert_tf.serving.predictor import Predictor
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader

ROOM = "corruptions"
_BATCH = 16
_SPAN = 64  # bytes that are zeroed, at the most
_SIGNATURES = ("mood", "embed", "fill_mask")
_TEXTS = ["The small model reads every layer.", "a [MASK] kernel", "Zürich 中国"]


@dataclasses.dataclass(frozen=True)
class Target:
    """A folder that is damaged.

    Attributes:
      folder: of it, whole.
      read: reads a copy; gives a digest of all that comes out.
      unsealed: endings of files whose format has no checksums: damage within values is not told.
      weight: how often it is tried, beside the others.
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
    """The weights, the configuration, the tokenizer and the tasks of a model of any format."""
    found = weights.read(folder)
    return _digest(found.sha256(), repr(found.tasks), repr(found.resolved_settings()))


def _examples(folder: str) -> str:
    """Two epochs of batches, and the held-out ones, as a run of pre-training opens them."""
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
    except tf.errors.DataLossError:  # as `pretrain` tells it
        raise example_reader.find_damage(map(str, Path(folder).glob("*.tfrecord"))) from None


def _export(folder: str) -> str:
    """The answers of a task and of the pre-trained model, and what the manifest says of all."""
    predictor = Predictor(folder)
    answers = [predictor(signature, text=_TEXTS) for signature in _SIGNATURES]
    found = (outputs[name] for outputs in answers for name in sorted(outputs))
    return _digest(*found, repr(predictor.manifest))


def _hub(folder: str) -> str:
    """The encoder as other models take it, with its vocabulary and configuration."""
    return _model(f"{folder}/encoder")


def _targets(place: Path) -> dict[str, Target]:
    made = small.make(place)
    foreign = made.foreign
    safetensors = (".safetensors", ".json", ".txt")
    return {
        "examples": Target(made.examples, _opened_examples, weight=3),
        "model": Target(made.model("mood"), _model, weight=3),
        "tf1": Target(foreign[Format.TF1], _model, (".json", ".txt"), weight=2),
        "huggingface": Target(foreign[Format.HUGGINGFACE], _model, safetensors, weight=2),
        "export": Target(saved_model.newest(made.export), _export),
        "hub": Target(made.hub, _hub),
    }


def make(place: Place) -> Case:
    """Gives the cases; each folder is read whole before it is first damaged."""
    targets = _targets(place.folder)
    copy = place.folder / ROOM
    whole: dict[str, str] = {}

    def case(number: int) -> Outcome:
        rng = place.rng(ROOM, number)
        (name,) = rng.choices(list(targets), [target.weight for target in targets.values()])
        target = targets[name]
        if name not in whole:
            whole[name] = target.read(target.folder)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(target.folder, copy)
        path = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
        what = _damage(path, rng)
        what = f"{name}: {path.relative_to(copy)}: {what}"
        come, failure = _come(target, copy, path, whole[name])
        counts = {"corruptions": 1, come: 1, f"{name}, {come}": 1}
        return Outcome(counts, (f"{what}: {failure}",) if failure else ())

    return case


def _damage(path: Path, rng: random.Random) -> str:
    """Changes a file; says how."""
    content = bytearray(path.read_bytes())
    kind = rng.choice(("flipped", "cut", "zeroed", "emptied", "removed", "longer"))
    place = rng.randrange(len(content)) if content else 0
    if kind == "flipped" and content:
        content[place] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[place:]
    elif kind == "zeroed":
        size = min(rng.randint(1, _SPAN), len(content) - place)
        content[place : place + size] = bytes(size)
    elif kind == "emptied":
        content.clear()
    elif kind == "longer":
        content += rng.randbytes(rng.randint(1, _SPAN))
    path.write_bytes(content)
    if kind == "removed":
        path.unlink()
    return f"{kind} at {place}"


def _come(target: Target, copy: Path, path: Path, whole: str) -> tuple[str, str | None]:
    """What came of damage, and what is wrong with it."""
    try:
        same = target.read(str(copy)) == whole
    except InputError as error:
        text = str(error)
        named = str(copy) in text
        return "named", None if named else f"does not name the place: {text}"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    if same:
        return "harmless", None
    if path.name.endswith(target.unsealed):
        return "not told, in a format without checksums", None
    return "not told", "other values, and no word"
