r"""Exports fine-tuned tasks, and pre-trained models, as one SavedModel for TF Serving.

  bert-tf export --tasks=mrpc,squad2=runs/squad2,pretrained --output=savedmodels/bert

Each task becomes two signatures: one with its name, from raw text to answers, and `<task>_ids` for
token ids. Tasks that were trained with one encoder share its variables.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from absl import flags

from bert_tf.commands import flag_texts
from bert_tf.commands.flag_texts import DEV_HELP, MAX_LOSS_HELP, TASKS_HELP
from bert_tf.generation.settings import GenerationSettings
from bert_tf.serving.plan import Precision
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.texts import counted

if TYPE_CHECKING:
    from bert_tf.export.sources import ModelSource

_TASKS = flags.DEFINE_string("tasks", "", TASKS_HELP)
_OUTPUT = flag_types.define_path(
    "output", "savedmodels/bert", "Folder to write to, with a folder for each version."
)
_PRECISION = flags.DEFINE(
    flag_types.ChoiceParser(tuple(Precision)),
    "precision",
    "float32",
    "Data type of the computation; inputs and outputs are float32. bfloat16: also of the weights. "
    "int8: with the engines onnxruntime, openvino and litert; the SavedModel stays in float32.",
)
_DEV = flags.DEFINE_string("dev", "", DEV_HELP)
_MAX_LOSS = flags.DEFINE(
    flag_types.NumberParser(float, minimum=0), "max_loss", 0.005, MAX_LOSS_HELP
)
_MAX_LENGTH = flag_texts.define_max_length()
GenerationSettings.define_flags()


def _with_flags(source: "ModelSource", given: dict[str, Any]) -> "ModelSource":
    """A model with the given settings, if it generates text, and with the given length."""
    if source.task:
        task = source.task.with_generation(given)
        if length := _MAX_LENGTH.value:
            source.bundle.config.check_length(length)
            task = dataclasses.replace(task, max_seq_length=length)
        return dataclasses.replace(source, task=task)
    if source.generation is None:
        return source
    return dataclasses.replace(source, generation=dataclasses.replace(source.generation, **given))


def main() -> None:
    """Exports as the flags say."""
    from bert_tf.export import model_card, saved_model, sources
    from pipelines.common import path_lists

    precision, check = Precision(_PRECISION.value), None
    if _DEV.value and precision is Precision.FLOAT32:
        raise InputError("--dev: is for a lower --precision, which is scored on it; leave it out.")
    given, entries = GenerationSettings.given_by_flags(), path_lists.entries(_TASKS.value)
    found = [_with_flags(source, given) for source in sources.find(entries)]
    if _MAX_LENGTH.value and not any(source.task for source in found):
        raise InputError("--max_seq_length: is that of a task, and none is exported; leave it out.")
    writers = [source.task.generation if source.task else source.generation for source in found]
    if given and not any(writers):
        raise InputError(f"--{min(given)}: none of the models generates text; leave it out.")
    if precision is not Precision.FLOAT32:
        from bert_tf.serving.reduced_precision import ScoreCheck

        check = ScoreCheck.from_flags(found, precision, _DEV.value, _MAX_LOSS.value)
    stored = "bfloat16" if precision is Precision.BFLOAT16 else "float32"
    path = saved_model.export(found, _OUTPUT.value, dtype=stored, check=check)
    manifest = saved_model.read_manifest(path)
    encoders = counted(manifest["encoders"], "encoder")
    print(f"{path}: {manifest['parameters']:,} parameters, {encoders}")
    for each in manifest.get("reduced", ()):
        print(model_card.reduced(each).removeprefix("- "))
    print(f"signatures: {', '.join(manifest['signatures'])}")
