"""The interface of encoder configurations of all families."""

import abc
import dataclasses
from typing import Any, ClassVar, Self

from bert_tf.models.field_checks import FieldChecks
from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import counted


class EncoderConfig(FieldChecks, abc.ABC):
    """The configuration of an encoder, stored as bert_config.json.

    Each family is a frozen dataclass with one field per key. `configs` reads those of all families.

    Attributes:
      title: Name of the family in texts.
      portable: Whether runtimes other than TensorFlow support all operations of the family.
      vocabulary_kind: The only kind of vocabulary that the family accepts; None: any.
      model_type: Name of the family.
      vocab_size: Number of token embeddings.
      num_hidden_layers: Number of layers above the embeddings.
      num_attention_heads: Number of attention heads; 0: no attention.
      hidden_dropout_prob: Dropout rate of hidden values.
      initializer_range: Standard deviation of the initial weights of heads.
      type_vocab_size: Number of segment embeddings; 0: token types are ignored.
      causal: Whether the vector of a token depends only on the token and those before it.
      pooler_act: Activation of the pooler; None: no trained pooler.
    """

    title: ClassVar[str]
    portable: ClassVar[bool] = True
    vocabulary_kind: ClassVar[str | None] = None
    model_type: str
    vocab_size: int
    num_hidden_layers: int
    num_attention_heads: int = 0
    hidden_dropout_prob: float
    initializer_range: float
    type_vocab_size: int = 0
    causal: bool = False
    pooler_act: str | None = None

    @property
    @abc.abstractmethod
    def hidden_size(self) -> int:
        """Width of the output of each layer."""

    @property
    def task_dropout(self) -> float:
        """Dropout rate of the heads of tasks."""
        return self.hidden_dropout_prob

    @property
    def num_blocks(self) -> int:
        """Number of layers with weights of their own."""
        return self.num_hidden_layers

    @property
    def default_pad_id(self) -> int:
        """Padding id in the released vocabularies of the family."""
        return 0

    @property
    @abc.abstractmethod
    def max_seq_length(self) -> int:
        """Maximum number of tokens of a sequence."""

    @property
    def size(self) -> str:
        """A short description of the size."""
        heads = [counted(self.num_attention_heads, "head")] if self.num_attention_heads else []
        layers, tokens = counted(self.num_hidden_layers, "layer"), counted(self.vocab_size, "token")
        return ", ".join([layers, f"{self.hidden_size} wide", *heads, tokens])

    @abc.abstractmethod
    def differences(self, *options: str) -> list[str]:
        """Differences from a BERT with these options, such as "position_offset 2"."""

    @abc.abstractmethod
    def with_dropout(self, rate: float) -> Self:
        """A copy with another dropout rate in all layers."""

    def with_initializer_range(self, deviation: float) -> Self:
        """A copy with another standard deviation of initial weights."""
        return dataclasses.replace(self, initializer_range=deviation)  # type: ignore[type-var]

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The keys and values of bert_config.json."""

    def save(self, path: str) -> None:
        """Writes a bert_config.json."""
        json_files.write(path, self.to_dict())

    @abc.abstractmethod
    def check_length(self, length: int | None) -> None:
        """Raises InputError if sequences of `length` tokens exceed the positions."""

    def check_segments(self, segments: int, place: str) -> None:
        """Raises InputError if the segments of sequences from a place exceed the embeddings."""
        if 0 < self.type_vocab_size < segments:
            raise InputError(
                f"{place}: has sequences of {segments} segments, but the model's type_vocab_size "
                f"is {self.type_vocab_size}. Use a model with {segments}, or examples of single "
                "texts (in pre-training, --objective=mlm)."
            )

    def check_vocabulary(self, kind: str, place: str) -> None:
        """Raises InputError if the family does not accept a vocabulary of a kind from a place."""
        if self.vocabulary_kind not in (None, kind):
            raise InputError(
                f"{place}: its vocabulary is of kind {kind}, but a model of model_type "
                f"{self.model_type!r} takes {self.vocabulary_kind}; learn one "
                f"(learn-vocabulary with --kind={self.vocabulary_kind}), and write the examples "
                "with it."
            )
