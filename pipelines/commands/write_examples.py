r"""Writes pre-training examples: text and a vocabulary in, TFRecords out.

python -m bert_tf write-examples --input='corpus/*.txt' --vocab=vocab.txt \\
      --output=tfrecords/pretraining
"""

import pipelines.common.quiet_start  # noqa: F401  isort: skip

import time

from absl import flags

from pipelines.commands import corpus_flags, text_flags
from pipelines.common import command_line
from pipelines.corpus import reader
from pipelines.pretraining import local_runner
from pipelines.pretraining.settings import ExampleSettings, Masking, Objective, SequenceKind

_DEFAULTS = ExampleSettings()
_VOCAB = flags.DEFINE_string(
    "vocab", None, "The vocabulary: a vocab.txt, or a folder with one.", required=True
)
_OUTPUT = command_line.define_path("output", None, "Folder to write to.", required=True)
_OBJECTIVE = flags.DEFINE_enum_class(
    "objective",
    _DEFAULTS.objective,
    Objective,
    "mlm_nsp: the paper's; mlm: without next-sentence prediction; left_to_right: unmasked.",
)
_MAX_SEQ_LENGTH = flags.DEFINE_integer(
    "max_seq_length", _DEFAULTS.max_seq_length, "Tokens in a sequence, special ones included."
)
_MAX_PREDICTIONS = flags.DEFINE_integer(
    "max_predictions_per_seq", _DEFAULTS.max_predictions_per_seq, "Most tokens to predict."
)
_DUPE_FACTOR = flags.DEFINE_integer(
    "dupe_factor", _DEFAULTS.dupe_factor, "Times each document is used, with other masks."
)
_MASKED_LM_PROB = flags.DEFINE_float(
    "masked_lm_prob", _DEFAULTS.masked_lm_prob, "Share of the tokens to predict."
)
_SHORT_SEQ_PROB = flags.DEFINE_float(
    "short_seq_prob", _DEFAULTS.short_seq_prob, "Probability of aiming at shorter sequences."
)
_WHOLE_WORD_MASK = flags.DEFINE_bool(
    "whole_word_mask", _DEFAULTS.whole_word_mask, "Mask whole words instead of pieces."
)
_SEQUENCES = flags.DEFINE_enum_class(
    "sequences",
    _DEFAULTS.sequences,
    SequenceKind,
    "pairs; spans of one document; full_sentences across documents; auto: by the objective.",
)
_MASKING = flags.DEFINE_enum_class(
    "masking", _DEFAULTS.masking, Masking, "static: now; dynamic: anew in every step of training."
)
_MASK_SHARE = flags.DEFINE_float(
    "mask_share", _DEFAULTS.mask_share, "Share of the tokens to predict that become the mask."
)
_RANDOM_SHARE = flags.DEFINE_float(
    "random_share", _DEFAULTS.random_share, "Share of those that become any token."
)
_HELD_OUT = flags.DEFINE_float(
    "held_out_fraction", _DEFAULTS.held_out_fraction, "Share of documents kept for evaluation."
)
_SEED = flags.DEFINE_integer("seed", _DEFAULTS.seed, "Seed of pairs, masks and order.")
_WORKERS = flags.DEFINE_integer("workers", None, "Processes; default: one for each core.")


def main() -> None:
    """Runs the writer with the flags given."""
    request = local_runner.ExampleRequest(
        input=corpus_flags.INPUT.value,
        vocab=_VOCAB.value,
        output=_OUTPUT.value,
        settings=ExampleSettings(
            objective=_OBJECTIVE.value,
            max_seq_length=_MAX_SEQ_LENGTH.value,
            max_predictions_per_seq=_MAX_PREDICTIONS.value,
            dupe_factor=_DUPE_FACTOR.value,
            masked_lm_prob=_MASKED_LM_PROB.value,
            short_seq_prob=_SHORT_SEQ_PROB.value,
            whole_word_mask=_WHOLE_WORD_MASK.value,
            held_out_fraction=_HELD_OUT.value,
            seed=_SEED.value,
            sequences=_SEQUENCES.value,
            masking=_MASKING.value,
            mask_share=_MASK_SHARE.value,
            random_share=_RANDOM_SHARE.value,
        ),
        file_format=corpus_flags.FORMAT.value,
        read=reader.ReadOptions(corpus_flags.TEXT_FIELD.value, corpus_flags.UTF8_ERRORS.value),
        tokenizer=tuple(text_flags.chosen().items()),
    )
    start = time.perf_counter()
    manifest = local_runner.write(request, _WORKERS.value)
    seconds = time.perf_counter() - start
    records = manifest["train"]["records"]
    print(
        f"{request.output}: {records:,} training examples and "
        f"{manifest['held_out'].get('records', 0):,} held out, from "
        f"{manifest['text']['documents']:,} documents; {manifest['text']['unknown_share']:.3%} "
        f"unknown; {seconds:.1f} s"
    )


if __name__ == "__main__":
    command_line.run(main)
