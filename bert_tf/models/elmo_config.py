"""The configuration of an ELMo (Peters et al. 2018, arXiv 1802.05365)."""

import dataclasses
from typing import Annotated, Any, ClassVar, Self

from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.field_checks import Flag, Positive, Rate, Size, whole
from pipelines.common.errors import InputError
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS, WordVocabulary

MODEL_TYPE = "elmo"
CHARACTERS = 50  # per word: its first bytes, and marks of begin, end and fill
ACTIVATIONS = ("relu", "tanh")
_MAX_LAYERS = 100
_Words = Annotated[int, whole(least=len(SPECIAL_TOKENS))]  # numbers of words


@dataclasses.dataclass(frozen=True)
class ElmoConfig(EncoderConfig):
    """The configuration of an ELMo; one field for each key of bert_config.json.

    The defaults are the original's. A width of 512 in each direction makes vectors of 1,024.

    Raises:
      InputError: A value is invalid, alone or in combination with another.
    """

    vocab_size: _Words = 793_471  # words of the table, and predicted ones (see softmax_size)
    character_size: Size = 16  # width of the character embeddings
    # Convolutions over characters: width and number of filters.
    filters: tuple[tuple[int, int], ...] = (
        *((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    )
    char_act: str = "relu"  # after the maximum over characters, one of ACTIVATIONS
    # Layers above the convolutions.
    num_highway_layers: Annotated[int, whole(least=0, most=_MAX_LAYERS)] = 2
    # LSTM layers of each direction.
    num_hidden_layers: Annotated[int, whole(most=_MAX_LAYERS)] = 2
    cell_size: Size = 4096  # of an LSTM
    projection_size: Size = 512  # of words and of LSTM outputs, in each direction
    cell_clip: Positive | None = 3.0  # cells are clipped to this; None: they are not
    projection_clip: Positive | None = 3.0  # the same for projected outputs
    residual: Flag = True  # whether LSTMs above the first add to their inputs
    hidden_dropout_prob: Rate = 0.1  # dropout rate of the inputs of each LSTM and of the softmax
    initializer_range: Positive = 0.02  # standard deviation of the initial weights of heads
    softmax_size: _Words | None = None  # the first words, which are predicted; None: all words
    sampled_softmax: _Words | None = None  # words sampled in training; None: the full softmax
    max_sequence_length: Size = 512  # no weight depends on it
    model_type: str = MODEL_TYPE

    title: ClassVar[str] = "ELMo"
    portable: ClassVar[bool] = False  # loops over tokens
    vocabulary_kind: ClassVar[str | None] = WordVocabulary.kind

    def __post_init__(self):
        object.__setattr__(self, "filters", _filters(self.filters))
        super().__post_init__()
        self.check_choice("char_act", ACTIVATIONS)
        self.check_choice("model_type", (MODEL_TYPE,))

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """The configuration of a size from "elmo-debug" to "elmo-base", or an InputError."""
        size = SIZES.get(name.removeprefix(f"{MODEL_TYPE}-"))
        if size is None:
            known = ", ".join(f"{MODEL_TYPE}-{size}" for size in SIZES)
            raise InputError(f"model {name!r} is unknown; use {known}, or a file.")
        filters, cells, projection = size
        values: dict[str, Any] = {
            "filters": cls.filters[:filters],
            "cell_size": cells,
            "projection_size": projection,
        }
        return cls(**(values | changes))

    @property
    def hidden_size(self) -> int:
        """Width of a vector of both directions."""
        return 2 * self.projection_size

    @property
    def predicted_words(self) -> int:
        """Number of predicted words, which are the first of the vocabulary."""
        return min(self.softmax_size or self.vocab_size, self.vocab_size)

    @property
    def sampled_words(self) -> int | None:
        """Number of words sampled in training; None: the full softmax."""
        sampled = self.sampled_softmax
        return sampled if sampled is not None and sampled < self.predicted_words else None

    @property
    def max_seq_length(self) -> int:
        """Maximum number of tokens of a sequence."""
        return self.max_sequence_length

    def differences(self, *options: str) -> list[str]:
        """The model type: no option turns a BERT into an ELMo."""
        return [f"model_type {self.model_type!r}"]

    def with_dropout(self, rate: float) -> Self:
        """A copy with another dropout rate."""
        return dataclasses.replace(self, hidden_dropout_prob=rate)

    def check_length(self, length: int | None) -> None:
        """Accepts any length."""

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON values."""
        return dataclasses.asdict(self) | {"filters": [list(pair) for pair in self.filters]}


# Number of the original's convolutions, cells, and width of a direction. Vectors are as wide as
# those of the BERT of the same name (Turc et al. 2019), except for the original's 1,024.
SIZES = {
    "debug": (2, 64, 32),  # for trials
    "tiny": (4, 256, 64),
    "mini": (5, 512, 128),
    "small": (6, 1024, 256),
    "base": (7, 4096, 512),
}


def _filters(value: Any) -> tuple[tuple[int, int], ...]:
    """Converts lists of JSON to pairs of whole numbers, and checks them."""

    def is_pair(pair: Any) -> bool:
        sizes = isinstance(pair, list | tuple) and [type(size) for size in pair] == [int, int]
        return sizes and 0 < pair[0] <= CHARACTERS and 0 < pair[1] <= 1 << 20

    if not isinstance(value, list | tuple) or not value or not all(map(is_pair, value)):
        raise InputError(
            f"filters is {value!r}; it must be pairs of a width, from 1 to {CHARACTERS}, and a "
            "number of filters."
        )
    return tuple((width, count) for width, count in value)
