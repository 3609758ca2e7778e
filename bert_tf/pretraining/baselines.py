"""What can be guessed without a model: the most frequent token, and the best by a neighbour."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.objectives.base import PretrainingObjective
from bert_tf.pretraining import evaluation
from bert_tf.pretraining.inputs import PretrainingData
from pipelines.pretraining import example_reader

Batch = dict[str, np.ndarray]
_RECORDS = 50_000  # enough to count neighbours in
_BATCH = 512


class Guesses(NamedTuple):
    """Masked-LM accuracy of guesses, on the tokens that the model is asked for."""

    unigram_accuracy: float  # the most frequent token
    left_accuracy: float  # the token most often seen after the left neighbour
    right_accuracy: float  # the token most often seen before the right neighbour

    @property
    def bigram_accuracy(self) -> float:
        """The better of the two guesses by a neighbour."""
        return max(self.left_accuracy, self.right_accuracy)


def of_data(model: PretrainingObjective, data: PretrainingData, seed: int) -> dict[str, float]:
    """What can be guessed of held-out examples without a model, by name; NaN where nothing can.

    Args:
      model: whose objective it is.
      data: all examples.
      seed: of the order of those to count in.
    """
    majority, share = math.nan, data.held_out_random_share
    if share is not None and "next_sentence_labels" in model.features:
        majority = max(share, 1 - share)  # of the more frequent label
    found = {
        "next_sentence_majority": majority,
        "unigram_accuracy": math.nan,
        "bigram_accuracy": math.nan,
    }
    if data.held_out is None or not model.guesses_masked:
        return found
    tokens = data.tokenizer
    training = example_reader.training_batches(data.training[-1], _BATCH, seed)
    held_out = example_reader.evaluation_batches(data.held_out, evaluation.BATCH)
    guesses = guess(
        evaluation.prepared_arrays(model, training.take(_RECORDS // _BATCH)),
        evaluation.prepared_arrays(model, held_out),
        len(tokens.vocabulary),
        tokens.special_ids,
    )
    return found | {
        "unigram_accuracy": guesses.unigram_accuracy,
        "bigram_accuracy": guesses.bigram_accuracy,
        "left_neighbour_accuracy": guesses.left_accuracy,
        "right_neighbour_accuracy": guesses.right_accuracy,
    }


def guess(
    training: Iterable[Batch],
    held_out: Iterable[Batch],
    vocab_size: int,
    special_ids: Sequence[int],
) -> Guesses:
    """Counts tokens and neighbours in training batches, and guesses masked tokens of others.

    The neighbours are those that the model sees: where one is [MASK], or was
    never seen in training, the guess is the most frequent token.

    Args:
      training: batches to count in, as `pipelines.pretraining.example_reader` gives them.
      held_out: batches to guess in.
      vocab_size: tokens of the vocabulary.
      special_ids: tokens that are never asked for.
    """
    originals = [_original_tokens(batch) for batch in training]
    tokens = np.concatenate([rows[rows >= 0] for rows in originals])
    counts = np.bincount(tokens, minlength=vocab_size)
    counts[list(special_ids)] = 0
    most_frequent = int(counts.argmax())
    pairs = np.concatenate([np.stack([r[:, :-1].ravel(), r[:, 1:].ravel()], 1) for r in originals])
    pairs = pairs[(pairs >= 0).all(1) & ~np.isin(pairs, special_ids).any(1)]
    after = _best_partner(pairs[:, 0], pairs[:, 1], vocab_size, most_frequent)
    before = _best_partner(pairs[:, 1], pairs[:, 0], vocab_size, most_frequent)
    hits = np.zeros(3, np.int64)
    total = 0
    for batch in held_out:
        asked = batch["masked_lm_weights"] > 0
        rows, _ = np.nonzero(asked)
        positions, labels = batch["masked_lm_positions"][asked], batch["masked_lm_ids"][asked]
        left = batch["input_word_ids"][rows, positions - 1]
        right = batch["input_word_ids"][rows, positions + 1]
        guesses = (most_frequent, after[left], before[right])
        hits += [int(np.sum(guessed == labels)) for guessed in guesses]
        total += len(labels)
    return Guesses(*(hits / max(total, 1)).tolist())


def _original_tokens(batch: Batch) -> np.ndarray:
    """The tokens of [batch, length] before masking, -1 for padding."""
    tokens = batch["input_word_ids"].astype(np.int64)
    rows, slots = np.nonzero(batch["masked_lm_weights"] > 0)
    tokens[rows, batch["masked_lm_positions"][rows, slots]] = batch["masked_lm_ids"][rows, slots]
    return np.where(batch["input_mask"] > 0, tokens, -1)


def _best_partner(
    keys: np.ndarray, partners: np.ndarray, vocab_size: int, default: int
) -> np.ndarray:
    """For each token as a key, its most frequent partner; int64 [vocab_size]."""
    codes, counts = np.unique(keys * vocab_size + partners, return_counts=True)
    order = np.argsort(counts, kind="stable")  # later, more frequent ones overwrite
    best = np.full(vocab_size, default, np.int64)
    best[codes[order] // vocab_size] = codes[order] % vocab_size
    return best
