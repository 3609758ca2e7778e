"""Reads a BERT in any known format and writes it in another.

  bert-tf convert --input=uncased_L-12_H-768_A-12 --output=savedmodels/base
  bert-tf convert --input=savedmodels/finetuned/mrpc --output=mrpc-hf --format=huggingface

Reads our folders, TF 1 checkpoints of google-research, Hugging Face folders (safetensors; pickles
are never loaded), KerasHub presets, TF 2 checkpoints of Model Garden, TF Hub encoders, and the
released weights of ELMo. Pre-training and task heads are converted, too.
"""

import dataclasses

from absl import flags

from bert_tf.commands import flag_texts
from bert_tf.commands.flag_texts import FORMATS
from pipelines.commands.shared_flags import TokenizerFlags
from pipelines.common import flag_types
from pipelines.common.flag_types import Group

_INPUT = flags.DEFINE_string(
    "input", None, "The model to read: its folder, or a checkpoint.", required=True
)
_OUTPUT = flag_types.define_path("output", None, "Folder to write.", required=True)
_FORMAT = flags.DEFINE(
    flag_types.ChoiceParser(FORMATS),
    "format",
    FORMATS[0],
    "Format to write: ours, that of google-research (TF 1), or that of Hugging Face.",
)
with flag_types.group(Group.MODEL):
    _TASK = flags.DEFINE_string(
        "task", None, "The task to write, if the model has several. Not given: all."
    )
    _KIND = flags.DEFINE_string(
        "kind",
        None,
        "The kind of its task, if the model of another program does not specify it: mrpc, pair, "
        "squad2, or another of `bert-tf finetune --task`. Not given: as the model specifies.",
    )
    _MAX_LENGTH = flag_texts.define_max_length()
_VOCAB = flags.DEFINE_string(
    "vocab",
    None,
    "A vocabulary for the model: a vocab.txt, or a folder with one. Not given: its own.",
)
_POSITIONS = flags.DEFINE(
    flag_types.NumberParser(int, minimum=1),
    "max_position_embeddings",
    None,
    "Extend the model to so many positions, by copies of those it has; then pre-train it further "
    "on long texts. Not given: as many as it has.",
)
_TOKENIZER_ONLY = flags.DEFINE_bool(
    "tokenizer_only",
    False,
    "Write only the vocabulary and the settings of the tokenizer.",
)
_TEXT = TokenizerFlags()


def main() -> None:
    """Converts as the flags say."""
    from bert_tf import tasks, weights
    from bert_tf.weights import extension, formats, own

    model = weights.read(_INPUT.value)
    model = formats.with_tokenizer(model, _VOCAB.value, _TEXT.chosen())
    if _TOKENIZER_ONLY.value:
        own.write_tokenizer(model, _OUTPUT.value)
        print(f"{_OUTPUT.value}: {len(model.require_vocabulary()):,} tokens of {_INPUT.value}")
        return
    if _POSITIONS.value:
        model = extension.with_positions(model, _POSITIONS.value)
    if _TASK.value:
        model = model.only(_TASK.value)
    if _KIND.value:
        model = dataclasses.replace(model, tasks=(tasks.of_kind(model.task(), _KIND.value),))
    if _MAX_LENGTH.value:
        model = model.with_max_length(_MAX_LENGTH.value)
    weights.write(model, _OUTPUT.value, formats.Format(_FORMAT.value))
    names = ", ".join(task["name"] for task in model.tasks) or "none"
    print(f"{_OUTPUT.value}: written as {_FORMAT.value}; heads of tasks: {names}")
