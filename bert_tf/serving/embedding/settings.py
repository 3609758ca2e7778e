"""How texts become vectors."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, Self

from pipelines.common.flag_groups import Group
from pipelines.common.settings import Settings, setting


class Pooling(enum.StrEnum):
    """What makes one vector of those of all tokens."""

    MEAN = "mean"  # over the tokens, [CLS] and [SEP] too
    CLS = "cls"  # that of the first token
    POOLER = "pooler"  # what the pooler makes of that of the first token
    MAX = "max"  # over the tokens, in each dimension


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingSettings(Settings):
    """All that decides the vectors, beside model and texts."""

    pooling: str = setting(
        Pooling.MEAN,
        "What makes one vector of those of the tokens: their mean or max ([CLS] and [SEP] count), "
        "that of [CLS], or what the pooler makes of it.",
        choices=tuple(Pooling),
        group=Group.MODEL,
    )
    normalize: bool = setting(
        False,
        "Divide each vector by its length (L2), so that products are cosines.",
        group=Group.MODEL,
    )
    layers: tuple[int, ...] = setting(
        (-1,),
        "Which layers' vectors, those of several side by side: 0 the embeddings', 1 the first "
        "block's, -1 the last one's.",
        flag="layer",
        group=Group.MODEL,
    )
    max_length: int | None = setting(
        None,
        "Tokens of a text, special ones included; longer ones are cut. Not given: as many as the "
        "model takes.",
        group=Group.SEQUENCES,
        least=8,
    )
    batch_tokens: int = setting(
        4096,
        "Tokens that are computed at once, padding included.",
        group=Group.MACHINE,
        least=1,
        most=1 << 24,
    )
    precision: str = setting(
        "float32",
        "What to store weights and compute in.",
        group=Group.MACHINE,
        choices=("float32", "bfloat16"),
    )

    @classmethod
    def described(cls, values: Mapping[str, Any]) -> Self:
        """The settings of what `describe` gave.

        Raises:
          InputError: a value is out of its range.
          TypeError: there are others, or they are something else.
        """
        settings = cls(**{**values, "layers": tuple(values["layers"])})
        settings.check()
        return settings
