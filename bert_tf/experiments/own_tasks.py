"""Tasks made of the corpus itself, for users who have no labelled data.

They need no knowledge of the language: whether two words of a sentence were swapped (Conneau
et al. 2018, "bigram shift"), whether two sentences are in their order (Lan et al. 2020), and which
mark of punctuation followed each word. What they are made of is kept out of pre-training.
"""

import functools
import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_tf.experiments.finetuning_jobs import TaskSource
from bert_tf.experiments.pretraining_jobs import Corpus
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.corpus import reader

_BLOCK = 50  # sentences in a row that go the same way
_SHARE = 0.12  # of the sentences, those that become tasks
_WORDS = (4, 40)  # of a sentence of a task
_MOST = {"train": 4000, "dev": 1000}
_FEWEST = 40  # sentences of tasks
_MARKS = 5  # kinds of punctuation that are told apart
_SEED = 0

Sentences = list[list[str]]  # blocks of sentences that follow each other


def make(corpus: Corpus, folder: str) -> tuple[Corpus, tuple[TaskSource, ...]]:
    """Writes the tasks, and the rest of the corpus.

    Args:
      corpus: to make them of.
      folder: for the files; those that are there are written anew, with the same bytes.

    Returns:
      The rest of the corpus, and the tasks.

    Raises:
      InputError: the corpus is too small.
    """
    blocks: Sentences = []
    rest = f"{folder}/corpus.txt"
    with files.write_aside(rest) as partial, files.gfile.GFile(partial, "w") as file:
        seen = taken = 0
        for block in _blocks(corpus):
            seen += len(block)
            if taken + len(block) <= _SHARE * seen:
                blocks.append(block)
                taken += len(block)
            else:
                file.write("\n".join(block) + "\n\n")
    if sum(map(len, blocks)) < _FEWEST:
        raise InputError(
            f"{corpus.files}: is too small to make tasks of; name some with TASKS= (--tasks), or "
            "take more text."
        )
    dev = max(1, len(blocks) // 5)  # of blocks of its own
    train = blocks[dev:] or blocks
    makers: dict[str, tuple[str, Callable[[Sentences, int], str]]] = {
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
            files.write_text(path, maker(parts[split], _MOST[split]))
        found.append(TaskSource(name, kind, files=tuple(paths.items())))
    return Corpus(rest, "sentences"), tuple(found)


def _blocks(corpus: Corpus) -> Iterator[list[str]]:
    """The sentences of each document, a few in a row, their words parted by one space."""
    for file_range in reader.plan_ranges(reader.open_corpus(corpus.files, corpus.format), 1 << 26):
        for section in reader.read_sections(file_range, reader.ReadOptions()):
            for start in range(0, len(section.sentences), _BLOCK):
                yield [
                    " ".join(sentence.split())
                    for sentence in section.sentences[start : start + _BLOCK]
                ]


def _words(sentence: str) -> tuple[list[str], str]:
    """The words of a sentence and what stands between them; of one without blanks, characters."""
    words = sentence.split()
    return (words, " ") if len(words) >= _WORDS[0] else (list(sentence.replace(" ", "")), "")


def _fitting(blocks: Sentences) -> Iterator[str]:
    for sentence in itertools.chain.from_iterable(blocks):
        if _WORDS[0] <= len(_words(sentence)[0]) <= _WORDS[1]:
            yield sentence


def _swapped_words(blocks: Sentences, most: int) -> str:
    """Sentences, in half of which two neighbours were swapped."""
    rng = np.random.default_rng(_SEED)
    lines = ["text\tlabel"]
    for sentence in itertools.islice(_fitting(blocks), most):
        words, between = _words(sentence)
        places = [at for at in range(len(words) - 1) if words[at] != words[at + 1]]
        swapped = bool(rng.integers(2)) and bool(places)
        if swapped:
            at = places[rng.integers(len(places))]
            words[at], words[at + 1] = words[at + 1], words[at]
        lines.append(f"{between.join(words)}\t{'swapped' if swapped else 'natural'}")
    return "\n".join(lines) + "\n"


def _sentence_order(blocks: Sentences, most: int) -> str:
    """Pairs of sentences that follow each other, half of them the other way round."""
    rng = np.random.default_rng(_SEED)
    lines = ["text_a\ttext_b\tlabel"]
    pairs = (pair for block in blocks for pair in itertools.pairwise(block))
    for first, second in itertools.islice(pairs, most):
        turned = bool(rng.integers(2))
        texts = (second, first) if turned else (first, second)
        lines.append("\t".join([*texts, "turned" if turned else "in order"]))
    return "\n".join(lines) + "\n"


def _frequent_marks(blocks: Sentences) -> frozenset[str]:
    """The most frequent marks behind words."""
    sentences = map(_marked, _fitting(blocks))
    counts = Counter(mark for words in sentences for _, mark in words if mark)
    return frozenset(mark for mark, _ in counts.most_common(_MARKS))


def _punctuation(known: frozenset[str], blocks: Sentences, most: int) -> str:
    """Words without punctuation; the tag of each is the mark that followed it, if it is known."""
    sentences = [_marked(sentence) for sentence in itertools.islice(_fitting(blocks), most)]
    lines = []
    for words in sentences:
        lines += [f"{word}\t{f'S-{mark}' if mark in known else 'O'}" for word, mark in words]
        lines.append("")
    return "\n".join(lines)


def _marked(sentence: str) -> list[tuple[str, str]]:
    """Words, and the mark behind each, or nothing."""
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


def described(tasks: Sequence[TaskSource]) -> str:
    """What the tasks are, for the report."""
    return (
        f"made of the corpus itself ({', '.join(task.name for task in tasks)}), of text that no "
        "model was pre-trained on"
    )
