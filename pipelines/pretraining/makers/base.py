"""The interface of makers, and the features that all of them have."""

import abc
import collections
from typing import ClassVar, NamedTuple

import numpy as np

from pipelines.pretraining import masking
from pipelines.pretraining.masking import Sequences, SpecialIds
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers.base import Tokenizer

Features = dict[str, np.ndarray]


class TokenizedDocuments(NamedTuple):
    """Documents as arrays; the last element of each `starts` is the end."""

    ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences + 1], in tokens
    document_starts: np.ndarray  # int64 [documents + 1], in sentences
    document_keys: np.ndarray  # uint64 [documents]: sections of one document share a key


class ExampleMaker(abc.ABC):
    """Plans sequences of documents, and turns them into named features.

    A shard's text is one flat array of token ids, of which sequences take contiguous ranges. So
    they are planned as small rows of numbers, which are shuffled, and filled with ids later.

    Attributes:
      segments: that sequences have.
      counts: what is counted of examples, besides records and tokens.
    """

    segments: ClassVar[int] = 1

    def __init__(self, settings: ExampleSettings, tokenizer: Tokenizer):
        self.settings = settings
        self.tokenizer = tokenizer
        self.special = SpecialIds.of(tokenizer)
        self._begins_word = np.asarray(tokenizer.begins_word)

    @classmethod
    def check(cls, index: np.ndarray, held_out_keys: np.ndarray) -> None:
        """Checks that sequences can be made of a corpus.

        Args:
          index: of the token store.
          held_out_keys: of the documents kept apart.

        Raises:
          InputError: they cannot.
        """
        del index, held_out_keys  # most take any corpus

    @abc.abstractmethod
    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        """Plans the sequences of documents, int64 [sequences, numbers]; rng is the only chance."""

    @abc.abstractmethod
    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> Sequences:
        """Lays out planned sequences."""

    def features(
        self, documents: TokenizedDocuments, plan: np.ndarray, rng: np.random.Generator
    ) -> tuple[Features, collections.Counter[str]]:
        """The features of planned sequences, and what is counted of them.

        Args:
          documents: that the plan is of.
          plan: some rows of it.
          rng: the only source of chance.

        Returns:
          Arrays [rows, size] of int32 or float32 by the reference names; and counts.
        """
        settings = self.settings
        sequences = self.fill(documents, plan)
        masked = None
        if settings.writes_masks:
            masked = masking.mask(sequences, self.special, self._begins_word, settings, rng)
        position = np.arange(settings.max_seq_length)
        there = position < sequences.lengths[:, np.newaxis]
        second = position >= sequences.a_lengths[:, np.newaxis]
        features = {
            "input_ids": sequences.word_ids,
            "input_mask": there.astype(np.int32),
            "segment_ids": (there & second & self.tokenizer.typed).astype(np.int32),
        }
        counts = collections.Counter(
            records=len(plan),
            tokens=int(sequences.lengths.sum()),
            full_length=int((sequences.lengths == settings.max_seq_length).sum()),
        )
        if masked is not None:
            slot = np.arange(settings.max_predictions_per_seq)
            features |= {
                "masked_lm_positions": masked.positions,
                "masked_lm_ids": masked.ids,
                "masked_lm_weights": (slot < masked.counts[:, np.newaxis]).astype(np.float32),
            }
            names = ("masked", "random_token", "kept")
            counts.update(dict(zip(names, masked.outcomes.tolist(), strict=True)))
            counts["predictions"] = int(masked.counts.sum())
        return features, counts
