"""Makers of examples: each plans sequences and turns them into named features."""

from pipelines.pretraining.makers.base import ExampleMaker
from pipelines.pretraining.makers.full_sentences import FullSentences
from pipelines.pretraining.makers.packed import Packed
from pipelines.pretraining.makers.pairs import Pairs
from pipelines.pretraining.makers.spans import Spans
from pipelines.pretraining.settings import ExampleSettings, SequenceKind
from pipelines.tokenizers.base import Tokenizer

MAKERS: dict[SequenceKind, type[ExampleMaker]] = {
    SequenceKind.PAIRS: Pairs,
    SequenceKind.SPANS: Spans,
    SequenceKind.FULL_SENTENCES: FullSentences,
    SequenceKind.PACKED: Packed,
}


def make(settings: ExampleSettings, tokenizer: Tokenizer) -> ExampleMaker:
    """The maker that settings ask for."""
    return MAKERS[settings.sequence_kind](settings, tokenizer)
