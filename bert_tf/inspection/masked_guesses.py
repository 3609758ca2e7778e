"""Predictions of a model for masked tokens, and its surprise at the tokens of a text."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export.sources import ModelSource
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.tasks.numbered import TokenSequence
from bert_tf.weights import bundle
from bert_tf.weights.bundle import MASKED_LM

_TINY = 1e-38  # lower bound of probabilities


class MaskedGuess(NamedTuple):
    """The predictions at a position.

    Attributes:
      position: the position.
      original: the text of the token at the position; None for a mask.
      probability: the probability of that token.
      guesses: text and probability of the best predictions, the best first.
    """

    position: int
    original: str | None
    probability: float | None
    guesses: tuple[tuple[str, float], ...]

    @property
    def surprise(self) -> float | None:
        """The surprise at the original token, in bits: -log2 of its probability."""
        if self.probability is None:
            return None
        return -math.log2(max(self.probability, _TINY))


class MaskedGuesser:
    """Predicts masked tokens with the masked-LM head of a model.

    Args:
      source: a model with such a head.
      encoder: its encoder.
    """

    def __init__(self, source: ModelSource, encoder: BertEncoder):
        model = source.bundle
        self._encoder = encoder
        self._head = MaskedLMHead(encoder.config, name=MASKED_LM.rstrip("/"))
        self._head.build(self._head.expected_shape)
        bundle.assign(self._head, model.weights, source.folder)
        vocabulary = model.require_vocabulary()
        self._mask_id = vocabulary.id_of("mask")
        self._shown = [vocabulary.plain([token]) for token in vocabulary.tokens]

    def guess(
        self,
        sequence: TokenSequence,
        count: int,
        batch_tokens: int,
        progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    ) -> list[MaskedGuess]:
        """Predicts the masks of a sequence; without masks each token, masked alone.

        Args:
          sequence: the tokens.
          count: number of predictions for each position.
          batch_tokens: number of tokens that are computed at once.
          progress: wraps the batches, to show progress.
        """
        masks = np.flatnonzero((sequence.ids == self._mask_id) & ~sequence.special)
        if len(masks):
            found = self._probabilities(sequence, sequence.ids[np.newaxis], masks[np.newaxis])[0]
            pairs = zip(masks.tolist(), found, strict=True)
            return [self._guess(at, None, row, count) for at, row in pairs]
        batches = list(self._one_by_one(sequence, batch_tokens))
        guesses = []
        for ids, positions in progress(batches):
            probabilities = self._probabilities(sequence, ids, positions[:, np.newaxis])[:, 0]
            for at, row in zip(positions, probabilities, strict=True):
                guesses.append(self._guess(int(at), int(sequence.ids[at]), row, count))
        return guesses

    def _one_by_one(
        self, sequence: TokenSequence, batch_tokens: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields ids [rows, length] with one masked token each, and its position, [rows]."""
        asked = np.flatnonzero(~sequence.special)
        rows = max(1, batch_tokens // len(sequence))
        for first in range(0, len(asked), rows):
            positions = asked[first : first + rows]
            ids = np.tile(sequence.ids, (len(positions), 1))
            ids[np.arange(len(positions)), positions] = self._mask_id
            yield ids, positions

    def _probabilities(
        self, sequence: TokenSequence, ids: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        """Probabilities, float32 [rows, masks, tokens], at positions [rows, masks] of ids."""
        inputs = sequence.inputs(len(ids)) | {"input_word_ids": tf.constant(ids, tf.int32)}
        outputs = self._encoder(inputs, outputs_at=positions)["sequence_output"]
        rows = tf.reshape(outputs, [-1, self._encoder.config.hidden_size])
        logits = self._head(rows, self._encoder.word_embeddings)
        logits += tf.convert_to_tensor(self._head.bias)
        # The embedding table may have more rows than the vocabulary has tokens.
        probabilities = tf.nn.softmax(logits[:, : len(self._shown)]).numpy()
        return probabilities.reshape(*positions.shape, -1)

    def _guess(
        self, position: int, original: int | None, probabilities: np.ndarray, count: int
    ) -> MaskedGuess:
        best = np.argsort(-probabilities, kind="stable")[:count]
        return MaskedGuess(
            position,
            None if original is None else self._shown[original],
            None if original is None else float(probabilities[original]),
            tuple((self._shown[index], float(probabilities[index])) for index in best),
        )
