"""What a family of models is called in transformers: its classes, weights and keys."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf import tasks
from bert_tf.models.config import BertConfig


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A class of transformers.

    Attributes:
      name: of the class.
      needs: groups of weights (`bundle.POOLER`, ...) without which it is not whole.
      lacks: groups that it has no place for.
      head: its layer that is the head of a task; None: it is for no task.
      pooler: its layer that is our pooler. {prefix} is the encoder's.
      causal: whether it is for left-to-right models or for others; None: for both.
    """

    name: str = ""
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    head: str | None = None
    pooler: str = "{prefix}pooler.dense"
    causal: bool | None = None

    @property
    def bare(self) -> bool:
        """Whether it is an encoder alone, whose weights have no prefix."""
        return not self.needs and self.head is None


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
      model_type: in config.json, and in ours.
      title: what people call it.
      prefix: of the encoder's weights, where there are others besides.
      names: of weights, by ours, as `table.Table` takes them; {prefix} is the encoder's. Poolers
        and heads of tasks are missing: classes call them differently.
      tied: names of copies of weights that files may have, or have instead, by the weight's name.
      pretraining: classes without a task, the encoder alone last; a model is written as the first
        that it has all weights for.
      class_name: what the names of its classes begin with.
      pooled_head: the class of a task whose head reads the pooled output, without name and head.
      token_head: the class of a task whose head reads every token, likewise.
      heads: classes that differ from these, by what follows "For" in their names.
      fixed: keys of config.json of which one value only is this family's.
      defaults: what keys of config.json are where they are absent, if not as in `BertConfig`.
      options: those of `BertConfig` that it can have besides `causal`.
      to_options: the options, of the values of config.json.
      to_keys: further keys of config.json, of our configuration.
      tokenizer: the kind of its vocabulary.
      head_act: the activation in its masked LM head, where that is not the encoder's.
    """

    model_type: str
    title: str
    prefix: str
    names: Mapping[str, str]
    tied: Mapping[str, str]
    pretraining: tuple[Architecture, ...]
    class_name: str
    pooled_head: Architecture
    token_head: Architecture
    fixed: Mapping[str, Any]
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: frozenset[str] = frozenset()
    to_options: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    to_keys: Callable[[BertConfig], dict[str, Any]] = lambda _: {}
    tokenizer: str = "wordpiece"
    head_act: str | None = None
    heads: Mapping[str, Architecture] = dataclasses.field(default_factory=dict)

    @property
    def tasks(self) -> dict[str, Architecture]:
        """Classes by the names of the task shapes that have one."""
        found = {}
        for shape in tasks.shapes().values():
            if head := shape.transformers:
                per_token = shape.tasks[shape.default_kind].per_token
                usual = self.token_head if per_token else self.pooled_head
                made_of = self.heads.get(head.name, usual)
                found[shape.name] = dataclasses.replace(
                    made_of,
                    name=f"{self.class_name}For{head.name}",
                    head=made_of.head or head.layer,
                )
        return found

    def architecture(self, values: Mapping[str, Any]) -> Architecture:
        """The class that config.json names first; the encoder alone if that one is unknown."""
        names = values.get("architectures")
        name = str(names[0]) if isinstance(names, list) and names else ""
        known = {item.name: item for item in (*self.pretraining, *self.tasks.values())}
        return known.get(name) or self.pretraining[-1]
