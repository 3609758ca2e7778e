"""The configuration of an ELMo (Peters et al. 2018, arXiv 1802.05365)."""

import dataclasses
from typing import Any, ClassVar, Self

from bert_tf.models.base_config import EncoderConfig
from pipelines.common.errors import InputError
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS, WordVocabulary

MODEL_TYPE = "elmo"
CHARACTERS = 50  # of a word: its first bytes, and what begins, ends and fills it
ACTIVATIONS = ("relu", "tanh")
_MOST_LAYERS = 100


@dataclasses.dataclass(frozen=True)
class ElmoConfig(EncoderConfig):
    """One field for each key of bert_config.json; defaults are the original's.

    A width of 512 in each direction makes vectors of 1,024.

    Raises:
      InputError: a value makes no sense, alone or with another.
    """

    vocab_size: int = 793_471  # words of the table, and of what is predicted (see softmax_size)
    character_size: int = 16  # width of the embeddings of characters
    # Convolutions over characters: width, and how many there are.
    filters: tuple[tuple[int, int], ...] = (
        *((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    )
    char_act: str = "relu"  # after the greatest value over characters, of ACTIVATIONS
    num_highway_layers: int = 2  # over what the convolutions find
    num_hidden_layers: int = 2  # LSTMs of each direction
    cell_size: int = 4096  # of an LSTM
    projection_size: int = 512  # of words and of outputs of LSTMs, in each direction
    cell_clip: float | None = 3.0  # cells are clipped to this; None: they are not
    projection_clip: float | None = 3.0  # projected outputs likewise
    residual: bool = True  # whether LSTMs above the first add to their inputs
    hidden_dropout_prob: float = 0.1  # of the inputs of each LSTM and of the softmax
    initializer_range: float = 0.02  # standard deviation of the first weights of heads
    softmax_size: int | None = None  # words predicted, of the first; None: all; others are unknown
    sampled_softmax: int | None = None  # words drawn in training in place of these; None: all
    max_sequence_length: int = 512  # no weight depends on it
    model_type: str = MODEL_TYPE

    title: ClassVar[str] = "ELMo"
    portable: ClassVar[bool] = False  # loops over tokens
    vocabulary_kind: ClassVar[str | None] = WordVocabulary.kind

    def __post_init__(self):
        object.__setattr__(self, "filters", _filters(self.filters))
        for name in ("character_size", "cell_size", "projection_size", "max_sequence_length"):
            self.check_whole(name, 1)
        self.check_whole("vocab_size", len(SPECIAL_TOKENS))
        self.check_whole("num_hidden_layers", 1, _MOST_LAYERS)
        self.check_whole("num_highway_layers", 0, _MOST_LAYERS)
        for name in ("softmax_size", "sampled_softmax"):
            if getattr(self, name) is not None:
                self.check_whole(name, len(SPECIAL_TOKENS))
        for name in ("cell_clip", "projection_clip"):
            if getattr(self, name) is not None:
                self.check_positive(name)
        self.check_share("hidden_dropout_prob")
        self.check_positive("initializer_range")
        self.check_flag("residual")
        self.check_choice("char_act", ACTIVATIONS)
        self.check_choice("model_type", (MODEL_TYPE,))

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """A size, from "elmo-debug" to "elmo-base", the original.

        Raises:
          InputError: the name is unknown.
        """
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
        """The width of a vector of both directions."""
        return 2 * self.projection_size

    @property
    def predicted_words(self) -> int:
        """The words that are predicted: the first of the vocabulary."""
        return min(self.softmax_size or self.vocab_size, self.vocab_size)

    @property
    def sampled_words(self) -> int | None:
        """How many words are drawn in training; None: each is computed."""
        sampled = self.sampled_softmax
        return sampled if sampled is not None and sampled < self.predicted_words else None

    @property
    def type_vocab_size(self) -> int:
        """0: types of tokens are ignored."""
        return 0

    @property
    def causal(self) -> bool:
        """False: the vector of a token is of both directions."""
        return False

    @property
    def pooler_act(self) -> None:
        """None: there is no pooler."""
        return None

    @property
    def max_length(self) -> int:
        """The most tokens of a sequence, as the configuration says."""
        return self.max_sequence_length

    @property
    def default_pad_id(self) -> int:
        """The first id."""
        return 0

    def differences(self, *options: str) -> list[str]:
        """All of it: no option makes an ELMo of BERT."""
        return [f"model_type {self.model_type!r}"]

    def with_dropout(self, rate: float) -> Self:
        """The same with another dropout rate."""
        return dataclasses.replace(self, hidden_dropout_prob=rate)

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON values."""
        return dataclasses.asdict(self) | {"filters": [list(pair) for pair in self.filters]}

    def check_length(self, length: int | None) -> None:
        """Any length will do."""

    def check_segments(self, segments: int, place: str) -> None:
        """Any number of segments will do: separators tell them apart."""


# Sizes: convolutions of the original's that it has, cells, and width of a direction; vectors are as
# wide as those of the BERT of that name (Turc et al. 2019), but the original's, 1,024.
SIZES = {
    "debug": (2, 64, 32),  # to try things on
    "tiny": (4, 256, 64),
    "mini": (5, 512, 128),
    "small": (6, 1024, 256),
    "base": (7, 4096, 512),
}


def _filters(value: Any) -> tuple[tuple[int, int], ...]:
    """Checked: pairs of whole numbers, as JSON has them."""

    def is_size(number: Any, most: int) -> bool:
        return isinstance(number, int) and not isinstance(number, bool) and 0 < number <= most

    pairs = [tuple(pair) for pair in value if isinstance(pair, list | tuple)]
    whole = len(pairs) == len(value) and all(
        len(pair) == 2 and is_size(pair[0], CHARACTERS) and is_size(pair[1], 1 << 20)
        for pair in pairs
    )
    if not pairs or not whole:
        raise InputError(
            f"filters is {value!r}; it must be pairs of a width, from 1 to {CHARACTERS}, and a "
            "number of filters."
        )
    return tuple(pairs)
