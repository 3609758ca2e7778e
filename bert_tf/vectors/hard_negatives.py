"""Choices for training a reranker: which of several similar texts belongs to a text?"""

import collections
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging
from tqdm import tqdm

from bert_tf.vectors import model as models
from bert_tf.vectors import run
from bert_tf.vectors.block_writer import CHOICES, NO_COUNTS, BlockWriter
from bert_tf.vectors.neighbours import search
from bert_tf.vectors.settings import EmbeddingSettings
from bert_tf.vectors.storage import GrowingFiles
from bert_tf.vectors.vector_file import VectorFile
from pipelines.common import files, locks, manifest
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from pipelines.labelled.text_files import TextFile


class _Pairs:
    """Texts that belong together.

    Attributes:
      answers: the second texts of each first one, in the order of the file.
      second: all second texts.
      sha256: of all pairs.
      together: the texts that are no negatives of a text: itself, and its pairs in both directions.

    Raises:
      InputError: there are single or empty texts, or there can be no negatives.
    """

    def __init__(self, examples: Sequence[TextExample]):
        self.answers: dict[str, list[str]] = collections.defaultdict(list)
        self.together: dict[str, set[str]] = collections.defaultdict(set)
        for first, text in dict.fromkeys(map(_texts, examples)):
            self.answers[first].append(text)
            self.together[first].update((first, text))
            self.together[text].add(first)
        self.sha256 = hashlib.sha256(json.dumps(self.answers).encode()).hexdigest()
        self.second = list(dict.fromkeys(text for own in self.answers.values() for text in own))
        if not any(map(self.has_others, self.answers)):
            raise InputError("every text_b belongs to every text_a: there are no others to find.")

    def has_others(self, first: str) -> bool:
        """Whether there are second texts that do not belong to a first one."""
        return not self.together[first].issuperset(self.second)

    def rows(self, first: str, nearest: Sequence[int], count: int, number: int) -> Iterator[Any]:
        """Yields a row of the task `choice` for each answer of a first text.

        Args:
          first: the first text.
          nearest: numbers of second texts, the nearest first.
          count: maximum number of others.
          number: number of answers before those of this text; it decides the place of the right
            one, so that no place is right more often than others.
        """
        texts = (self.second[row] for row in nearest)
        far = (text for text in texts if text not in self.together[first])
        others = list(itertools.islice(far, count))
        for offset, own in enumerate(self.answers[first] if others else ()):
            place = (number + offset) % (len(others) + 1)
            yield {
                "context": first,
                "choices": [*others[:place], own, *others[place:]],
                "label": place,
            }


def _texts(pair: TextExample) -> tuple[str, str]:
    """The texts of a pair; raises InputError if there is one only, or an empty one."""
    if pair.text_b is None:
        raise InputError(f"{pair.place}: is a single text; give pairs that belong together.")
    if not pair.text_a or not pair.text_b:
        raise InputError(f"{pair.place}: a text is empty; fill it, or leave the row out.")
    return pair.text_a, pair.text_b


def check_absent(output: str) -> None:
    """Raises InputError if the output exists."""
    if files.gfile.exists(output):
        raise InputError(f"{output}: exists; name another file, or remove it.")


def mine(model: str, examples: Sequence[TextExample], output: str, count: int) -> int:
    """Writes rows of the task `choice`: a first text, its second one among others, and its place.

    The others are those that are nearest to the first text and do not belong to it. What is done is
    kept in a folder beside the output until it is complete, and resumed.

    Args:
      model: path of the model that makes the vectors.
      examples: pairs of texts that belong together, such as questions and answers.
      output: the file to write: .jsonl.
      count: maximum number of others.

    Returns:
      The number of rows.

    Raises:
      InputError: the output exists, or another process writes it; there are single or empty texts,
        or no others; or a run with another model, other pairs or another count was begun.
    """
    check_absent(output)
    pairs, source = _Pairs(examples), models.read(model)
    folder = files.partial_of(output)
    with locks.held(folder):
        identity = {
            "model": models.checksums(source),
            "count": count,
            "pairs": {"sha256": pairs.sha256},
        }
        other = manifest.begin(os.path.join(folder, "begun.json"), identity)
        if other:
            raise InputError(
                f"{folder}: was begun with other {other}. Name another --output, or remove this "
                "folder."
            )
        texts = TextFile(os.path.join(folder, "texts.jsonl"), {"text": "text"})
        lines = (json.dumps({"text": text}) for text in (*pairs.second, *pairs.answers))
        files.write_text(texts.path, "".join(f"{line}\n" for line in lines))
        vectors = os.path.join(folder, "vectors.npy")
        run.embed_file(source, texts, vectors, EmbeddingSettings())
        choices = os.path.join(folder, "choices.jsonl")
        storage = GrowingFiles(output, [choices], [b""])
        described = {
            "format": "jsonl",
            "rows": len(pairs.answers),
            "input_sha256": pairs.sha256,
            "settings": {},
            **identity,
        }
        with BlockWriter(CHOICES, storage, f"{choices}.json", described) as writer:
            if not writer.finished:
                _search(VectorFile(vectors), pairs, count, writer)
                writer.finish()
        files.gfile.rename(choices, output)
        files.remove_tree(folder)
    return sum(len(own) for text, own in pairs.answers.items() if pairs.has_others(text))


def _search(vectors: VectorFile, pairs: _Pairs, count: int, writer: BlockWriter) -> None:
    """Writes the rows of the first texts that are not done."""
    candidates, first = len(pairs.second), list(pairs.answers)
    number = sum(len(pairs.answers[text]) for text in first[: writer.done])
    most = max(len(pairs.together[text]) for text in first)
    if writer.done:
        logging.info("resuming after %d of %d first texts.", writer.done, writer.rows)
    with tqdm(total=writer.rows, initial=writer.done, unit="text", desc=CHOICES.command) as bar:
        for asked in _part(vectors, candidates + writer.done, vectors.rows):
            found, _ = search(_part(vectors, 0, candidates), asked, count + most)
            lines: list[str] = []
            for text, nearest in zip(first[writer.done :], found.tolist(), strict=False):
                lines += map(json.dumps, pairs.rows(text, nearest, count, number))
                number += len(pairs.answers[text])
            data = "".join(f"{line}\n" for line in lines).encode()
            writer.write([data], len(asked), NO_COUNTS)
            bar.update(len(asked))


def _part(vectors: VectorFile, start: int, end: int) -> Iterator[np.ndarray]:
    """Yields the vectors of some rows of a file, float32 [rows, width] at a time."""
    first = 0
    for block in vectors.blocks():
        if first >= end:
            return
        part = block[max(start - first, 0) : max(end - first, 0)]
        first += len(block)
        if len(part):
            yield part
