"""SentencePiece vocabularies (Kudo and Richardson 2018), as in ALBERT, XLM-R, KoBERT and Gemma."""

import collections
import dataclasses
import functools
import io
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import sentencepiece

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers import sentencepiece_numbering
from pipelines.tokenizers.sentencepiece_numbering import SPACE
from pipelines.tokenizers.vocabulary import (
    ALBERT,
    BERT,
    GEMMA,
    ROBERTA,
    CasedVocabulary,
    ChosenSettings,
    SequenceForm,
    TokenizerSettings,
)

FILE = "spiece.model"
# Characters that are always pieces of their own in ALBERT's vocabulary.
_OWN_PIECES = ("(", ")", '"', "-", ".", "–", "£", "€")
_LONGEST_WORD = 1 << 16  # bytes; SentencePiece leaves out longer ones


@dataclasses.dataclass(frozen=True)
class SentencePieceVocabulary(CasedVocabulary):
    """The pieces of a spiece.model, whose ids are those of the embeddings.

    Published models of other numbering are renumbered when they are read
    (`sentencepiece_numbering`).

    Raises:
      InputError: it is not a SentencePiece model, or lacks a special token.
    """

    model: bytes
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "sentencepiece"
    files: ClassVar[tuple[str, ...]] = (FILE,)
    marker_files: ClassVar[tuple[str, ...]] = (FILE, ".model")
    forms: ClassVar[tuple[SequenceForm, ...]] = (ALBERT, ROBERTA, BERT, GEMMA)
    stored: ClassVar[tuple[str, ...]] = ("kind", *CasedVocabulary.stored)
    learned: ClassVar[Mapping[str, bool | None]] = {"lower_case": True, "strip_accents": True}

    def __post_init__(self, name: str):
        try:
            self.processor.LoadFromSerializedProto(self.model)
            self.check_special_tokens(name)
        except (RuntimeError, UnicodeDecodeError) as error:  # also of a piece that is not UTF-8
            raise InputError(f"{name}: is not a SentencePiece model ({error}).") from error

    @functools.cached_property
    def processor(self) -> sentencepiece.SentencePieceProcessor:
        """The tokenizer of the library."""
        return sentencepiece.SentencePieceProcessor()

    @functools.cached_property
    def tokens(self) -> tuple[str, ...]:  # type: ignore[override]  # a field in other classes
        """The pieces in the order of ids."""
        return tuple(map(self.processor.id_to_piece, range(self.processor.get_piece_size())))

    @classmethod
    def load(cls, path: str) -> Self:
        path = f"{path}/{FILE}" if files.gfile.isdir(path) else path
        return cls(files.read_whole(path), path)

    @classmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns a unigram model, with the settings of ALBERT's except for the size.

        There are fewer pieces if the text does not have enough.
        """
        if not words:
            raise InputError("the corpus has no words to learn a vocabulary from.")
        texts = ((word.decode(), count) for word, count in sorted(words.items()))
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(f"{w}\t{n}" for w, n in texts if len(w) < _LONGEST_WORD // 4),
                input_format="tsv",
                model_writer=model,
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=coverage,
                max_sentence_length=_LONGEST_WORD,
                pad_id=0,
                unk_id=1,
                bos_id=-1,
                eos_id=-1,
                control_symbols=[ALBERT.roles[role] for role in ("start", "separator", "mask")],
                user_defined_symbols=list(_OWN_PIECES),
                num_threads=1,  # with several, sums depend on their order
                minloglevel=2,
            )
        except RuntimeError as error:
            raise InputError(
                f"no SentencePiece vocabulary of {size} can be learned from this text ({error}); "
                "choose another --vocab_size, or give more text."
            ) from error
        return cls(model.getvalue())

    def contents(self) -> tuple[bytes, ...]:
        return (self.model,)

    def _decided(self, chosen: TokenizerSettings) -> TokenizerSettings:
        """Text is lower-cased if no piece has a capital; accents are stripped."""
        if self.takes_text_as_is:
            return {"lower_case": False, "strip_accents": False}
        return {**super()._decided(chosen), "strip_accents": True}

    @property
    def takes_text_as_is(self) -> bool:
        """Whether SentencePiece normalizes texts alone, as in XLM-R, CamemBERT and Gemma."""
        return self.form in (ROBERTA, GEMMA)

    @functools.cached_property
    def added(self) -> tuple[str, ...]:
        return sentencepiece_numbering.added(self.model) if self.form is GEMMA else ()

    @functools.cached_property
    def cuts_words(self) -> bool:
        """Whether a text is cut before each space, and begins with one, as in mmBERT."""
        return self.form is GEMMA and sentencepiece_numbering.cuts_words(self.model)

    def numbered(self, pieces: Sequence[tuple[str, float]]) -> dict[str, int]:
        """The ids of pieces with scores; -1 if the score here is another.

        That of ALBERT's pieces such as "1," is lower in transformers.
        """
        found = {}
        for number, (piece, score) in enumerate(pieces):
            own = self.processor.get_score(number) if number < len(self) else math.nan
            is_divided = piece[-1:] == "," and piece[-2:-1].isdigit()
            lowered = own - 100 * (is_divided and not self.takes_text_as_is)
            found[piece] = number if min(abs(score - own), abs(score - lowered)) < 1e-3 else -1
        return found

    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        chosen = [name for name in self.usual if settings.get(name)]
        if self.takes_text_as_is and chosen:
            raise InputError(
                f"{place}: the vocabulary is like {self.form.model}'s, which changes no text "
                f"before SentencePiece; use --{chosen[0]}=false."
            )
        super().check_settings(settings, place)

    def text(self, pieces: Sequence[str]) -> str:
        if self.form is GEMMA:  # which has bytes
            found = b"".join(map(self.bytes_of, pieces)).decode(errors="replace")
            return found.removeprefix(" ") if self.cuts_words else found
        return "".join(pieces).replace(SPACE, " ").removeprefix(" ")

    def bytes_of(self, token: str) -> bytes:
        if self.form is GEMMA and token in sentencepiece_numbering.BYTES:
            return sentencepiece_numbering.BYTES[token]
        return token.replace(SPACE, " ").encode()
