"""Settings of the inspection of a model."""

import dataclasses
from typing import Annotated

from pipelines.common.flag_types import Group, Range
from pipelines.common.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectionSettings(Settings):
    """Settings that trade detail and accuracy for time.

    Flags:
      guesses: Number of predictions to show for each masked token.
      attribution_steps: Number of points between baseline and text at which gradients are computed;
        more points make the sum of the attributions more accurate.
    """

    group = Group.MODEL

    guesses: Annotated[int, Range(minimum=1, maximum=100)] = 8
    attribution_steps: Annotated[int, Range(minimum=2, maximum=1024)] = 64
    batch_tokens: int = 4096  # computed at once
