"""Reads a BERT in any known format and writes it in another.

  bert-tf convert --input=uncased_L-12_H-768_A-12 --output=savedmodels/base
  bert-tf convert --input=savedmodels/finetuned/mrpc --output=mrpc-hf --format=huggingface

Reads: our folders, google-research TF 1 checkpoints, Hugging Face folders
(safetensors; pickles are never loaded), KerasHub presets, Model Garden TF 2
checkpoints and TF Hub encoders. Pre-training and task heads come along.
"""

import dataclasses

from absl import flags

from bert_tf import tasks, weights
from bert_tf.weights import formats
from pipelines.commands import text_flags
from pipelines.common import command_line
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Settings, Vocabulary

_INPUT = flags.DEFINE_string("input", None, "A model's folder or checkpoint.", required=True)
_OUTPUT = command_line.define_path("output", None, "Folder to write.", required=True)
_FORMAT = flags.DEFINE_enum(
    "format", formats.Format.BERT_TF, list(formats.WRITABLE), "Format to write."
)
_VOCAB = flags.DEFINE_string("vocab", None, "A vocabulary to take in place of the input's.")
_TASK = flags.DEFINE_string("task", None, "Of several tasks, the one whose head to write.")
_KIND = flags.DEFINE_string(
    "kind", None, "What the task is, where another program did not say so: mrpc, pair, squad2, ..."
)


def main() -> None:
    """Converts with the flags given."""
    if not (_INPUT.value and _OUTPUT.value):
        raise InputError(
            "name the model with INPUT= (--input) and the folder to write with OUT= (--output)."
        )
    model = weights.read(_INPUT.value)
    if _VOCAB.value:
        model = dataclasses.replace(model, vocabulary=_vocabulary(model))
    if _TASK.value:
        model = model.only(_TASK.value)
    if _KIND.value:
        model = dataclasses.replace(model, tasks=(tasks.of_kind(model.task(), _KIND.value),))
    model = dataclasses.replace(model, tokenizer_settings=_tokenizer_settings(model))
    weights.write(model, _OUTPUT.value, formats.Format(_FORMAT.value))
    names = ", ".join(task["name"] for task in model.tasks) or "none"
    print(f"{_OUTPUT.value}: written as {_FORMAT.value}; heads of tasks: {names}")


def _vocabulary(model: weights.Bundle) -> Vocabulary:
    """The vocabulary to take in place of the model's.

    Raises:
      InputError: it is not as long as that one.
    """
    vocabulary = registry.load(_VOCAB.value)
    if model.vocabulary and len(vocabulary) != len(model.vocabulary):
        raise InputError(
            f"{_VOCAB.value}: has {len(vocabulary)} tokens, the model's own vocabulary "
            f"{len(model.vocabulary)}; another one may rename tokens, but not renumber them."
        )
    return vocabulary


def _tokenizer_settings(model: weights.Bundle) -> Settings | None:
    """The model's own settings, but what the flags say; accents go on following lower case.

    Raises:
      InputError: text would be lower-cased, by the flags or for another vocabulary than the
        model's, and the vocabulary has capital letters.
    """
    chosen = text_flags.chosen()
    own = dict(model.tokenizer_settings or {})
    if model.vocabulary:
        brought = {"lower_case": own.get("lower_case")} if _VOCAB.value else {}
        model.vocabulary.check_settings(brought | chosen, _VOCAB.value or model.place)
    if own.get("strip_accents") == own.get("lower_case"):
        own.pop("strip_accents", None)
    return own | chosen or None
