"""Choices for training a reranker: which of several similar texts belongs to a text?"""

import collections
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tqdm import tqdm

from bert_tf.tasks import reports
from bert_tf.vectors import model as models
from bert_tf.vectors import run
from bert_tf.vectors.blocks import LINES, BlockOutput, pieces
from bert_tf.vectors.neighbours import search
from bert_tf.vectors.settings import EmbeddingSettings
from bert_tf.vectors.vector_file import VectorFile
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from pipelines.labelled.text_files import TextFile

COMMAND = "mine-negatives"


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
        before = itertools.accumulate(map(len, self.answers.values()), initial=0)
        self._before = dict(zip(self.answers, before, strict=False))
        if not any(map(self.has_others, self.answers)):
            raise InputError(
                f"{reports.file_of(examples[0].place)}: every text_b belongs to every text_a; "
                "there are no others to find."
            )

    def has_others(self, first: str) -> bool:
        """Whether there are second texts that do not belong to a first one."""
        return not self.together[first].issuperset(self.second)

    def rows(self, first: str, nearest: Sequence[int], count: int) -> Iterator[Any]:
        """Yields a row of the task `choice` for each answer of a first text.

        The right one is at each place in turn, so that no place is right more often than others.

        Args:
          first: the first text.
          nearest: numbers of second texts, the nearest first.
          count: maximum number of others.
        """
        texts = (self.second[row] for row in nearest)
        far = (text for text in texts if text not in self.together[first])
        others = list(itertools.islice(far, count))
        answers = self.answers[first] if others else []
        for number, own in enumerate(answers, self._before[first]):
            place = number % (len(others) + 1)
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


def mine(model: str, examples: Sequence[TextExample], output: str, count: int) -> int:
    """Writes rows of the task `choice`: a first text, its second one among others, and its place.

    The others are those that are nearest to the first text and do not belong to it. What is done is
    kept in a folder next to the output until it is complete, and resumed.

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
    pairs, source = _Pairs(examples), models.read(model)
    place = BlockOutput(output, COMMAND)
    identity = {
        "model": models.checksums(source),
        "settings": models.complete(source, EmbeddingSettings()).describe(),
        "count": count,
        "pairs": {"sha256": pairs.sha256},
    }
    with place.begun(identity):
        texts = TextFile(os.path.join(place.folder, "texts.jsonl"), {"text": "text"})
        lines = (json.dumps({"text": text}) for text in (*pairs.second, *pairs.answers))
        files.write_text(texts.path, "".join(f"{line}\n" for line in lines))
        vectors = os.path.join(place.folder, "vectors.npy")
        run.write(source, texts, vectors, EmbeddingSettings())
        blocks = _search(VectorFile(vectors), pairs, count, place)
        paths = (place.block(number, LINES) for number in range(blocks))
        place.publish(LINES, itertools.chain.from_iterable(map(pieces, paths)))
        place.clear()
    return sum(len(own) for text, own in pairs.answers.items() if pairs.has_others(text))


def _search(vectors: VectorFile, pairs: _Pairs, count: int, place: BlockOutput) -> int:
    """Writes the choices of each block of first texts, if missing; returns the number of blocks."""
    candidates, first = len(pairs.second), iter(pairs.answers)
    most = max(len(pairs.together[text]) for text in pairs.answers)
    number = 0
    with tqdm(total=len(pairs.answers), unit="text", desc=place.command) as bar:
        for number, asked in enumerate(vectors.blocks(candidates), 1):
            texts = list(itertools.islice(first, len(asked)))
            if not place.has(number - 1, [LINES]):
                nearest, _ = search(
                    vectors.blocks(0, candidates), asked, count + most, vectors.settings.similarity
                )
                found = zip(texts, nearest.tolist(), strict=True)
                rows = (row for text, near in found for row in pairs.rows(text, near, count))
                place.write(number - 1, rows)
            bar.update(len(asked))
    return number
