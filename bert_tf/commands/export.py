r"""Exports fine-tuned tasks, and pre-trained models, as one SavedModel for TF Serving.

  bert-tf export --tasks=mrpc,squad2=runs/squad2,pretrained --output=savedmodels/bert

Each task becomes two signatures: one with its name, from raw text to answers, and `<task>_ids` for
token ids. Tasks that were trained with one encoder share its variables.
"""

import dataclasses

from absl import flags

from bert_tf.commands.flag_texts import TASKS_HELP
from bert_tf.generation.settings import GenerationSettings
from bert_tf.serving.plan import Precision
from pipelines.common import flag_types
from pipelines.common.texts import counted

_TASKS = flags.DEFINE_string("tasks", "", TASKS_HELP)
_OUTPUT = flag_types.define_path(
    "output", "savedmodels/bert", "Folder to write to, with a folder for each version."
)
_PRECISION = flags.DEFINE(
    flag_types.ChoiceParser(tuple(Precision)),
    "precision",
    "float32",
    "Data type of the computation; inputs and outputs are float32. bfloat16: also of the weights. "
    "int8: with the engines onnxruntime and litert; the SavedModel stays in float32.",
)
_DEV = flags.DEFINE_string(
    "dev",
    "",
    "Labelled files as TASK=FILE, separated by commas or blanks, on which a lower --precision "
    "must keep the scores. Not given: only for float32.",
)
_MOST_LOSS = flags.DEFINE(
    flag_types.NumberParser(float, minimum=0),
    "most_loss",
    0.005,
    "Maximum loss of a task's main metric, whose best value is 1, with a lower --precision.",
)
GenerationSettings.define_flags()


def main() -> None:
    """Exports as the flags say."""
    from bert_tf.export import model_card, saved_model, sources
    from pipelines.common import command_line, path_lists

    settings = GenerationSettings.from_flags()
    found = [
        dataclasses.replace(source, generation=settings) if source.generation else source
        for source in sources.find(path_lists.entries(_TASKS.value))
    ]
    precision, check = Precision(_PRECISION.value), None
    if precision is not Precision.FLOAT32:
        from bert_tf.serving.reduced_precision import ScoreCheck

        dev = command_line.pairs(path_lists.entries(_DEV.value), "--dev")
        check = ScoreCheck(found, precision, dev, _MOST_LOSS.value)
    stored = "bfloat16" if precision is Precision.BFLOAT16 else "float32"
    path = saved_model.export(found, _OUTPUT.value, dtype=stored, check=check)
    manifest = saved_model.read_manifest(path)
    encoders = counted(manifest["encoders"], "encoder")
    print(f"{path}: {manifest['parameters']:,} parameters, {encoders}")
    for each in manifest.get("reduced", ()):
        print(model_card.reduced(each).removeprefix("- "))
    print(f"signatures: {', '.join(manifest['signatures'])}")
