"""The interface of example makers, and the features that all examples have."""

import abc
import collections
from typing import ClassVar

import numpy as np

from pipelines.pretraining import masking
from pipelines.pretraining.masking import SequenceBlock, SpecialIds
from pipelines.pretraining.settings import ExampleSettings
from pipelines.pretraining.token_store import TokenizedDocuments
from pipelines.tokenizers.base import Tokenizer

FeatureArrays = dict[str, np.ndarray]


class ExampleMaker(abc.ABC):
    """Plans sequences of documents and turns them into features.

    The text of a shard is a flat array of token ids, and a sequence consists of ranges of it. A
    plan has a small row of numbers per sequence; rows are shuffled, and filled with ids later.

    Attributes:
      segments: number of segments of a sequence.
    """

    segments: ClassVar[int] = 1

    def __init__(self, settings: ExampleSettings, tokenizer: Tokenizer):
        self.settings = settings
        self.special = SpecialIds.of(tokenizer)
        # The number of tokens in a sequence, special tokens not included.
        self.budget = settings.max_seq_length - tokenizer.overhead[self.segments - 1]
        self._typed = tokenizer.typed
        self._begins_word = np.asarray(tokenizer.begins_word)

    @classmethod
    def check(cls, index: np.ndarray, held_out_keys: np.ndarray) -> None:
        """Raises InputError if sequences cannot be made of a corpus; most makers accept any.

        Args:
          index: index of the token store.
          held_out_keys: keys of the held-out documents.
        """
        del index, held_out_keys

    @abc.abstractmethod
    def plan(self, documents: TokenizedDocuments, rng: np.random.Generator) -> np.ndarray:
        """Plans the sequences of documents, int64 [sequences, columns]; only `rng` is random."""

    @abc.abstractmethod
    def fill(self, documents: TokenizedDocuments, plan: np.ndarray) -> SequenceBlock:
        """Returns the planned sequences as ids."""

    def features(
        self, documents: TokenizedDocuments, plan: np.ndarray, rng: np.random.Generator
    ) -> tuple[FeatureArrays, collections.Counter[str]]:
        """Returns the features of rows of a plan, and statistics; only `rng` is random.

        Features are int32 or float32 arrays [rows, size] by the reference's names.
        """
        settings = self.settings
        sequences = self.fill(documents, plan)
        masked = None
        if settings.writes_masks:
            masked = masking.mask(sequences, self.special, self._begins_word, settings, rng)
        position = np.arange(settings.max_seq_length)
        is_token = position < sequences.lengths[:, np.newaxis]
        is_second = position >= sequences.a_lengths[:, np.newaxis]
        features = {
            "input_ids": sequences.word_ids,
            "input_mask": is_token.astype(np.int32),
            "segment_ids": (is_token & is_second & self._typed).astype(np.int32),
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
