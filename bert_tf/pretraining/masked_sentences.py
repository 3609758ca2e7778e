"""A few held-out sentences with one masked word each, and a model's guesses for it."""

from typing import Any, NamedTuple, TypedDict

import numpy as np
import tensorflow as tf

from bert_tf.objectives.base import Batch, PretrainingObjective
from pipelines.tokenizers.base import Tokenizer

_SENTENCES = 6
_GUESSES = 5
_CONTEXT = 12  # tokens shown on each side of a masked one, at least
_COMMON = 3  # occurrences in the batch of a word that counts as common
ASKED = "[?]"  # replaces the masked word in a text
_CUT = "…"  # marks where a text was cut


class MaskedSentence(TypedDict):
    """A sentence in which ASKED replaces a token, and that token."""

    text: str
    original: str


class Questions(NamedTuple):
    """Sentences with a masked word.

    Attributes:
      batch: a row for each sentence, in which only this word is masked.
      sentences: the sentences as text.
    """

    batch: Batch
    sentences: list[MaskedSentence]


class Guess(TypedDict):
    """The best tokens for a mask with their probabilities, and that of the correct token."""

    tokens: dict[str, float]
    right: float


class _Candidate(NamedTuple):
    """A token that may be masked; better candidates are larger tuples."""

    whole: bool  # a whole word of letters
    common: bool
    context: int  # tokens on the shorter side
    row: int
    position: int
    token: int


def choose(batch: Batch, tokenizer: Tokenizer) -> Questions | None:
    """Chooses one masked word in each of a few examples, preferring whole and common words.

    Args:
      batch: held-out examples with masks.
      tokenizer: tokenizer of the examples.

    Returns:
      The questions; None if nothing is masked.
    """
    examples = _Examples(batch, tokenizer)
    best: dict[int, _Candidate] = {}  # by token, as none is masked twice
    for each in sorted(examples.candidates(), key=lambda each: (not each.whole, not each.common)):
        best.setdefault(each.token, each)
    chosen = sorted(list(best.values())[:_SENTENCES], key=lambda each: each.row)
    if not chosen:
        return None
    return Questions(examples.masking(chosen), [examples.shown(each) for each in chosen])


class _Examples:
    """Examples with their original tokens; arguments as of `choose`."""

    def __init__(self, batch: Batch, tokenizer: Tokenizer):
        self._batch, self._tokenizer = batch, tokenizer
        self._begins, self._tokens = tokenizer.begins_word, tokenizer.vocabulary.tokens
        rows, slots = np.nonzero(batch["masked_lm_weights"].numpy() > 0)
        positions = batch["masked_lm_positions"].numpy()[rows, slots]
        self._masked = list(zip(rows.tolist(), positions.tolist(), strict=True))
        self._ids = batch["input_word_ids"].numpy().copy()
        self._ids[rows, positions] = batch["masked_lm_ids"].numpy()[rows, slots]
        borders = (tokenizer.pad_id, tokenizer.start_id, tokenizer.separator_id)
        self._borders = np.isin(self._ids, borders)
        self._counts = np.bincount(self._ids[~self._borders], minlength=len(self._tokens))

    def candidates(self) -> list[_Candidate]:
        """The best candidate of each example that has any."""
        best: dict[int, _Candidate] = {}
        for row, position in self._masked:
            candidate = self._candidate(row, position)
            best[row] = max(candidate, best.get(row, candidate))
        return list(best.values())

    def _candidate(self, row: int, position: int) -> _Candidate:
        ids = self._ids[row]
        token = int(ids[position])
        first, end = self._segment(row, position)
        text = self._tokenizer.vocabulary.plain([self._tokens[token]])
        ends = position + 1 == end or bool(self._begins[ids[position + 1]])
        whole = ends and bool(self._begins[token])
        word = text.isalpha() and (len(text) > 1 or not text.isascii())
        context = min(position - first, end - 1 - position)
        common = bool(self._counts[token] >= _COMMON)
        return _Candidate(whole and word, common, context, row, position, token)

    def _segment(self, row: int, position: int) -> tuple[int, int]:
        """The first position of the segment around a position, and the one after its last."""
        borders = np.flatnonzero(self._borders[row])
        first = max(borders[borders < position], default=-1) + 1
        return int(first), int(min(borders[borders > position], default=self._ids.shape[1]))

    def shown(self, place: _Candidate) -> MaskedSentence:
        """The whole words around a candidate."""
        ids = self._ids[place.row]
        start, stop = self._segment(place.row, place.position)
        first, end = max(start, place.position - _CONTEXT), min(stop, place.position + _CONTEXT + 1)
        while first > start and not self._begins[ids[first]]:
            first -= 1
        while end < stop and not self._begins[ids[end]]:
            end += 1
        words = [self._tokens[index] for index in ids[first:end]]
        words[place.position - first] = ASKED
        text = self._tokenizer.vocabulary.plain(words)
        text = f"{_CUT if first > start else ''}{text}{_CUT if end < stop else ''}"
        return {"text": text, "original": self._tokens[place.token]}

    def masking(self, places: list[_Candidate]) -> Batch:
        """The rows of candidates, with nothing else masked."""
        rows = [place.row for place in places]
        ids = self._ids[rows]
        ids[np.arange(len(rows)), [place.position for place in places]] = self._tokenizer.mask_id
        asked = {
            "input_word_ids": ids,
            "masked_lm_positions": np.array([[place.position] for place in places], np.int32),
            "masked_lm_ids": np.array([[place.token] for place in places], np.int32),
            "masked_lm_weights": np.ones((len(rows), 1), np.float32),
        }
        rest = {k: tf.gather(values, rows) for k, values in self._batch.items() if k not in asked}
        return rest | {name: tf.constant(values) for name, values in asked.items()}


def guess(
    model: PretrainingObjective, questions: Questions, tokens: tuple[str, ...]
) -> list[Guess]:
    """Guesses the masked words.

    Args:
      model: a model that predicts masked tokens.
      questions: the sentences.
      tokens: tokens of the vocabulary.
    """
    probabilities = tf.nn.softmax(model(questions.batch)["masked_lm"])[:, 0]
    # A model may have more ids than the vocabulary has tokens.
    top = tf.math.top_k(probabilities[:, : len(tokens)], _GUESSES)
    found: list[Guess] = []
    for row, original in enumerate(questions.batch["masked_lm_ids"].numpy()[:, 0]):
        best = zip(top.indices[row].numpy(), top.values[row].numpy(), strict=True)
        guesses = {tokens[index]: round(float(value), 4) for index, value in best}
        right = round(float(probabilities[row, original]), 6)
        found.append({"tokens": guesses, "right": right})
    return found


def report(
    model: PretrainingObjective, questions: Questions, tokens: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The text, original token and best guesses of each sentence; arguments as of `guess`."""
    return [
        {**sentence, "guesses": found["tokens"]}
        for sentence, found in zip(
            questions.sentences, guess(model, questions, tokens), strict=True
        )
    ]
