"""Folders of outputs: what is in them but times, and whether it is whole."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2

from bert_tf.training import checkpoints

# Values that are measured, in reports, histories and results.
_MEASURED = ("seconds", "sequences_per_second", "peak_share", "input_wait_share")
# Pictures and texts of measured values, or of what was said meanwhile.
_TOLD = ("curves.png", "jobs.txt", "log.txt", "report.md")
# Of a SavedModel: into one TensorFlow puts a number that it draws, and the functions of the other
# are numbered with all that were traced in a process before. Their checksums are left out, too.
_FINGERPRINT, _GRAPH = "fingerprint.pb", "saved_model.pb"
_NUMBER = re.compile(r"(?<![^_-])\d+(?=$|___)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What has such numbers beside the names of functions: gradients of calls, and variables without a
# name, at each call.
_NUMBERED = ("_gradient_op_type", "_user_specified_name")
_GROWING = ("history.jsonl", "milestones.jsonl", "log.txt")  # line by line, by design
_PNG_END = b"IEND\xaeB`\x82"


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file below a folder, by its relative path.

    Measured values are left out, and so is where the folder is.
    """
    return {
        str(path.relative_to(folder)): _digest(path, folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _digest(path: Path, folder: Path) -> str:
    if path.name in _TOLD:
        return "of measured values"
    content = path.read_bytes()
    if path.name == _FINGERPRINT:
        found = fingerprint_pb2.FingerprintDef.FromString(content)
        for field in ("uuid", "saved_model_checksum"):
            found.ClearField(field)
        content = found.SerializeToString(deterministic=True)
    elif path.name == _GRAPH:
        content = _numbered_anew(content)
    elif path.suffix == ".json":
        content = _text(json.loads(content)).replace(str(folder).encode(), b"")
    elif path.suffix == ".jsonl":
        content = b"\n".join(filter(None, map(_line, content.splitlines())))
    return hashlib.sha256(content).hexdigest()


def _numbered_anew(content: bytes) -> bytes:
    """A SavedModel whose functions are numbered from 0 on, in the order of their numbers."""
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
    """A line of a file that grows; nothing of one that a killed run was writing."""
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


def difference(found: dict[str, str], wanted: dict[str, str]) -> str | None:
    """The first file that two folders differ in; None where they are equal."""
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in wanted:
            return f"{name} is left over"
        if found[name] != wanted[name]:
            return f"{name} differs"
    return None


def half_written(folder: Path, wanted: dict[str, str]) -> str | None:
    """The first file under a final name that is not whole; None where there is none.

    Args:
      folder: after a kill.
      wanted: the contents of the folder that a run leaves which was never stopped. What has no
        place there, or another content until the end, must be whole by what it is.
    """
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        is_lock = path.suffix == ".lock"  # which a run that goes on takes, and removes
        if not path.is_file() or ".partial" in name or path.name in _GROWING or is_lock:
            continue
        try:
            same = path.name not in _TOLD and wanted.get(name) == _digest(path, folder)
            whole = same or _is_whole(path)
        except ValueError:  # half of a JSON text
            whole = False
        except FileNotFoundError:  # a process that has lost its parent still tidies up
            continue
        if not whole:
            return name
    return None


def _is_whole(path: Path) -> bool:
    """Whether a file is whole that a run which goes on would still change or remove."""
    if checkpoints.is_checkpoint(str(path.parent)):
        # Of those that are removed, or have not got all, the checksums go or come by themselves.
        return path.name != "checksums.json" or not checkpoints.find_damage(str(path.parent))
    if path.suffix == ".png":
        return path.read_bytes().endswith(_PNG_END)
    if path.name in _TOLD:
        return path.read_bytes().endswith(b"\n")
    # JSON was parsed by now; what is unfinished has no final name of the user's.
    return path.suffix == ".json" or ".unfinished" in path.parts
