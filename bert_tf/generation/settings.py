"""Settings of text generation."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Group, Range
from pipelines.common.settings import Settings

_LOWEST = 1e-6  # temperature above 0: the logits divided by it must be finite


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationSettings(Settings):
    """How the next tokens of a text are chosen.

    Flags:
      max_new_tokens: Maximum number of tokens to generate.
      min_new_tokens: Minimum number of tokens before the text may end.
      temperature: 0: the most probable token. Above: sample, with logits divided by this.
      top_k: Sample from this many most probable tokens; 0: all.
      top_p: Sample from the fewest most probable tokens whose probabilities sum to this (nucleus).
      beams: Beams of beam search; 1: none.
      length_penalty: Beam search divides the log-probability of a text by its length to this power.
      early_stopping: Stop beam search once as many texts have ended as there are beams.
      unique_ngram: No sequence of this many tokens may occur twice, a prompt (but not a source)
        included; 0: any may.
      seed: Seed of sampling: the same seed and text give the same result.
    """

    group = Group.MODEL

    max_new_tokens: Count = 64
    min_new_tokens: Annotated[int, Range(minimum=0)] = 0
    temperature: Annotated[float, Range(minimum=0, maximum=1e6)] = 0.0
    top_k: Annotated[int, Range(minimum=0, maximum=2**31 - 1)] = 0
    top_p: Annotated[float, Range(above=0, maximum=1)] = 1.0
    beams: Annotated[int, Range(minimum=1, maximum=64)] = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    unique_ngram: Annotated[int, Range(minimum=0, maximum=64)] = 0
    seed: Annotated[int, Range(minimum=0, maximum=2**31 - 1)] = 0

    def check(self) -> None:
        """Raises InputError if a value is out of range, or values do not go together."""
        super().check()
        if self.beams > 1 and self.temperature:
            raise InputError(
                f"--temperature: beam search (here with {self.beams} beams) does not sample; give "
                "--beams=1, too, or leave it out."
            )
        if 0 < self.temperature < _LOWEST:
            raise InputError(
                f"--temperature={self.temperature} must be 0, the most probable token, or at least "
                f"{_LOWEST}."
            )
        if self.min_new_tokens > self.max_new_tokens:
            raise InputError(
                f"--min_new_tokens={self.min_new_tokens} is above "
                f"--max_new_tokens={self.max_new_tokens}."
            )
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise InputError("--top_k and --top_p restrict sampling; give a --temperature, too.")

    def check_given(self, given: Mapping[str, Any]) -> None:
        """Raises InputError if a given value, which these settings have, is without effect."""
        self.check()
        beams, sampling = ("beam search", "--beams"), ("sampling", "a --temperature")
        for name, usual, has_effect, (use, remedy) in (
            ("early_stopping", False, self.beams > 1, beams),
            ("length_penalty", 1.0, self.beams > 1, beams),
            ("seed", 0, self.temperature > 0, sampling),
        ):
            if not has_effect and given.get(name, usual) != usual:
                raise InputError(f"--{name} is for {use}; give {remedy}, too.")
