"""Settings of text generation."""

import dataclasses

from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationSettings(Settings):
    """How the next tokens of a text are chosen."""

    group = Group.MODEL

    max_new_tokens: int = setting(64, "Maximum number of tokens to generate.", minimum=1)
    min_new_tokens: int = setting(0, "Minimum number of tokens before the text may end.", minimum=0)
    temperature: float = setting(
        0.0,
        "0: the most probable token. Above: sample, with logits divided by this.",
        minimum=0,
    )
    top_k: int = setting(
        0, "Sample from this many most probable tokens; 0: all.", minimum=0, maximum=2**31 - 1
    )
    top_p: float = setting(
        1.0,
        "Sample from the fewest most probable tokens whose probabilities sum to this (nucleus).",
        above=0,
        maximum=1,
    )
    beams: int = setting(1, "Beams of beam search; 1: none.", minimum=1, maximum=64)
    length_penalty: float = setting(
        1.0, "Beam search divides the log-probability of a text by its length to this power."
    )
    early_stopping: bool = setting(
        False, "Stop beam search once as many texts have ended as there are beams."
    )
    unique_ngram: int = setting(
        0,
        "No sequence of this many tokens may occur twice, a prompt (but not a source) included; "
        "0: any may.",
        minimum=0,
        maximum=64,
    )
    seed: int = setting(
        0,
        "Seed of sampling: the same seed and text give the same result.",
        minimum=0,
        maximum=2**31 - 1,
    )

    def check(self) -> None:
        """Raises InputError if a value is out of range, or values do not go together."""
        super().check()
        if self.beams > 1 and self.temperature:
            raise InputError(
                "--beams and --temperature: beam search does not sample; leave one of them out."
            )
        if self.early_stopping and self.beams == 1:
            raise InputError("--early_stopping is for beam search; give --beams, too.")
        if self.min_new_tokens > self.max_new_tokens:
            raise InputError(
                f"--min_new_tokens={self.min_new_tokens} is above "
                f"--max_new_tokens={self.max_new_tokens}."
            )
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise InputError("--top_k and --top_p restrict sampling; give a --temperature, too.")
