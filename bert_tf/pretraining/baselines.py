"""Baselines of masked LM: the most frequent token, and the best guess from a neighbouring one."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.models.encoder_decoder import TARGET, TARGET_MASK
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.denoising import Denoising
from bert_tf.pretraining import evaluation
from bert_tf.pretraining.inputs import PretrainingData
from pipelines.pretraining import example_reader

Batch = dict[str, np.ndarray]
_RECORDS = 50_000  # of training, to count neighbours in
_BATCH = 512


class BaselineAccuracies(NamedTuple):
    """Accuracies of guesses for the tokens that the model predicts."""

    unigram_accuracy: float  # the most frequent token
    left_accuracy: float  # the token most often seen after the left neighbour
    right_accuracy: float  # the token most often seen before the right neighbour


def of_data(model: PretrainingObjective, data: PretrainingData, seed: int) -> dict[str, float]:
    """Baselines of the metrics on held-out examples, by name; NaN where they do not apply.

    Args:
      model: the objective.
      data: all examples.
      seed: of the order of the training examples to count in.
    """
    random, found = data.held_out_random_fraction, {}
    if random is not None and "next_sentence_labels" in model.features:
        found[f"{model.parts[-1]}_majority"] = max(random, 1 - random)
    found |= {"unigram_accuracy": math.nan, "bigram_accuracy": math.nan}
    if data.held_out is not None and isinstance(model, Denoising):
        return found | {"unigram_perplexity": _unigram_perplexity(data, seed)}
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
        "bigram_accuracy": max(guesses.left_accuracy, guesses.right_accuracy),
        "left_neighbour_accuracy": guesses.left_accuracy,
        "right_neighbour_accuracy": guesses.right_accuracy,
    }


def _unigram_perplexity(data: PretrainingData, seed: int) -> float:
    """Perplexity of held-out texts by the frequency of each token, each seen once more."""
    assert data.held_out is not None
    counts = np.ones(len(data.tokenizer.vocabulary), np.float64)
    training = example_reader.training_batches(data.training[-1], _BATCH, seed)
    for batch in training.take(_RECORDS // _BATCH).as_numpy_iterator():
        counts += np.bincount(batch[TARGET][batch[TARGET_MASK] > 0], minlength=len(counts))
    nats = -np.log(counts / counts.sum())
    found = [
        nats[batch[TARGET][batch[TARGET_MASK] > 0]]
        for batch in example_reader.evaluation_batches(
            data.held_out, evaluation.BATCH
        ).as_numpy_iterator()
    ]
    return math.exp(np.concatenate(found).mean())


def guess(
    training: Iterable[Batch],
    held_out: Iterable[Batch],
    vocab_size: int,
    special_ids: Sequence[int],
) -> BaselineAccuracies:
    """Counts tokens and neighbours in training batches, and guesses masked tokens of others.

    Neighbours are those that the model sees: for [MASK], or for a token that training examples
    lack, the guess is the most frequent token.

    Args:
      training: batches to count in, as `pipelines.pretraining.example_reader` returns them.
      held_out: batches to guess in.
      vocab_size: tokens of the vocabulary.
      special_ids: tokens that are never masked.
    """
    frequencies = np.zeros(vocab_size, np.int64)
    codes = []  # of pairs of neighbours
    for batch in training:
        tokens = example_reader.original_tokens(batch)
        frequencies += np.bincount(tokens[tokens >= 0], minlength=vocab_size)
        left, right = example_reader.neighbours(tokens, special_ids)
        codes.append(left * vocab_size + right)
    frequencies[list(special_ids)] = 0
    most_frequent = int(frequencies.argmax())
    pairs, counts = np.unique(np.concatenate(codes), return_counts=True)
    left, right = np.divmod(pairs, vocab_size)
    default = np.full(vocab_size, most_frequent)
    after = _best_partner(left, right, counts, default)
    before = _best_partner(right, left, counts, default)
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
    return BaselineAccuracies(*(hits / max(total, 1)).tolist())


def _best_partner(
    keys: np.ndarray, partners: np.ndarray, counts: np.ndarray, default: np.ndarray
) -> np.ndarray:
    """The most frequent partner of each token, int64 [vocab_size].

    Args:
      keys: the token of each distinct pair.
      partners: the other token of each.
      counts: how frequent each pair is.
      default: what a token without partners gets, int64 [vocab_size].
    """
    order = np.argsort(counts, kind="stable")  # later, more frequent ones overwrite
    best = default.copy()
    best[keys[order]] = partners[order]
    return best
