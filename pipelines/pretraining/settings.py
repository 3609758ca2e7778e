"""What examples are asked for."""

import dataclasses
import enum
from typing import Any

from pipelines.common import memory
from pipelines.common.errors import InputError

# Sequences that are made at once, and bytes of each of their tokens: ids, masks, segments and
# what they are written as.
BLOCK = 4096
_BYTES_A_TOKEN = 32


class Objective(enum.StrEnum):
    """What the examples are for."""

    MLM_NSP = "mlm_nsp"  # masked LM and next-sentence prediction (the paper)
    MLM = "mlm"  # masked LM alone ("No NSP", paper section 5.1)
    LEFT_TO_RIGHT = "left_to_right"  # each token from those before it ("LTR & No NSP")


class Masking(enum.StrEnum):
    """When the tokens to predict are chosen."""

    STATIC = "static"  # once, when the examples are written
    DYNAMIC = "dynamic"  # anew in every step of training (RoBERTa, section 4.1)


class SequenceKind(enum.StrEnum):
    """What a sequence is made of; a name of `makers.MAKERS`."""

    AUTO = "auto"  # pairs where there is next-sentence prediction, else spans
    PAIRS = "pairs"  # two segments, the second one random in half of the examples
    SPANS = "spans"  # whole sentences of one document
    FULL_SENTENCES = "full_sentences"  # whole sentences, across documents (RoBERTa, section 4.2)


@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """Everything, beside text and vocabulary, that decides the examples."""

    objective: Objective = Objective.MLM_NSP
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    dupe_factor: int = 10  # times that each document is used, with other pairs and masks
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    whole_word_mask: bool = False
    held_out_fraction: float = 0.0  # share of the documents kept apart for evaluation
    seed: int = 12345
    sequences: SequenceKind = SequenceKind.AUTO
    masking: Masking = Masking.STATIC
    mask_share: float = 0.8  # of the chosen tokens, those that become the mask
    random_share: float = 0.1  # those that become any token; the rest is kept

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        shares = 0 <= self.mask_share <= 1 and 0 <= self.random_share <= 1 - self.mask_share + 1e-9
        for name, good in (
            ("seed", self.seed >= 0),
            ("max_seq_length", self.max_seq_length >= 8),
            ("max_predictions_per_seq", 1 <= self.max_predictions_per_seq < self.max_seq_length),
            ("dupe_factor", self.dupe_factor >= 1),
            ("masked_lm_prob", 0 < self.masked_lm_prob < 1),
            ("short_seq_prob", 0 <= self.short_seq_prob <= 1),
            ("held_out_fraction", 0 <= self.held_out_fraction < 1),
            ("random_share", shares),
        ):
            if not good:
                raise InputError(f"--{name}={getattr(self, name)} is out of range; see --help.")
        paired = self.sequence_kind is SequenceKind.PAIRS
        if paired != (self.objective is Objective.MLM_NSP):
            raise InputError(
                f"--sequences={self.sequences}: does not go with --objective={self.objective}; "
                "next-sentence prediction takes pairs, and nothing else does."
            )
        if self.masking is Masking.DYNAMIC and self.objective is not Objective.MLM:
            raise InputError("--masking=dynamic goes with --objective=mlm only.")
        if self.masking is Masking.DYNAMIC and self.whole_word_mask:
            raise InputError("--whole_word_mask goes with --masking=static only.")
        memory.check(
            BLOCK * self.max_seq_length * _BYTES_A_TOKEN,
            f"a block of {BLOCK} sequences of --max_seq_length={self.max_seq_length}",
        )

    @property
    def sequence_kind(self) -> SequenceKind:
        """What sequences are made of, settled."""
        if self.sequences is not SequenceKind.AUTO:
            return self.sequences
        paired = self.objective is Objective.MLM_NSP
        return SequenceKind.PAIRS if paired else SequenceKind.SPANS

    @property
    def writes_masks(self) -> bool:
        """Whether tokens are masked in what is written."""
        return self.objective is not Objective.LEFT_TO_RIGHT and self.masking is Masking.STATIC

    def describe(self) -> dict[str, Any]:
        """The settings by name; the newer ones only where they are not as they always were."""
        values = dataclasses.asdict(self)
        newer = ("sequences", "masking", "mask_share", "random_share")
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        return {k: v for k, v in values.items() if k not in newer or v != usual[k]}
