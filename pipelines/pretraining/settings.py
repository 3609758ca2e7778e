"""Settings of pre-training examples."""

import dataclasses
import enum
from typing import Annotated

from pipelines.common import machine
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Group, Range
from pipelines.common.settings import Settings

# Sequences that are made at a time, and memory per token: ids, masks, segments, serialized form.
BLOCK = 4096
_BYTES_PER_TOKEN = 32
PAPER_MASKED_LM_PROB = 0.15  # section 3.1


class Objective(enum.StrEnum):
    """Pre-training objective of the examples."""

    MLM_NSP = "mlm_nsp"  # masked LM and next-sentence prediction (the paper)
    MLM_SOP = "mlm_sop"  # masked LM and sentence-order prediction (ALBERT)
    MLM = "mlm"  # masked LM alone ("No NSP", paper section 5.1)
    LEFT_TO_RIGHT = "left_to_right"  # each token from those before it ("LTR & No NSP")
    BIDIRECTIONAL_LM = "bidirectional_lm"  # each word from both sides separately (ELMo)
    REPLACED_TOKEN = "replaced_token"  # which tokens a generator has replaced (ELECTRA)
    DENOISING = "denoising"  # the text of which the model reads a noised form (BART)

    @property
    def paired(self) -> bool:
        """Whether it predicts how two segments belong together."""
        return self in (Objective.MLM_NSP, Objective.MLM_SOP)

    @property
    def hides(self) -> bool:
        """Whether tokens are hidden from the model, now or in training."""
        return self not in (Objective.LEFT_TO_RIGHT, Objective.BIDIRECTIONAL_LM)


class Noise(enum.StrEnum):
    """What is done to the text of an objective of denoising (Lewis et al. 2019, section 2.2)."""

    PERMUTATION = "permutation"  # of sentences
    INFILLING = "infilling"  # a mask in place of each of some spans of words
    MASKING = "masking"  # masks in place of tokens
    DELETION = "deletion"  # of tokens
    ROTATION = "rotation"  # so that the text begins with any of its tokens


class Masking(enum.StrEnum):
    """When the tokens to predict are chosen."""

    STATIC = "static"  # once, when the examples are written
    DYNAMIC = "dynamic"  # in every training step (RoBERTa, section 4.1)


_HIDING = (Noise.INFILLING, Noise.MASKING, Noise.DELETION)  # only one of them is used


class SequenceKind(enum.StrEnum):
    """What a sequence consists of; the keys of `makers.MAKERS`, and auto."""

    AUTO = "auto"  # pairs for mlm_nsp and mlm_sop, segments for replaced_token, else spans
    PAIRS = "pairs"  # two segments, the second one random in half of the examples
    SEGMENTS = "segments"  # two segments, the second one follows the first (ELECTRA)
    SPANS = "spans"  # whole sentences of one document
    FULL_SENTENCES = "full_sentences"  # whole sentences, across documents (RoBERTa, section 4.2)
    PACKED = "packed"  # running text, across documents, without padding
    STREAM = "stream"  # the same without special tokens but one after each document (GPT)


_FILLED = (SequenceKind.FULL_SENTENCES, SequenceKind.PACKED, SequenceKind.STREAM)
_ENUMS = {"objective": Objective, "masking": Masking, "sequences": SequenceKind}


@dataclasses.dataclass(frozen=True)
class ExampleSettings(Settings):
    """All settings that, together with text and vocabulary, decide the examples.

    Flags:
      objective: mlm_nsp: masked LM and next-sentence prediction, the paper's; mlm_sop: masked LM
        and the order of two segments, ALBERT's; mlm: masked LM alone; replaced_token: which tokens
        a generator has replaced, ELECTRA's; denoising: the text of which the model reads a noised
        form, BART's; left_to_right: each token from those before it, nothing is masked;
        bidirectional_lm: each word from those before it and, separately, from those after it, for
        an ELMo.
      max_seq_length: Length of a sequence in tokens, special tokens included.
      max_predictions_per_seq: Maximum number of tokens to predict in a sequence; about
        --max_seq_length times --masked_lm_prob.
      dupe_factor: Number of times that each document is used, with other pairs and masks. Held-out
        documents, and those of examples without either, are used once.
      masked_lm_prob: Fraction of the tokens to predict. In held-out examples it is that of the
        paper, 0.15, so that runs with other masks can be compared, unless masks are drawn in
        training.
      short_seq_prob: Probability that sequences of a document aim at a shorter, random length;
        those of running text (full_sentences, packed, stream) are always filled.
      whole_word_mask: Mask whole words instead of single tokens (pieces of words).
      max_ngram: Maximum number of neighbouring words (or tokens) to mask together; of 1 to n with
        probabilities in proportion to 1/n (ALBERT: 3, with whole words).
      held_out_fraction: Fraction of the documents that is held out for evaluation.
      deduplicate: Use documents with the same text only once; their number is in the manifest.
      seed: Seed of pairs, masks and the order of examples.
      sequences: What a sequence consists of: pairs of segments, for mlm_nsp and mlm_sop; segments,
        two that follow each other (ELECTRA); spans, whole sentences of one document;
        full_sentences, whole sentences across documents (RoBERTa); packed, running text across
        documents, without padding; stream, the same with no special token but a separator after
        each document (GPT). auto: pairs for mlm_nsp and mlm_sop, segments for replaced_token, else
        spans.
      masking: When masks are drawn: static, now; dynamic, in every training step (RoBERTa; only for
        mlm).
      mask_fraction: Fraction of the tokens to predict that become the mask token.
      random_fraction: Fraction of the tokens to predict that become a random token; the remaining
        ones do not change. In denoising, the fraction of the masks.
      noise: Noises of denoising, in a list: permutation of sentences; infilling, one mask in place
        of each of some spans of words, or masking or deletion of tokens; rotation of the text.
      noise_fraction: Fraction of the words that spans of infilling hide, or of the tokens that
        masking or deletion hides.
      mean_span: Mean length of the spans of infilling, in words.
    """

    group = Group.EXAMPLES

    objective: Objective = Objective.MLM_NSP
    max_seq_length: Annotated[int, Range(minimum=8)] = 128
    max_predictions_per_seq: Count = 20
    dupe_factor: Count = 10
    masked_lm_prob: Annotated[float, Range(above=0, below=1)] = PAPER_MASKED_LM_PROB
    short_seq_prob: Annotated[float, Range(minimum=0, maximum=1)] = 0.1
    whole_word_mask: bool = False
    max_ngram: Annotated[int, Range(minimum=1, maximum=100)] = 1
    held_out_fraction: Annotated[float, Range(minimum=0, below=1)] = 0.0
    deduplicate: bool = False
    seed: Annotated[int, Range(minimum=0)] = 12345
    sequences: SequenceKind = SequenceKind.AUTO
    masking: Masking = Masking.STATIC
    mask_fraction: Annotated[float, Range(minimum=0, maximum=1)] = 0.8
    random_fraction: Annotated[float, Range(minimum=0, maximum=1)] = 0.1
    noise: str = "permutation,infilling"
    noise_fraction: Annotated[float, Range(above=0, below=1)] = 0.3
    mean_span: Annotated[float, Range(minimum=0.1, maximum=100)] = 3.0

    def __post_init__(self) -> None:
        # Plain strings of Python code, too: they are compared as members.
        for name, kind in _ENUMS.items():
            object.__setattr__(self, name, kind(getattr(self, name)))

    def check(self) -> None:
        """Raises InputError if a value is out of range, or values do not go together."""
        super().check()
        objective = self.objective
        masks = objective.hides and objective is not Objective.DENOISING
        if masks and self.max_predictions_per_seq >= self.max_seq_length:
            raise InputError(
                f"--max_predictions_per_seq={self.max_predictions_per_seq} is out of range: it "
                "must be below --max_seq_length."
            )
        shares = self.mask_fraction + self.random_fraction
        if shares > 1 + 1e-9 and self.objective is not Objective.DENOISING:
            raise InputError(
                f"--random_fraction={self.random_fraction} is out of range: with --mask_fraction "
                "it must be at most 1."
            )
        paired = self.sequence_kind is SequenceKind.PAIRS
        if paired != objective.paired:
            raise InputError(
                f"--sequences={self.sequences}: does not go with --objective={self.objective}; "
                "mlm_nsp and mlm_sop need pairs, and no other objective does."
            )
        is_stream = self.sequences is SequenceKind.STREAM
        if is_stream and self.objective is not Objective.LEFT_TO_RIGHT:
            raise InputError("--sequences=stream goes with --objective=left_to_right only.")
        if self._is_given("short_seq_prob") and self.sequence_kind in _FILLED:
            raise InputError(f"--short_seq_prob: --sequences={self.sequence_kind} fills them all.")
        if self.masking is Masking.DYNAMIC and self.objective is not Objective.MLM:
            raise InputError("--masking=dynamic goes with --objective=mlm only.")
        self._check_noise()
        hiding = [name for name in _HIDING if name in self.noises]
        if len(hiding) > 1:
            raise InputError(f"--noise={self.noise}: has {' and '.join(hiding)}; choose one.")
        self._check_masks()
        machine.check_memory(
            BLOCK * self.max_seq_length * _BYTES_PER_TOKEN,
            f"a block of {BLOCK} sequences of --max_seq_length={self.max_seq_length}",
        )

    def _is_given(self, name: str) -> bool:
        """Whether a setting has another value than its default."""
        return getattr(self, name) != getattr(type(self), name)

    def _check_masks(self) -> None:
        """Raises InputError for settings of masks that are not drawn now, or not at all."""
        replaced = self.objective is Objective.REPLACED_TOKEN
        static = ("whole_word_mask", "max_ngram")
        for name in (*static, "mask_fraction", "random_fraction", "masked_lm_prob"):
            if not self._is_given(name):
                continue
            if not self.objective.hides:
                raise InputError(f"--{name}: --objective={self.objective} masks nothing.")
            dynamic = self.masking is Masking.DYNAMIC and name in static
            if name != "masked_lm_prob" and (replaced or dynamic):
                raise InputError(
                    f"--{name} is for masks that are drawn now; replaced_token, and "
                    "--masking=dynamic, draw their own in training."
                )

    def _check_noise(self) -> None:
        """Raises InputError for settings of noise without denoising, and of masks with it."""
        denoising = self.objective is Objective.DENOISING
        names = (
            ("masked_lm_prob", "whole_word_mask", "max_ngram", "mask_fraction")
            if denoising
            else ("noise", "noise_fraction", "mean_span")
        )
        for name in names:
            if self._is_given(name):
                raise InputError(
                    f"--{name} {'does not go' if denoising else 'goes only'} with "
                    "--objective=denoising."
                )
        needed = {"mean_span": {Noise.INFILLING}, "noise_fraction": set(_HIDING)}
        for name, noises in needed.items() if denoising else ():
            if self._is_given(name) and not noises & self.noises:
                raise InputError(f"--{name}: does not go with --noise={self.noise}.")

    @property
    def noises(self) -> frozenset[Noise]:
        """The noises of denoising; an InputError if one is unknown."""
        known = [str(noise) for noise in Noise]
        for name in self.noise.split(","):
            if name not in known:
                raise InputError(
                    f"--noise={self.noise}: {name!r} is unknown; there are {', '.join(known)}."
                )
        return frozenset(map(Noise, self.noise.split(",")))

    @property
    def sequence_kind(self) -> SequenceKind:
        """What a sequence consists of; never auto."""
        if self.sequences is not SequenceKind.AUTO:
            return self.sequences
        if self.objective.paired:
            return SequenceKind.PAIRS
        follows = self.objective is Objective.REPLACED_TOKEN
        return SequenceKind.SEGMENTS if follows else SequenceKind.SPANS

    @property
    def of_held_out(self) -> "ExampleSettings":
        """The settings of held-out examples; see `masked_lm_prob`."""
        return dataclasses.replace(self, masked_lm_prob=PAPER_MASKED_LM_PROB)

    @property
    def writes_masks(self) -> bool:
        """Whether the written examples are masked."""
        masked = self.objective.paired or self.objective is Objective.MLM
        return masked and self.masking is Masking.STATIC
