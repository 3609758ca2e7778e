"""How a model is looked into."""

import dataclasses

from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectionSettings(Settings):
    """What is a matter of taste, or of time."""

    group = Group.MODEL

    guesses: int = setting(
        8,
        "Guesses shown for each masked token.",
        minimum=1,
        maximum=100,
    )
    attribution_steps: int = setting(
        64,
        "Points between baseline and text at which the gradients of an answer are taken; more of "
        "them make the attributions add up better.",
        minimum=2,
        maximum=1024,
    )
    batch_tokens: int = setting(
        4096,
        "Tokens that are computed at once.",
        group=Group.MACHINE,
        minimum=1,
        maximum=1 << 24,
    )
