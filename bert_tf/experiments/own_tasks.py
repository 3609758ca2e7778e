"""Tasks made from the corpus, for users who have no labelled data.

They need no knowledge of the language: whether two words of a sentence were swapped (Conneau
et al. 2018, "bigram shift"), whether two sentences are in order (Lan et al. 2020), and which
punctuation mark followed each word. Their text is kept out of pre-training.
"""

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterator

import numpy as np

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.corpus import reader

_KINDS = {"swapped_words": "classification", "sentence_order": "pair", "punctuation": "tagging"}
_BLOCK = 50  # consecutive sentences that stay together
_FRACTION = 0.12  # of the sentences, those that become tasks
_MIN_WORDS, _MAX_WORDS = 4, 40  # of a sentence of a task
_MAX_EXAMPLES = {"train": 4000, "dev": 1000}
_MIN_SENTENCES, _MAX_SENTENCES = 40, 50_000  # of all tasks
_MARKS = 5  # kinds of punctuation with a label of their own
Blocks = list[list[str]]  # consecutive sentences


def make(corpus: str, folder: str, keep: bool = False) -> tuple[str, list[str]]:
    """Writes the tasks and the rest of the corpus to a folder.

    Args:
      corpus: files or globs.
      folder: for the tasks and the rest.
      keep: whether those that are there are kept.

    Returns:
      The path of the rest, a file of sentences, and the tasks as NAME:KIND=FOLDER.

    Raises:
      InputError: the corpus is too small.
    """
    rest = f"{folder}/corpus.txt"
    swaps, order, marks = (f"{folder}/{name}" for name in _KINDS)
    found = [f"{name}:{kind}={folder}/{name}" for name, kind in _KINDS.items()]
    if keep and files.gfile.exists(rest):  # which is written last
        return rest, found
    with files.write_aside(rest) as partial:
        blocks: Blocks = []
        seen = taken = 0
        with files.gfile.GFile(partial, "w") as file:
            for block in _read_blocks(corpus):
                seen += len(block)
                if taken + len(block) <= min(_FRACTION * seen, _MAX_SENTENCES):
                    blocks.append(block)
                    taken += len(block)
                else:
                    file.write("\n".join(block) + "\n\n")
        if len(blocks) < 2 or taken < _MIN_SENTENCES:
            raise InputError(
                f"{corpus}: is too small to make tasks of; name some with TASKS= (--tasks), or "
                "take more text."
            )
        dev = max(1, len(blocks) // 5)
        marked = (_marked(words) for words, _ in _fitting(blocks[dev:]))
        counts = Counter(mark for words in marked for _, mark in words if mark)
        known = {mark for mark, _ in counts.most_common(_MARKS)}
        for split, part in (("train", blocks[dev:]), ("dev", blocks[:dev])):
            limit = _MAX_EXAMPLES[split]
            files.write_text(f"{swaps}/{split}.tsv", _swapped_words(part, limit))
            files.write_text(f"{order}/{split}.tsv", _sentence_order(part, limit))
            files.write_text(f"{marks}/{split}.conll", _punctuation(known, part, limit))
    return rest, found


def _read_blocks(corpus: str) -> Iterator[list[str]]:
    """Yields consecutive sentences of a document, their words separated by single spaces."""
    for file_range in reader.plan_ranges(reader.open_corpus(corpus, "auto"), 1 << 26):
        for section in reader.read_sections(file_range, reader.ReadOptions()):
            sentences = [" ".join(sentence.split()) for sentence in section.sentences]
            for start in range(0, len(sentences), _BLOCK):
                yield sentences[start : start + _BLOCK]


def _fitting(blocks: Blocks) -> Iterator[tuple[list[str], str]]:
    """Yields the words of sentences that are not too short or long, and their separator.

    In a script without spaces they are characters. A short sentence with upper or lower case is in
    a script that has spaces.
    """
    for sentence in itertools.chain.from_iterable(blocks):
        words, separator = sentence.split(), " "
        if len(words) < _MIN_WORDS and sentence.lower() == sentence.upper():
            words, separator = list(sentence.replace(" ", "")), ""
        if _MIN_WORDS <= len(words) <= _MAX_WORDS:
            yield words, separator


def _swapped_words(blocks: Blocks, limit: int) -> str:
    """Sentences; in half of them two neighbouring words are swapped."""
    rng = np.random.default_rng(0)
    lines = ["text\tlabel\n"]
    for words, separator in itertools.islice(_fitting(blocks), limit):
        places = [at for at in range(len(words) - 1) if words[at] != words[at + 1]]
        swapped = bool(rng.integers(2)) and bool(places)
        if swapped:
            at = places[rng.integers(len(places))]
            words[at], words[at + 1] = words[at + 1], words[at]
        lines.append(f"{separator.join(words)}\t{'swapped' if swapped else 'natural'}\n")
    return "".join(lines)


def _sentence_order(blocks: Blocks, limit: int) -> str:
    """Pairs of consecutive sentences, half of them in reverse order."""
    rng = np.random.default_rng(0)
    lines = ["text_a\ttext_b\tlabel\n"]
    pairs = (pair for block in blocks for pair in itertools.pairwise(block))
    for first, second in itertools.islice(pairs, limit):
        turned = bool(rng.integers(2))
        texts = f"{second}\t{first}\tturned" if turned else f"{first}\t{second}\tin order"
        lines.append(f"{texts}\n")
    return "".join(lines)


def _punctuation(known: set[str], blocks: Blocks, limit: int) -> str:
    """Words without punctuation; the tag of each is the mark that followed it, if known."""
    lines = []
    for words, _ in itertools.islice(_fitting(blocks), limit):
        lines += [f"{word}\t{f'S-{m}' if m in known else 'O'}\n" for word, m in _marked(words)]
        lines.append("\n")
    return "".join(lines)


def _marked(words: list[str]) -> list[tuple[str, str]]:
    """Words without their punctuation, each with the mark after it, or ""."""
    found: list[tuple[str, str]] = []
    for word in words:
        bare = word
        while bare and unicodedata.category(bare[-1])[0] == "P":
            bare = bare[:-1]
        mark = word[len(bare) : len(bare) + 1]
        if bare:
            found.append((bare, mark))
        elif found and not found[-1][1]:
            found[-1] = (found[-1][0], mark)
    return found
