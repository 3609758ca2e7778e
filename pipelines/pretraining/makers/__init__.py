"""Makers of examples: each plans sequences and turns them into named features."""

from pipelines.pretraining.makers.base import ExampleMaker
from pipelines.pretraining.makers.running_text import FullSentences, Packed
from pipelines.pretraining.makers.segments import Pairs, Spans
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
