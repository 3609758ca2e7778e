"""What all rooms ask of the configuration of an encoder, of whatever family it is."""

import abc
import dataclasses
import math
from collections.abc import Set
from typing import Any, ClassVar, Self

from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import counted

LARGEST_SIZE = (1 << 31) - 1


class EncoderConfig(abc.ABC):
    """The sizes of an encoder, as they stand in a bert_config.json.

    A family is a frozen dataclass: a field for each key. `configs` reads that of any family.

    Attributes:
      title: what people call the family.
      foreign_keys: of configurations of others, which do not concern the encoder.
      portable: whether other runtimes than TensorFlow have all that the family computes with.
      vocabulary_kind: of vocabularies, the one that the family takes; None: any.
    """

    title: ClassVar[str]
    foreign_keys: ClassVar[Set[str]] = frozenset()
    portable: ClassVar[bool] = True
    vocabulary_kind: ClassVar[str | None] = None

    @property
    @abc.abstractmethod
    def model_type(self) -> str:
        """The family."""

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """Tokens that there are embeddings for."""

    @property
    @abc.abstractmethod
    def hidden_size(self) -> int:
        """The width of what each layer gives."""

    @property
    @abc.abstractmethod
    def num_hidden_layers(self) -> int:
        """Layers above the embeddings."""

    @property
    def num_blocks(self) -> int:
        """Layers that have weights of their own."""
        return self.num_hidden_layers

    @property
    @abc.abstractmethod
    def hidden_dropout_prob(self) -> float:
        """The share of hidden values that is dropped in training."""

    @property
    @abc.abstractmethod
    def initializer_range(self) -> float:
        """The standard deviation of the first weights of heads."""

    @property
    @abc.abstractmethod
    def type_vocab_size(self) -> int:
        """Segments that there are embeddings for; 0: types of tokens are ignored."""

    @property
    @abc.abstractmethod
    def causal(self) -> bool:
        """Whether the vector of a token depends on it and those before it alone."""

    @property
    @abc.abstractmethod
    def pooler_act(self) -> str | None:
        """The activation of the pooler; None: there is none that is trained."""

    @property
    @abc.abstractmethod
    def max_length(self) -> int:
        """The most tokens of a sequence."""

    @property
    @abc.abstractmethod
    def default_pad_id(self) -> int:
        """The id of padding in the usual vocabularies of the family."""

    @property
    def size(self) -> str:
        """Its size in a few words."""
        return (
            f"{counted(self.num_hidden_layers, 'layer')}, {self.hidden_size} wide, "
            f"{counted(self.vocab_size, 'token')}"
        )

    @abc.abstractmethod
    def differences(self, *options: str) -> list[str]:
        """What it has that BERT with these options has not, such as "position_offset 2"."""

    @abc.abstractmethod
    def with_dropout(self, rate: float) -> Self:
        """The same with another dropout rate, of all layers."""

    def with_initializer_range(self, deviation: float) -> Self:
        """The same with another standard deviation of first weights."""
        return dataclasses.replace(self, initializer_range=deviation)  # type: ignore[type-var]

    @classmethod
    def from_dict(cls, values: dict[str, Any], name: str = "the configuration") -> Self:
        """Makes a configuration of the keys of bert_config.json.

        Keys that other programs add are let through if they are known.

        Raises:
          InputError: an unknown key, or a value that makes no sense.
        """
        fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(values.keys() - fields - cls.foreign_keys)
        if unknown:
            raise InputError(
                f"{name}: unknown key {', '.join(map(repr, unknown))}; the keys are "
                f"{', '.join(sorted(fields))}."
            )
        try:
            return cls(**{key: value for key, value in values.items() if key in fields})
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    @classmethod
    def load(cls, path: str) -> Self:
        """Reads a bert_config.json of the family.

        Raises:
          InputError: the file is missing, not JSON, or `from_dict` fails.
        """
        return cls.from_dict(json_files.read(path, dict[str, Any]), path)

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The keys and values of bert_config.json."""

    def save(self, path: str) -> None:
        """Writes a bert_config.json."""
        json_files.write(path, self.to_dict())

    @abc.abstractmethod
    def check_length(self, length: int | None) -> None:
        """Raises InputError where sequences of so many tokens are too long."""

    @abc.abstractmethod
    def check_segments(self, segments: int, place: str) -> None:
        """Raises InputError where sequences of so many segments exceed the segment table.

        Args:
          segments: that the types of tokens tell apart; 1 where separators alone do.
          place: where the sequences come from.
        """

    def check_vocabulary(self, kind: str, place: str) -> None:
        """Raises InputError where the family takes no vocabularies of a kind.

        Args:
          kind: of `tokenizers.registry.KINDS`.
          place: where the vocabulary is from.
        """
        if self.vocabulary_kind not in (None, kind):
            raise InputError(
                f"{place}: its vocabulary is of kind {kind}, and a model of model_type "
                f"{self.model_type!r} takes {self.vocabulary_kind}; learn one "
                f"(learn-vocabulary with --kind={self.vocabulary_kind}), and write the examples "
                "with it."
            )

    def check_whole(self, name: str, least: int, most: int = LARGEST_SIZE) -> None:
        """Raises InputError where a field is no whole number in a range."""
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{name} is {value!r}; it must be a whole number of {least} or more.")
        if value > most:
            raise InputError(f"{name} is too large; it must be {most:,} or less.")

    def check_share(self, name: str) -> None:
        """Raises InputError where a field is no number from 0 to below 1."""
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise InputError(f"{name} is {value!r}; it must be from 0 to below 1.")

    def check_positive(self, name: str) -> None:
        """Raises InputError where a field is no finite number above 0."""
        value = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise InputError(f"{name} is {value!r}; it must be a number above 0.")

    def check_flag(self, name: str) -> None:
        """Raises InputError where a field is neither true nor false."""
        if not isinstance(getattr(self, name), bool):
            raise InputError(f"{name} is {getattr(self, name)!r}; it must be true or false.")

    def check_choice(self, name: str, known: tuple[str, ...]) -> None:
        """Raises InputError where a field is none of some names."""
        value = getattr(self, name)
        if value not in known:
            raise InputError(f"{name} {value!r} is unknown; use one of {', '.join(known)}.")
