"""Settings that flags name: of learning a vocabulary, and of cutting texts."""

import dataclasses
import enum
from typing import Annotated

from pipelines.common.flag_types import Count, Group, Range
from pipelines.common.settings import Settings


class VocabularyKind(enum.StrEnum):
    """Kinds of vocabularies that can be learned, as named in `registry.KINDS`."""

    WORDPIECE = "wordpiece"  # BERT's
    BPE = "bpe"  # GPT's
    BYTE_BPE = "byte_bpe"  # GPT-2's and RoBERTa's
    SENTENCEPIECE = "sentencepiece"  # ALBERT's
    WORD = "word"  # whole words, for ELMo


@dataclasses.dataclass(frozen=True)
class LearningSettings(Settings):
    """All settings that, together with the text, decide a vocabulary.

    Flags:
      kind: wordpiece is BERT's, bpe that of GPT, byte_bpe (byte-level BPE) that of GPT-2 and
        RoBERTa, sentencepiece (a unigram model) that of ALBERT; word has the most frequent whole
        words, for an ELMo.
      vocab_size: Number of tokens, special tokens included.
      character_coverage: Fraction of the characters of the text, counted as often as they occur,
        that get a token; words with other characters are unknown. Not for byte_bpe and word.
      sample_megabytes: Approximate amount of text to learn from, in MB of its files, which may be
        compressed; of more text, documents are sampled.
      seed: Seed of the sample.
    """

    group = Group.EXAMPLES

    kind: VocabularyKind = VocabularyKind.WORDPIECE
    vocab_size: Annotated[int, Range(minimum=1, maximum=1 << 24)] = 30_000
    character_coverage: Annotated[float, Range(minimum=0, maximum=1)] = 1.0
    sample_megabytes: Count = 200
    seed: int = 12345


class Keep(enum.StrEnum):
    """What is kept of a text that is too long: its beginning, its end, or a quarter and the rest.

    The last was best for reviews in Sun et al. 2019 (arXiv 1905.05583, section 5.3.1).
    """

    HEAD = "head"
    TAIL = "tail"
    BOTH = "both"
