r"""Exports fine-tuned tasks, and pre-trained models, as one SavedModel for TF Serving.

  bert-tf export --tasks=mrpc,squad2=runs/squad2,pretrained --output=savedmodels/bert

Each task becomes a signature of its name, with raw text in and answers out, and `<task>_ids` of
token ids. Tasks that were trained on one encoder share its variables.
"""

from absl import flags

from bert_tf.commands.names import TASKS_HELP
from bert_tf.serving.engines.plan import Precision
from pipelines.common import flag_types
from pipelines.common.texts import counted

_TASKS = flags.DEFINE_string("tasks", "", TASKS_HELP)
_OUTPUT = flag_types.define_path(
    "output",
    "savedmodels/bert",
    "Folder to write to; it gets a folder for each version.",
)
_PRECISION = flags.DEFINE(
    flag_types.ChoiceParser(tuple(Precision)),
    "precision",
    "float32",
    "What is computed in; inputs and outputs are the same. bfloat16: weights are stored in it, "
    "too. int8: by engines that have it (onnxruntime, litert); the SavedModel is in float32.",
)
_DEV = flags.DEFINE_string(
    "dev",
    "",
    "Labelled files on which less than float32 has to keep the scores, TASK=FILE each, "
    "separated by commas or blanks. Not given: none, which float32 needs.",
)
_MOST_LOSS = flags.DEFINE(
    flag_types.NumberParser(float, minimum=0),
    "most_loss",
    0.005,
    "What less than float32 may lose of a task's main metric, of which 1 is the best.",
)


def main() -> None:
    """Exports with the flags given."""
    from bert_tf.export import model_card, saved_model, sources
    from pipelines.common import command_line, path_lists

    found = sources.find(path_lists.entries(_TASKS.value))
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
