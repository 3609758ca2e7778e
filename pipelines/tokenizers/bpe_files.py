"""Files of BPE vocabularies: ids of tokens, and merges in the order of their ranks."""

import json
from collections.abc import Sequence
from typing import Any

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import in_order, read_lines

Merge = tuple[str, str]

_VERSION = "#version: 0.2"
# Names of the files: Hugging Face's, then OpenAI's of GPT-2 and of GPT.
NAMES = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
)


def read(path: str) -> tuple[tuple[str, ...], tuple[Merge, ...], str]:
    """Reads a vocabulary.

    Args:
      path: the folder, or the first of the two files, whose name may have a prefix
        ("roberta-base-vocab.json" goes with "roberta-base-merges.txt").

    Returns:
      The tokens in the order of their ids, the merges, and the path of the first file.

    Raises:
      InputError: a file is missing or damaged.
    """
    vocabulary_path, merges_path = _find(path)
    ids = json_files.read(vocabulary_path, dict[str, Any])
    return in_order(ids, vocabulary_path), tuple(_read_merges(merges_path)), vocabulary_path


def contents(tokens: Sequence[str], merges: Sequence[Merge]) -> tuple[bytes, bytes]:
    """The contents of vocab.json and merges.txt."""
    ids = {token: index for index, token in enumerate(tokens)}
    lines = (_VERSION, *(f"{left} {right}" for left, right in merges))
    vocabulary = json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
    return vocabulary.encode(), "".join(f"{line}\n" for line in lines).encode()


def _find(path: str) -> tuple[str, str]:
    if files.gfile.isdir(path):
        folder = path.rstrip("/")
        for names in NAMES:
            if files.gfile.exists(f"{folder}/{names[0]}"):
                return f"{folder}/{names[0]}", f"{folder}/{names[1]}"
    for first, second in NAMES:
        if path.endswith(first):
            return path, path.removesuffix(first) + second
    pairs = " or ".join(f"{first} and {second}" for first, second in NAMES)
    raise InputError(f"{path}: no BPE vocabulary; it is a folder with {pairs}.")


def _read_merges(path: str) -> list[Merge]:
    merges = []
    for number, line in enumerate(read_lines(path), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise InputError(f"{path}: line {number} is not two parts with a space between.")
        merges.append((parts[0], parts[1]))
    return merges
