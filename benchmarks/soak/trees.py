"""Output folders: comparison apart from measured values, and search for partial files."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2

from bert_tf.training import checkpoints

# Measured values in reports, histories and results.
_MEASURED = ("seconds", "sequences_per_second", "peak_fraction", "input_wait_fraction")
# Pictures and texts of measured values, and logs.
_UNCOMPARED = ("curves.png", "log.txt", "report.md")
# Files of a SavedModel: one has a random number, and the functions of the other are numbered with
# all functions that the process traced before. Checksums of these files are not compared either.
_FINGERPRINT, _GRAPH = "fingerprint.pb", "saved_model.pb"
_NUMBER = re.compile(r"(?<![^_-])\d+(?=$|___)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Attributes with such numbers: gradients of calls, and unnamed variables.
_NUMBERED = ("_gradient_op_type", "_user_specified_name")
_GROWING = ("history.jsonl", "milestones.jsonl", "log.txt")  # written line by line
_EVENTS = "events.out.tfevents."  # logs of TensorBoard, named by time; history.jsonl has the same
_PNG_END = b"IEND\xaeB`\x82"


def contents(folder: Path) -> dict[str, str]:
    """Digests of the files below a folder by relative path, without measured values."""
    return {
        str(path.relative_to(folder)): _digest(path, folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(_EVENTS)
    }


def _digest(path: Path, folder: Path) -> str:
    if path.name in _UNCOMPARED:
        return "not compared"
    content = path.read_bytes()
    if path.name == _FINGERPRINT:
        found = fingerprint_pb2.FingerprintDef.FromString(content)
        for field in ("uuid", "saved_model_checksum"):
            found.ClearField(field)
        content = found.SerializeToString(deterministic=True)
    elif path.name == _GRAPH:
        content = _renumbered(content)
    elif path.suffix == ".json":
        content = _text(json.loads(content)).replace(str(folder).encode(), b"")
    elif path.suffix == ".jsonl":
        content = b"\n".join(filter(None, map(_line, content.splitlines())))
    return hashlib.sha256(content).hexdigest()


def _renumbered(content: bytes) -> bytes:
    """A SavedModel with its functions renumbered from 0 in the same order."""
    model = saved_model_pb2.SavedModel.FromString(content)
    functions = [each for graph in model.meta_graphs for each in graph.graph_def.library.function]
    names = [each.signature.name for each in functions]
    for function in functions:
        attributes = [node.attr for node in function.node_def]
        attributes += [of_argument.attr for of_argument in function.arg_attr.values()]
        names += [each[key].s.decode() for each in attributes for key in _NUMBERED if key in each]
    numbers = {int(found) for name in names for found in _NUMBER.findall(name)}
    ranks = {number: rank for rank, number in enumerate(sorted(numbers))}

    def ranked(number: re.Match[str]) -> str:
        return str(ranks.get(int(number[0]), number[0]))

    text = _QUOTED.sub(
        lambda quoted: f'"{_NUMBER.sub(ranked, quoted[1])}"', text_format.MessageToString(model)
    )
    model = text_format.Parse(text, saved_model_pb2.SavedModel())
    for graph in model.meta_graphs:
        graph.graph_def.library.function.sort(key=lambda each: each.signature.name)
    return model.SerializeToString(deterministic=True)


def _line(line: bytes) -> bytes:
    """A line of a growing file; empty if a killed run wrote it partially."""
    try:
        return _text(json.loads(line))
    except ValueError:
        return b""


def _text(value: Any) -> bytes:
    return json.dumps(_without_measured(value), sort_keys=True).encode()


def _without_measured(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_measured(item) for item in value]
    if isinstance(value, dict):
        return {
            key: _without_measured(item)
            for key, item in value.items()
            if key not in _MEASURED and not key.endswith((_FINGERPRINT, _GRAPH))
        }
    return value


def difference(found: dict[str, str], expected: dict[str, str]) -> str | None:
    """The first difference between the contents of two folders; None if they are equal."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is left over"
        if found[name] != expected[name]:
            return f"{name} differs"
    return None


def partially_written(folder: Path, expected: dict[str, str]) -> str | None:
    """The first partially written file that has its final name; None if all are complete.

    Args:
      folder: the folder after a kill.
      expected: contents of the folder after an uninterrupted run. Other files must be complete by
        their own format.
    """
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        grows = path.name in _GROWING or path.name.startswith(_EVENTS)
        if not path.is_file() or ".partial" in name or grows:
            continue
        try:
            same = path.name not in _UNCOMPARED and expected.get(name) == _digest(path, folder)
            complete = same or _is_complete(path)
        except ValueError:  # partial JSON
            complete = False
        except FileNotFoundError:  # an orphaned process may still remove its files
            continue
        if not complete:
            return name
    return None


def _is_complete(path: Path) -> bool:
    """Whether a file that a resumed run would change or remove is complete."""
    if checkpoints.is_checkpoint(str(path.parent)):
        # While a checkpoint is written or removed, its checksums may be missing.
        return path.name != "checksums.json" or not checkpoints.find_damage(str(path.parent))
    if path.suffix == ".png":
        return path.read_bytes().endswith(_PNG_END)
    if path.name in _UNCOMPARED:
        return path.read_bytes().endswith(b"\n")
    # JSON was parsed above; files in .unfinished do not have their final name yet.
    return path.suffix == ".json" or ".unfinished" in path.parts
