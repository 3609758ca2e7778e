"""Settings of all that an encoder makes of texts."""

import enum
from typing import Any

from pipelines.common.flag_groups import Group
from pipelines.common.settings import setting


class Pooling(enum.StrEnum):
    """What makes one vector of those of all tokens."""

    MEAN = "mean"  # over the tokens, [CLS] and [SEP] too
    CLS = "cls"  # that of the first token
    POOLER = "pooler"  # what the pooler makes of that of the first token
    MAX = "max"  # over the tokens, in each dimension


def max_length_setting() -> Any:
    """The field `max_length`."""
    return setting(
        None,
        "Tokens of a text, special ones included; longer ones are cut. Not given: as many as the "
        "model takes.",
        group=Group.SEQUENCES,
        least=8,
    )


def batch_tokens_setting() -> Any:
    """The field `batch_tokens`."""
    return setting(
        4096,
        "Tokens that are computed at once, padding included.",
        group=Group.MACHINE,
        least=1,
        most=1 << 24,
    )


def precision_setting() -> Any:
    """The field `precision`."""
    return setting(
        "float32",
        "What to store weights and compute in.",
        group=Group.MACHINE,
        choices=("float32", "bfloat16"),
    )
