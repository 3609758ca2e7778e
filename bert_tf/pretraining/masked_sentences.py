"""A few held-out sentences with a masked token each, and what a model guesses there."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.objectives.base import Batch, PretrainingObjective
from pipelines.tokenizers.base import Vocabulary

_SENTENCES = 6
_GUESSES = 5
_CONTEXT = 12  # tokens shown on each side of a masked one
ASKED = "[?]"  # what stands in a text for the mask that is asked for


class MaskedSentence(NamedTuple):
    """A mask of an example that is asked for.

    Attributes:
      row: of the batch.
      slot: its number among the masked tokens of the row.
      text: what stands round it; ASKED is the mask.
      original: the id of the token that was masked.
    """

    row: int
    slot: int
    text: str
    original: int


class Guess(NamedTuple):
    """What a model guesses for a mask: the best tokens, and how probable the original is."""

    tokens: dict[str, float]
    right: float


def choose(batch: Batch, vocabulary: Vocabulary) -> list[MaskedSentence]:
    """Chooses one mask in each of the first examples that have any.

    Args:
      batch: held-out examples, prepared.
      vocabulary: their tokens.
    """
    tokens = vocabulary.tokens
    mask_id, pad_id = vocabulary.id_of("mask"), vocabulary.id_of("pad")
    found: list[MaskedSentence] = []
    for row, ids in enumerate(batch["input_word_ids"].numpy()):
        positions = batch["masked_lm_positions"][row].numpy()
        slots = [slot for slot, position in enumerate(positions) if ids[position] == mask_id]
        if not slots:
            continue
        slot = slots[len(slots) // 2]
        first = max(0, positions[slot] - _CONTEXT)
        window = ids[first : positions[slot] + _CONTEXT + 1]
        words = [tokens[index] for index in window if index != pad_id]
        words[int(positions[slot] - first)] = ASKED
        original = int(batch["masked_lm_ids"][row, slot])
        found.append(MaskedSentence(row, slot, vocabulary.plain(words), original))
        if len(found) == _SENTENCES:
            break
    return found


def of_rows(batch: Batch, sentences: Sequence[MaskedSentence]) -> Batch:
    """The rows of a batch that some sentences are of, one for each, in their order."""
    rows = [sentence.row for sentence in sentences]
    return {name: tf.gather(values, rows) for name, values in batch.items()}


def guess(
    model: PretrainingObjective,
    batch: Batch,
    places: Sequence[tuple[int, int]],
    originals: Sequence[int],
    vocabulary: Vocabulary,
) -> list[Guess]:
    """Guesses masked tokens.

    Args:
      model: one that guesses masked tokens.
      batch: examples, prepared.
      places: row and slot of each mask that is asked for.
      originals: the id of the token that was masked there.
      vocabulary: the tokens.
    """
    shares = tf.nn.softmax(model(batch)["masked_lm"])
    # A model may have more ids than the vocabulary has tokens.
    top = tf.math.top_k(shares[..., : len(vocabulary.tokens)], _GUESSES)
    found = []
    for (row, slot), original in zip(places, originals, strict=True):
        best = zip(top.indices[row, slot].numpy(), top.values[row, slot].numpy(), strict=True)
        tokens = {vocabulary.tokens[index]: _rounded(share) for index, share in best}
        found.append(Guess(tokens, _rounded(shares[row, slot, original].numpy(), 6)))
    return found


def report(
    model: PretrainingObjective, batch: Batch, vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """Guesses one mask in each of a few examples, for the report.

    Args:
      model: one that guesses masked tokens.
      batch: held-out examples, prepared.
      vocabulary: its tokens.

    Returns:
      For each: the text round the mask, the original token, and the top guesses with their
      probabilities.
    """
    sentences = choose(batch, vocabulary)
    places = [(sentence.row, sentence.slot) for sentence in sentences]
    originals = [sentence.original for sentence in sentences]
    return [
        {
            "text": sentence.text,
            "original": vocabulary.tokens[sentence.original],
            "guesses": found.tokens,
        }
        for sentence, found in zip(
            sentences, guess(model, batch, places, originals, vocabulary), strict=True
        )
    ]


def _rounded(share: np.floating, digits: int = 4) -> float:
    return round(float(share), digits)
