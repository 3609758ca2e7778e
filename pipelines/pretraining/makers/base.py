"""The interface of example makers, and the features that all examples have."""

import abc
import collections
from typing import ClassVar, NamedTuple

import numpy as np

from pipelines.pretraining import masking, noise
from pipelines.pretraining.masking import SequenceBlock, SpecialIds
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers.base import Tokenizer

FeatureArrays = dict[str, np.ndarray]


class TokenizedDocuments(NamedTuple):
    """Documents as arrays; the last element of each `starts` is the end."""

    ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences + 1], in tokens
    document_starts: np.ndarray  # int64 [documents + 1], in sentences
    document_keys: np.ndarray  # uint64 [documents]; equal for parts, and copies, of one document


class ExampleMaker(abc.ABC):
    """Plans sequences of documents and turns them into features.

    The text of a unit is a flat array of token ids, and a sequence consists of ranges of it. A
    plan has a small row of numbers per sequence; rows are shuffled, and filled with ids later.

    Attributes:
      segments: number of segments of a sequence.
      draws: whether a plan is random.
      least_documents: how many documents a unit must have parts of.
    """

    segments: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    least_documents: ClassVar[int] = 1

    def __init__(self, settings: ExampleSettings, tokenizer: Tokenizer):
        self.settings = settings
        self.special = SpecialIds.of(tokenizer)
        # The number of tokens in a sequence, special tokens not included.
        special = 2 + tokenizer.separators * (self.segments - 1)
        self.budget = settings.max_seq_length - special
        self._typed = tokenizer.typed
        self._begins_word = np.asarray(tokenizer.begins_word)

    @property
    def times(self) -> int:
        """How often documents are used: once if each time would give the same examples."""
        settings = self.settings
        noised = settings.objective is Objective.DENOISING
        return settings.dupe_factor if self.draws or settings.writes_masks or noised else 1

    @classmethod
    def refusal(cls, documents: int, single: bool) -> str:
        """Returns why there are no sequences of so many documents; empty: there are.

        `single` is whether each of them has one sentence.
        """
        del documents, single
        return ""

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
        if settings.objective is Objective.DENOISING:
            return self._noised(documents, plan, sequences, rng)
        masked = None
        if settings.writes_masks:
            starts = self._starts(documents, plan, sequences) if settings.whole_word_mask else None
            masked = masking.mask(sequences, self.special, self._begins_word, settings, rng, starts)
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

    def _starts(
        self, documents: TokenizedDocuments, plan: np.ndarray, sequences: SequenceBlock
    ) -> np.ndarray:
        """Where sentences begin in planned sequences, bool [rows, max_seq_length]."""
        starts = np.zeros(len(documents.ids), np.int32)
        starts[documents.sentence_starts[:-1]] = 1
        found = self.fill(documents._replace(ids=starts), plan).word_ids == 1
        # Special tokens are filled in as they are, and may have the id 1.
        special = (self.special.start, self.special.separator, self.special.pad)
        return found & ~np.isin(sequences.word_ids, special)

    def _noised(
        self,
        documents: TokenizedDocuments,
        plan: np.ndarray,
        sequences: SequenceBlock,
        rng: np.random.Generator,
    ) -> tuple[FeatureArrays, collections.Counter[str]]:
        """The features and statistics of noised sequences, and in `target_ids` the original."""
        position = np.arange(self.settings.max_seq_length)
        is_target = position < sequences.lengths[:, np.newaxis]
        is_start = self._starts(documents, plan, sequences)
        found = noise.noise(
            sequences, is_start, self.special, self._begins_word, self.settings, rng
        )
        is_token = (position < found.lengths[:, np.newaxis]).astype(np.int32)
        features = {
            "input_ids": found.word_ids,
            "input_mask": is_token,
            "segment_ids": np.zeros_like(is_token),
            "target_ids": sequences.word_ids,
            "target_mask": is_target.astype(np.int32),
        }
        counts = collections.Counter(
            records=len(plan),
            tokens=int(sequences.lengths.sum()),
            full_length=int((sequences.lengths == self.settings.max_seq_length).sum()),
        )
        names = ("noise_candidates", "hidden", "spans")
        counts.update(dict(zip(names, found.counts.tolist(), strict=True)))
        return features, counts
