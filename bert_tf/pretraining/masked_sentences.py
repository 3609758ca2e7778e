"""A few held-out sentences with one word masked in each, and what a model guesses there."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.objectives.base import Batch, PretrainingObjective
from pipelines.tokenizers.base import Tokenizer

_SENTENCES = 6
_GUESSES = 5
_CONTEXT = 12  # tokens shown on each side of a masked one, at least
_COMMON = 3  # a word that stands so often in the batch is a common one
ASKED = "[?]"  # what stands in a text for the word that is asked for
_CUT = "…"  # where a text is cut


class MaskedSentence(NamedTuple):
    """A sentence to guess in: what stands round its mask, which is ASKED, and the token there."""

    text: str
    original: str


class Questions(NamedTuple):
    """Sentences to guess in.

    Attributes:
      batch: a row for each, as models take them: nothing is masked but what is asked for.
      sentences: how they are shown.
    """

    batch: Batch
    sentences: list[MaskedSentence]


class Guess(NamedTuple):
    """What a model guesses for a mask: the best tokens, and how probable the original is."""

    tokens: dict[str, float]
    right: float


class _Place(NamedTuple):
    """A token that may be asked for; the better ones are the larger tuples."""

    whole: bool  # a word of letters, not a part of one
    common: bool
    context: int  # tokens on the side where there are fewer
    row: int
    position: int
    token: int


def choose(batch: Batch, tokenizer: Tokenizer) -> Questions | None:
    """Chooses a word in each of a few examples; whole and common words before others.

    Args:
      batch: held-out examples, prepared; of the masks of each one is taken.
      tokenizer: that they were made with.

    Returns:
      The questions; None where nothing is masked.
    """
    examples = _Examples(batch, tokenizer)
    best: dict[int, _Place] = {}  # by token: none is asked for twice
    for place in sorted(examples.places(), key=lambda place: (not place.whole, not place.common)):
        best.setdefault(place.token, place)
    chosen = sorted(list(best.values())[:_SENTENCES], key=lambda place: place.row)
    if not chosen:
        return None
    return Questions(examples.asking(chosen), [examples.shown(place) for place in chosen])


class _Examples:
    """Examples as they were before anything was masked.

    Args:
      batch: prepared.
      tokenizer: that they were made with.
    """

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

    def places(self) -> list[_Place]:
        """The best place of each example that has any."""
        best: dict[int, _Place] = {}
        for row, position in self._masked:
            place = self._judged(row, position)
            best[row] = max(place, best.get(row, place))
        return list(best.values())

    def _judged(self, row: int, position: int) -> _Place:
        """A place with what speaks for it."""
        ids = self._ids[row]
        token = int(ids[position])
        first, end = self._segment(row, position)
        text = self._tokenizer.vocabulary.plain([self._tokens[token]])
        ends = position + 1 == end or bool(self._begins[ids[position + 1]])
        whole = ends and bool(self._begins[token])
        word = text.isalpha() and (len(text) > 1 or not text.isascii())
        context = min(position - first, end - 1 - position)
        common = bool(self._counts[token] >= _COMMON)
        return _Place(whole and word, common, context, row, position, token)

    def _segment(self, row: int, position: int) -> tuple[int, int]:
        """The first position of the segment that one is in, and the one after its last."""
        borders = np.flatnonzero(self._borders[row])
        first = max(borders[borders < position], default=-1) + 1
        return int(first), int(min(borders[borders > position], default=self._ids.shape[1]))

    def shown(self, place: _Place) -> MaskedSentence:
        """What stands round a place, in whole words."""
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
        return MaskedSentence(text, self._tokens[place.token])

    def asking(self, places: list[_Place]) -> Batch:
        """The rows of places, in which nothing else is masked."""
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
      model: one that guesses masked tokens.
      questions: what is asked.
      tokens: of the vocabulary.
    """
    shares = tf.nn.softmax(model(questions.batch)["masked_lm"])[:, 0]
    # A model may have more ids than the vocabulary has tokens.
    top = tf.math.top_k(shares[:, : len(tokens)], _GUESSES)
    found = []
    for row, original in enumerate(questions.batch["masked_lm_ids"].numpy()[:, 0]):
        best = zip(top.indices[row].numpy(), top.values[row].numpy(), strict=True)
        guesses = {tokens[index]: _rounded(share) for index, share in best}
        found.append(Guess(guesses, _rounded(shares[row, original].numpy(), 6)))
    return found


def report(
    model: PretrainingObjective, questions: Questions, tokens: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Guesses the masked words, for the report; arguments as those of `guess`.

    Returns:
      For each sentence: the text round the mask, the original token, and the top guesses with
      their probabilities.
    """
    return [
        {**sentence._asdict(), "guesses": found.tokens}
        for sentence, found in zip(
            questions.sentences, guess(model, questions, tokens), strict=True
        )
    ]


def _rounded(share: np.floating, digits: int = 4) -> float:
    return round(float(share), digits)
