"""Tasks made from the corpus, for users who have no labelled data.

They need no knowledge of the language: whether two words of a sentence were swapped (Conneau
et al. 2018, "bigram shift"), whether two sentences are in order (Lan et al. 2020), and which
punctuation mark followed each word. Their text is kept out of pre-training.
"""

import functools
import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from bert_tf.experiments.plan import ExperimentTask
from bert_tf.finetuning.settings import TaskRequest
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.corpus import reader

_BLOCK = 50  # consecutive sentences that stay together
_FRACTION = 0.12  # of the sentences, those that become tasks
_MIN_WORDS, _MAX_WORDS = 4, 40  # of a sentence of a task
_MAX_EXAMPLES = {"train": 4000, "dev": 1000}
_MIN_SENTENCES, _MAX_SENTENCES = 40, 50_000  # of all tasks
_MARKS = 5  # kinds of punctuation with a label of their own
_SEED = 0

Blocks = list[list[str]]  # consecutive sentences


def make(corpus: str, corpus_format: str, folder: str) -> tuple[str, tuple[ExperimentTask, ...]]:
    """Writes the tasks, and the rest of the corpus as a file of sentences.

    Args:
      corpus: files or globs.
      corpus_format: their format.
      folder: where files are written, always with the same bytes.

    Returns:
      The path of the rest of the corpus, and the tasks.

    Raises:
      InputError: the corpus is too small.
    """
    blocks: Blocks = []
    rest = f"{folder}/corpus.txt"
    with files.write_aside(rest) as partial, files.gfile.GFile(partial, "w") as file:
        seen = taken = 0
        for block in _read_blocks(corpus, corpus_format):
            seen += len(block)
            if taken + len(block) <= min(_FRACTION * seen, _MAX_SENTENCES):
                blocks.append(block)
                taken += len(block)
            else:
                file.write("\n".join(block) + "\n\n")
    if len(blocks) < 2 or sum(map(len, blocks)) < _MIN_SENTENCES:
        raise InputError(
            f"{corpus}: is too small to make tasks of; name some with TASKS= (--tasks), or "
            "take more text."
        )
    dev = max(1, len(blocks) // 5)
    train = blocks[dev:]
    makers: dict[str, tuple[str, Callable[[Blocks, int], str]]] = {
        "swapped_words": ("classification", _swapped_words),
        "sentence_order": ("pair", _sentence_order),
        "punctuation": ("tagging", functools.partial(_punctuation, _frequent_marks(train))),
    }
    parts = {"train": train, "dev": blocks[:dev]}
    found = []
    for name, (kind, maker) in makers.items():
        ending = "conll" if kind == "tagging" else "tsv"
        paths = {split: f"{folder}/{name}/{split}.{ending}" for split in parts}
        for split, path in paths.items():
            files.write_text(path, maker(parts[split], _MAX_EXAMPLES[split]))
        found.append(ExperimentTask(TaskRequest(kind, name, files=tuple(paths.items()))))
    return rest, tuple(found)


def _read_blocks(corpus: str, corpus_format: str) -> Iterator[list[str]]:
    """Yields consecutive sentences of a document, their words separated by single spaces."""
    for file_range in reader.plan_ranges(reader.open_corpus(corpus, corpus_format), 1 << 26):
        for section in reader.read_sections(file_range, reader.ReadOptions()):
            for start in range(0, len(section.sentences), _BLOCK):
                block = section.sentences[start : start + _BLOCK]
                yield [" ".join(sentence.split()) for sentence in block]


def _words(sentence: str) -> tuple[list[str], str]:
    """The words of a sentence and their separator; the characters of a script without spaces.

    A short sentence with upper or lower case is in a script that has spaces.
    """
    words = sentence.split()
    if len(words) >= _MIN_WORDS or sentence.lower() != sentence.upper():
        return words, " "
    return list(sentence.replace(" ", "")), ""


def _fitting(blocks: Blocks) -> Iterator[str]:
    for sentence in itertools.chain.from_iterable(blocks):
        if _MIN_WORDS <= len(_words(sentence)[0]) <= _MAX_WORDS:
            yield sentence


def _swapped_words(blocks: Blocks, limit: int) -> str:
    """Sentences; in half of them two neighbouring words are swapped."""
    rng = np.random.default_rng(_SEED)
    lines = ["text\tlabel"]
    for sentence in itertools.islice(_fitting(blocks), limit):
        words, separator = _words(sentence)
        places = [at for at in range(len(words) - 1) if words[at] != words[at + 1]]
        swapped = bool(rng.integers(2)) and bool(places)
        if swapped:
            at = places[rng.integers(len(places))]
            words[at], words[at + 1] = words[at + 1], words[at]
        lines.append(f"{separator.join(words)}\t{'swapped' if swapped else 'natural'}")
    return "\n".join(lines) + "\n"


def _sentence_order(blocks: Blocks, limit: int) -> str:
    """Pairs of consecutive sentences, half of them in reverse order."""
    rng = np.random.default_rng(_SEED)
    lines = ["text_a\ttext_b\tlabel"]
    pairs = (pair for block in blocks for pair in itertools.pairwise(block))
    for first, second in itertools.islice(pairs, limit):
        turned = bool(rng.integers(2))
        texts = (second, first) if turned else (first, second)
        lines.append("\t".join([*texts, "turned" if turned else "in order"]))
    return "\n".join(lines) + "\n"


def _frequent_marks(blocks: Blocks) -> frozenset[str]:
    """The most frequent punctuation marks after words."""
    sentences = map(_marked, _fitting(blocks))
    counts = Counter(mark for words in sentences for _, mark in words if mark)
    return frozenset(mark for mark, _ in counts.most_common(_MARKS))


def _punctuation(known: frozenset[str], blocks: Blocks, limit: int) -> str:
    """Words without punctuation; the tag of each is the mark that followed it, if known."""
    lines = []
    for sentence in itertools.islice(_fitting(blocks), limit):
        for word, mark in _marked(sentence):
            lines.append(f"{word}\t{f'S-{mark}' if mark in known else 'O'}")
        lines.append("")
    return "\n".join(lines)


def _marked(sentence: str) -> list[tuple[str, str]]:
    """The words of a sentence, each with the mark after it, or ""."""
    found: list[tuple[str, str]] = []
    for word in _words(sentence)[0]:
        bare = word
        while bare and unicodedata.category(bare[-1])[0] == "P":
            bare = bare[:-1]
        mark = word[len(bare) : len(bare) + 1]
        if bare:
            found.append((bare, mark))
        elif found and not found[-1][1]:
            found[-1] = (found[-1][0], mark)
    return found
