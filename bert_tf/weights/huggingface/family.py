"""The classes, weights and keys of a family of models in transformers."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from pipelines.common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model class of transformers.

    Attributes:
      name: Name of the class.
      needs: Groups of weights (`bundle.POOLER`, ...) that it requires.
      lacks: Groups that it does not have.
      head: Its layer that is the head of a task; None: no task.
      pooler: Its layer that has the weights of our pooler. {prefix} stands for that of the encoder.
      names: Names that only this class has, in addition to those of the family.
      causal: Whether it is for left-to-right models or for others; None: for both.
      biased: Whether the head has a bias; ours always has one.
      only: Keys of config.json that its outputs depend on, with the values that are supported.
      zeros: A weight [1, vocab_size] that is zero in all its models; None: there is none.
    """

    name: str = ""
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    head: str | None = None
    pooler: str = "{prefix}pooler.dense"
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    causal: bool | None = None
    biased: bool = True
    zeros: str | None = None
    only: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)


def whole(values: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """The whole number of a key of config.json; an InputError if it is none."""
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{key} is {value!r}; it must be a whole number.")
    return value


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
      model_type: Name in config.json, and in ours.
      title: Name in messages.
      class_name: Prefix of the names of its classes.
      prefix: Prefix of the encoder's weights in a class with heads.
      names: Their names of weights by ours, as in `Table.names`, with {prefix}; poolers and heads
        of tasks depend on the class.
      tied: Copies of weights that files may contain additionally or instead, with the name of the
        weight; both with {prefix}.
      pretraining: Classes without a task, the bare encoder last; a model is written as the first
        that has all its weights.
      pooled_head: The class of a task whose head reads the pooled output, without name and head.
      token_head: The same for a head that reads every token.
      heads: Classes that differ from these, by the part of their names after "For".
      lacking_heads: Names of classes, after "For", that do not exist.
      keys: Keys of config.json that are followed, with our names of their values.
      further_keys: Further keys that are followed, by `to_options`.
      aliases: Other names of their keys.
      harmless: Keys of the family that change no output; some are dropout rates of training.
      only: Keys with the values that are supported.
      defaults: Values of missing keys of config.json that differ from those in `BertConfig`.
      fixed: Values of our configuration that all models of the family have.
      options: Supported options of `BertConfig`, in addition to those in `keys` and `fixed`.
      to_options: Converts the values of config.json to options.
      to_keys: Returns further keys of config.json for our configuration.
      transposed: Prefix of our names of the matrices that they store transposed.
      token_keys: Keys of config.json with the id of a token, by its role in the vocabulary. Those
        with defaults are compared with the tokenizer.
      tokenizer: The kind of its vocabulary.
      head_act: The activation in its masked LM head; None: that of the encoder.
    """

    model_type: str
    title: str
    class_name: str
    prefix: str
    names: Mapping[str, str]
    tied: Mapping[str, str]
    pretraining: tuple[Architecture, ...]
    pooled_head: Architecture
    token_head: Architecture
    heads: Mapping[str, Architecture] = dataclasses.field(default_factory=dict)
    lacking_heads: frozenset[str] = frozenset()
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    further_keys: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    harmless: frozenset[str] = frozenset()
    only: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: frozenset[str] = frozenset()
    to_options: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    to_keys: Callable[[BertConfig], dict[str, Any]] = lambda _: {}
    transposed: str = ""
    token_keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tokenizer: str = "wordpiece"
    head_act: str | None = None

    @property
    def supported(self) -> frozenset[str]:
        """Names of the options of `BertConfig` that the family supports."""
        typed = {"type_vocab_size"}  # without segments only if that is fixed
        return self.options | (set(self.keys.values()) - typed) | self.fixed.keys() | {"model_type"}

    @property
    def followed(self) -> frozenset[str]:
        """The keys of config.json that decide about outputs or about training."""
        ids = self.token_keys.keys() & self.defaults.keys()
        return frozenset([*self.keys, *self.further_keys, *self.aliases, *ids])

    @property
    def tasks(self) -> dict[str, Architecture]:
        """The classes of the task shapes that transformers supports, by name of the shape."""
        found = {}
        for shape in tasks.shapes().values():
            head = shape.transformers
            if head and head.name not in self.lacking_heads:
                per_token = shape.tasks[shape.default_kind].per_token
                default = self.token_head if per_token else self.pooled_head
                architecture = self.heads.get(head.name, default)
                found[shape.name] = dataclasses.replace(
                    architecture,
                    name=architecture.name or f"{self.class_name}For{head.name}",
                    head=architecture.head or head.layer,
                )
        return found

    def architecture(self, values: Mapping[str, Any]) -> Architecture:
        """The class that config.json names first; the bare encoder if that is unknown."""
        known = {item.name: item for item in (*self.pretraining, *self.tasks.values())}
        return known.get(stated_class(values)) or self.pretraining[-1]


def stated_class(values: Mapping[str, Any]) -> str:
    """The name of the class that config.json names first; "" if it names none."""
    names = values.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""
