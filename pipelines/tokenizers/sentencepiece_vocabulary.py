"""SentencePiece vocabularies (Kudo and Richardson 2018), as in ALBERT."""

import collections
import dataclasses
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import sentencepiece
import tensorflow as tf

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.sentencepiece_normalizer import PieceNormalizer
from pipelines.tokenizers.vocabulary import CasedVocabulary, ChosenSettings, TokenizerSettings

FILE = "spiece.model"
SPACE = "▁"  # stands for the space before a word
ROLES = {
    "pad": "<pad>",
    "unknown": "<unk>",
    "start": "[CLS]",
    "separator": "[SEP]",
    "mask": "[MASK]",
}
# Characters that are always pieces of their own in ALBERT's vocabulary.
_OWN_PIECES = ("(", ")", '"', "-", ".", "–", "£", "€")
_LONGEST_WORD = 1 << 16  # bytes; SentencePiece leaves out longer ones


@dataclasses.dataclass(frozen=True)
class SentencePieceVocabulary(CasedVocabulary):
    """The pieces of a spiece.model.

    Raises:
      InputError: it is not a SentencePiece model, or lacks a special token.
    """

    model: bytes
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "sentencepiece"
    files: ClassVar[tuple[str, ...]] = (FILE,)
    marker_files: ClassVar[tuple[str, ...]] = (FILE, ".model")
    roles: ClassVar[Mapping[str, str]] = ROLES

    def __post_init__(self, name: str):
        try:
            self.processor.LoadFromSerializedProto(self.model)
            missing = [role for role in ROLES.values() if role not in self.tokens]
        except (RuntimeError, ValueError) as error:  # also of a piece that is not UTF-8
            raise InputError(f"{name}: is not a SentencePiece model ({error}).") from error
        if missing:
            raise InputError(
                f"{name}: lacks {', '.join(missing)}; a vocabulary like ALBERT's has "
                f"{', '.join(ROLES.values())}."
            )

    @functools.cached_property
    def processor(self) -> sentencepiece.SentencePieceProcessor:
        """The tokenizer of the library."""
        return sentencepiece.SentencePieceProcessor()

    def score(self, index: int) -> float:
        """The logarithm of the probability of a piece."""
        return self.processor.get_score(index)

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
                control_symbols=[ROLES["start"], ROLES["separator"], ROLES["mask"]],
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

    @classmethod
    def learning_settings(cls, chosen: Mapping[str, bool]) -> dict[str, bool | None]:
        return {name: chosen.get(name, True) for name in cls.setting_types}

    @classmethod
    def splitter(cls, settings: Mapping[str, bool | None]) -> Callable[[list[str]], tf.Tensor]:
        return PieceSplitter(bool(settings["lower_case"]), bool(settings["strip_accents"]))

    def contents(self) -> tuple[bytes, ...]:
        return (self.model,)

    def resolve(self, settings: ChosenSettings) -> TokenizerSettings:
        """Text is lower-cased if no piece has a capital; accents are stripped."""
        chosen = {"lower_case": not self.is_cased, "strip_accents": True}
        chosen |= {k: bool(v) for k, v in settings.items() if k in chosen and v is not None}
        return {"kind": self.kind, **chosen}

    @property
    def is_cased(self) -> bool:
        """Whether a piece other than the special ones has a capital letter."""
        special = ROLES.values()
        return any(token != token.lower() for token in self.tokens if token not in special)

    def text(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace(SPACE, " ").removeprefix(" ")

    def bytes_of(self, token: str) -> bytes:
        return token.replace(SPACE, " ").encode()


@dataclasses.dataclass(frozen=True)
class PieceSplitter:
    """Normalizes texts and splits them at white space; can be pickled."""

    lower_case: bool
    strip_accents: bool

    def __call__(self, texts: list[str]) -> tf.Tensor:
        """Returns all words of the texts, string [words]."""
        normalized = _normalizer(self.lower_case, self.strip_accents)(texts)
        words = tf.strings.split(normalized, " ").flat_values
        return tf.boolean_mask(words, words != "")


# Created once per process, so that a splitter can be pickled.
_normalizer = functools.cache(PieceNormalizer)
