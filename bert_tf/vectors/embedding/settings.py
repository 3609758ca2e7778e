"""How texts become vectors."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from bert_tf.vectors.encoding.settings import (
    Pooling,
    batch_tokens_setting,
    max_length_setting,
    precision_setting,
)
from pipelines.common.flag_groups import Group
from pipelines.common.settings import Settings, setting


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
    max_length: int | None = max_length_setting()
    batch_tokens: int = batch_tokens_setting()
    precision: str = precision_setting()

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
