"""Example makers, each of which plans sequences and turns them into features."""

from pipelines.pretraining.makers.base import ExampleMaker
from pipelines.pretraining.makers.running_text import FullSentences, PackedText, TextStream
from pipelines.pretraining.makers.segments import SentencePairs, SentenceSegments, SentenceSpans
from pipelines.pretraining.settings import ExampleSettings, SequenceKind
from pipelines.tokenizers.base import Tokenizer

MAKERS: dict[SequenceKind, type[ExampleMaker]] = {
    SequenceKind.PAIRS: SentencePairs,
    SequenceKind.SEGMENTS: SentenceSegments,
    SequenceKind.SPANS: SentenceSpans,
    SequenceKind.FULL_SENTENCES: FullSentences,
    SequenceKind.PACKED: PackedText,
    SequenceKind.STREAM: TextStream,
}


def make(settings: ExampleSettings, tokenizer: Tokenizer) -> ExampleMaker:
    """Returns the example maker for the settings."""
    return MAKERS[settings.sequence_kind](settings, tokenizer)
