"""What a model guesses for masked tokens, and how it is surprised by those of a text."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export.sources import ModelSource
from bert_tf.inspection.sequences import TokenSequence
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.weights import bundle
from bert_tf.weights.bundle import MASKED_LM

_TINY = 1e-38  # probabilities below this count as this


class MaskedGuess(NamedTuple):
    """What is guessed in the place of a token.

    Attributes:
      position: of the token.
      original: the text of the token that stands there; None where a mask does.
      probability: of that token.
      guesses: text and probability of the best ones, the best first.
    """

    position: int
    original: str | None
    probability: float | None
    guesses: tuple[tuple[str, float], ...]

    @property
    def surprise(self) -> float | None:
        """In bits: how many yes-no questions the token is away from being certain."""
        if self.probability is None:
            return None
        return -math.log2(max(self.probability, _TINY))


class MaskedGuesser:
    """Guesses masked tokens, with the masked-LM head of a model.

    Args:
      source: of a model that guesses words.
      encoder: the model's.
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
        """Guesses for the masks of a sequence; of one without, for each token, masked alone.

        Args:
          sequence: the tokens.
          count: guesses of each.
          batch_tokens: tokens that are computed at once.
          progress: wraps the batches, to show how far they are.
        """
        masks = np.flatnonzero((sequence.ids == self._mask_id) & ~sequence.special)
        if len(masks):
            shares = self._shares(sequence, sequence.ids[np.newaxis], masks[np.newaxis])[0]
            pairs = zip(masks.tolist(), shares, strict=True)
            return [self._guess(at, None, row, count) for at, row in pairs]
        batches = list(self._one_by_one(sequence, batch_tokens))
        found = []
        for ids, positions in progress(batches):
            shares = self._shares(sequence, ids, positions[:, np.newaxis])[:, 0]
            for at, row in zip(positions, shares, strict=True):
                found.append(self._guess(int(at), int(sequence.ids[at]), row, count))
        return found

    def _one_by_one(
        self, sequence: TokenSequence, batch_tokens: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ids [rows, length] in which one token is masked, and the position of each, [rows]."""
        asked = np.flatnonzero(~sequence.special)
        rows = max(1, batch_tokens // len(sequence))
        for first in range(0, len(asked), rows):
            positions = asked[first : first + rows]
            ids = np.tile(sequence.ids, (len(positions), 1))
            ids[np.arange(len(positions)), positions] = self._mask_id
            yield ids, positions

    def _shares(
        self, sequence: TokenSequence, ids: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        """Probabilities, float32 [rows, masks, tokens], at positions [rows, masks] of ids."""
        inputs = sequence.inputs(len(ids)) | {"input_word_ids": tf.constant(ids, tf.int32)}
        outputs = self._encoder(inputs)["sequence_output"]
        rows = tf.reshape(
            tf.gather(outputs, positions, batch_dims=1), [-1, self._encoder.config.hidden_size]
        )
        logits = self._head(rows, self._encoder.word_embeddings)
        logits += tf.convert_to_tensor(self._head.bias)
        # The table may have more rows than the vocabulary has tokens.
        shares = tf.nn.softmax(logits[:, : len(self._shown)]).numpy()
        return shares.reshape(*positions.shape, -1)

    def _guess(
        self, position: int, original: int | None, shares: np.ndarray, count: int
    ) -> MaskedGuess:
        best = np.argsort(-shares, kind="stable")[:count]
        return MaskedGuess(
            position,
            None if original is None else self._shown[original],
            None if original is None else float(shares[original]),
            tuple((self._shown[index], float(shares[index])) for index in best),
        )
