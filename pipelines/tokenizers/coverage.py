"""Warnings about text that a tokenizer loses: accents, and words unknown to the vocabulary.

Counts decide whether to warn; a sample of the text gives the examples.
"""

import collections
import itertools
import string
import unicodedata
from collections.abc import Iterable, Iterator

import tensorflow as tf
from absl import logging

from pipelines.common import texts
from pipelines.corpus import reader
from pipelines.tokenizers import byte_ranges
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.whole_words import WordVocabulary

_SAMPLE_FILES = 20
_SAMPLE_CHARACTERS = 1_000_000
_BATCHES = 10
_MAX_STRIPPED = 0.01  # of the words; fewer have accents in English
_MAX_UNKNOWN = 0.05  # of the characters
_LONGEST_UNKNOWN = 200  # characters of a token


def sample(corpus: list[reader.CorpusFile], options: reader.ReadOptions) -> Iterator[str]:
    """Yields about a million characters: the first sentences of up to 20 files of a corpus."""
    chosen = corpus[:: -(-len(corpus) // _SAMPLE_FILES)]
    for part in reader.plan_ranges(chosen, max(file.size for file in chosen)):
        size = 0
        sections = reader.read_sections(part, options)
        for sentence in (sentence for section in sections for sentence in section.sentences):
            yield sentence
            size += len(sentence)
            if size > _SAMPLE_CHARACTERS / len(chosen):
                break


def warn_of_stripping(sentences: Iterable[str]) -> None:
    """Warns if many words have accents that are removed by default, or letters that are split."""
    words = collections.Counter(
        word.strip(string.punctuation) for text in sentences for word in text.split()
    )
    changed = {word: count for word, count in words.items() if _stripped(word) != word}
    lost = sum(changed.values())
    if lost <= _MAX_STRIPPED * words.total():
        return
    example = max(changed, key=lambda word: changed[word])
    becomes = _stripped(example)
    effect = (
        f"is taken apart into {len(becomes)} letters"
        if unicodedata.normalize("NFC", becomes) == unicodedata.normalize("NFC", example)
        else f"becomes {becomes!r}"
    )
    logging.warning(
        "%.0f %% of the words have accents or marks, which are stripped by default (%r %s). To "
        "keep them, use --strip_accents=false here and for write-examples.",
        *(100 * lost / words.total(), example, effect),
    )


def warn_of_lost_tokens(tokenizer: Tokenizer, place: str) -> None:
    """Warns if the tokenizer strips accents that many tokens of its vocabulary have."""
    if not tokenizer.settings.get("strip_accents"):
        return
    tokens = tokenizer.vocabulary.tokens
    lost = [token for token in tokens if _stripped(token) != token]
    if len(lost) > _MAX_STRIPPED * len(tokens):
        logging.warning(
            "%s: %d of %d tokens have accents or marks, such as %r, which are stripped from the "
            "text, so they never occur. To keep them, use --strip_accents=false.",
            *(place, len(lost), len(tokens), lost[0]),
        )


def warn_of_unknown(
    tokenizer: Tokenizer, unknown: int, tokens: int, sentences: Iterable[str], place: str
) -> None:
    """Warns if many characters of a text are unknown, as `sentences`, a part of it, show.

    In scripts without spaces an unknown token may be a whole sentence: tokens alone, `unknown` of
    all, say only whether the characters can be many. Vocabularies of whole words are exempt: any
    text has other words.
    """
    few = _LONGEST_UNKNOWN * unknown <= _MAX_UNKNOWN * tokens
    if few or isinstance(tokenizer.vocabulary, WordVocabulary):
        return
    words: collections.Counter[str] = collections.Counter()
    characters = 0
    batches = texts.blocks(sentences, len, _SAMPLE_CHARACTERS // _BATCHES)
    for batch in itertools.islice(batches, _BATCHES):
        characters += sum(len(word) for text in batch for word in text.split())
        ids, starts, ends = tokenizer.tokenize_with_offsets(batch)
        ranges = (ids.value_rowids(), starts.flat_values, ends.flat_values)
        is_unknown = ids.flat_values == tokenizer.unknown_id
        places = (tf.boolean_mask(values, is_unknown) for values in ranges)
        found = byte_ranges.cut(tf.constant(batch), *places).numpy().tolist()
        words.update(word.decode(errors="replace") for word in found)
    lost = sum(len(word) * count for word, count in words.items())
    if lost > _MAX_UNKNOWN * characters:
        logging.warning(
            "%s: %.0f %% of the characters are unknown to the vocabulary, most often %s. Use a "
            "vocabulary, or a model, that covers the script of the text.",
            *(place, 100 * lost / characters),
            ", ".join(repr(word) for word, _ in words.most_common(5)),
        )


def _stripped(text: str) -> str:
    """Returns a text as normalization with stripped accents leaves it."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
