"""What a vocabulary is learned as."""

import dataclasses
import enum

from pipelines.common.flag_groups import Group
from pipelines.common.settings import Settings, setting


class VocabularyKind(enum.StrEnum):
    """Kinds of vocabularies that can be learned; names of `registry.KINDS`."""

    WORDPIECE = "wordpiece"  # BERT's
    BYTE_BPE = "byte_bpe"  # GPT-2's and RoBERTa's
    WORD = "word"  # ELMo's: whole words


@dataclasses.dataclass(frozen=True)
class LearningSettings(Settings):
    """Everything, beside the text, that decides a vocabulary."""

    kind: VocabularyKind = setting(
        VocabularyKind.WORDPIECE,
        "wordpiece is BERT's, byte_bpe (byte-level BPE) GPT-2's and RoBERTa's; word is of whole "
        "words, the most frequent ones, for an ELMo.",
        group=Group.VOCABULARY,
        newer=True,
    )
    vocab_size: int = setting(
        30_000,
        "Tokens, special ones included.",
        group=Group.VOCABULARY,
        least=1,
        most=1 << 24,
    )
    character_coverage: float = setting(
        1.0,
        "Share of the characters of the text, counted as often as they occur, that get a token; "
        "words with another one are unknown. Of wordpiece.",
        group=Group.VOCABULARY,
        least=0,
        most=1,
    )
    sample_megabytes: int = setting(
        200,
        "About how much text to learn from, in MB; of more, a sample of documents is taken.",
        group=Group.VOCABULARY,
        least=1,
    )
    seed: int = setting(12345, "Seed of the sample.", group=Group.VOCABULARY)
