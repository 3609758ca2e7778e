r"""Predicts with a fine-tuned or exported model for the examples of a file.

bert-tf predict --model=savedmodels/finetuned/mrpc --input=glue/MRPC/test.tsv
bert-tf predict --model=savedmodels/finetuned/mnli --input=AX/diagnostic.tsv --kind=ax
bert-tf predict --model=savedmodels/bert --task=mrpc --input=glue/MRPC/dev.tsv --labelled

An export is a program, which this runs: take exports from people you trust only. Other models are
read as data.
"""

from absl import flags

from bert_tf.commands.table_help import COLUMNS_HELP, HEADER_HELP
from pipelines.common import command_line
from pipelines.common.errors import InputError

_MODEL = flags.DEFINE_string(
    "model", None, "Folder of a fine-tuned model or of an export.", required=True
)
_INPUT = flags.DEFINE_string("input", None, "File of examples.", required=True)
_OUTPUT = command_line.define_path(
    "output", None, "Folder to write to; predictions/<task>, in the model's or the current one."
)
_TASK = flags.DEFINE_string("task", None, "Which of several tasks of the model.")
_KIND = flags.DEFINE_string(
    "kind", None, "Layout of the file, where the model does not say it, or has another: ax."
)
_COLUMNS = flags.DEFINE_list("columns", [], COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_LABELLED = flags.DEFINE_bool("labelled", False, "Read the file's labels, and score with them.")
_SPLIT = flags.DEFINE_string("split", None, "Name in the files written; that of the input.")


def main() -> None:
    """Predicts with the flags given."""
    from bert_tf.serving import file_prediction

    request = file_prediction.PredictionRequest(
        _INPUT.value,
        _KIND.value,
        command_line.pairs(_COLUMNS.value, "--columns"),
        _SPLIT.value,
        _LABELLED.value,
        _HEADER.value,
    )
    if not (_MODEL.value and _INPUT.value):
        raise InputError("name the model with MODEL= (--model) and the file with INPUT= (--input).")
    written, metrics = file_prediction.predict_file(
        _MODEL.value.rstrip("/"), request, _OUTPUT.value, _TASK.value
    )
    print("\n".join(written))
    for name, value in metrics.items():
        print(f"{name}: {value:.4f}")
