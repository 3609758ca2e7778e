"""Settings for learning a vocabulary."""

import dataclasses
import enum

from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting


class VocabularyKind(enum.StrEnum):
    """Kinds of vocabularies that can be learned, as named in `registry.KINDS`."""

    WORDPIECE = "wordpiece"  # BERT's
    BPE = "bpe"  # GPT's
    BYTE_BPE = "byte_bpe"  # GPT-2's and RoBERTa's
    SENTENCEPIECE = "sentencepiece"  # ALBERT's
    WORD = "word"  # whole words, for ELMo


@dataclasses.dataclass(frozen=True)
class LearningSettings(Settings):
    """All settings that, together with the text, decide a vocabulary."""

    group = Group.EXAMPLES

    kind: VocabularyKind = setting(
        VocabularyKind.WORDPIECE,
        "wordpiece is BERT's, bpe that of GPT, byte_bpe (byte-level BPE) that of GPT-2 and "
        "RoBERTa, sentencepiece (a unigram model) that of ALBERT; word has the most frequent whole "
        "words, for an ELMo.",
    )
    vocab_size: int = setting(
        30_000, "Number of tokens, special tokens included.", minimum=1, maximum=1 << 24
    )
    character_coverage: float = setting(
        1.0,
        "Fraction of the characters of the text, counted as often as they occur, that get a token; "
        "words with other characters are unknown. Not for byte_bpe and word.",
        minimum=0,
        maximum=1,
    )
    sample_megabytes: int = setting(
        200,
        "Approximate amount of text to learn from, in MB of its files, which may be compressed; of "
        "more text, documents are sampled.",
        minimum=1,
    )
    seed: int = setting(12345, "Seed of the sample.")
