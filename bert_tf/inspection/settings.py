"""Settings of the inspection of a model."""

import dataclasses

from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectionSettings(Settings):
    """Settings that trade detail and accuracy for time."""

    group = Group.MODEL

    guesses: int = setting(
        8,
        "Number of predictions to show for each masked token.",
        minimum=1,
        maximum=100,
    )
    attribution_steps: int = setting(
        64,
        "Number of points between baseline and text at which gradients are computed; more points "
        "make the sum of the attributions more accurate.",
        minimum=2,
        maximum=1024,
    )
    batch_tokens: int = 4096  # computed at once
