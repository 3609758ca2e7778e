r"""Predicts with a fine-tuned or exported model for the examples of a file.

  bert-tf predict --model=savedmodels/finetuned/mrpc --input=glue/MRPC/test.tsv
  bert-tf predict --model=savedmodels/finetuned/mnli --input=AX/diagnostic.tsv --kind=ax
  bert-tf predict --model=savedmodels/bert --task=mrpc --input=glue/MRPC/dev.tsv --labelled

An export is a program, and this command runs it: only use exports from sources that you trust.
Other models are read as data.
"""

from absl import flags

from bert_tf.commands import flag_texts
from bert_tf.commands.flag_texts import COLUMNS_HELP, HEADER_HELP
from bert_tf.serving.plan import AUTO, EngineName
from pipelines.commands.shared_flags import EncodingFlags
from pipelines.common import command_line, flag_types
from pipelines.common.flag_types import Group

_MODEL = flags.DEFINE_string(
    "model", None, "Folder of a fine-tuned model or of an export.", required=True
)
_INPUT = flags.DEFINE_string("input", None, "File of examples.", required=True)
_OUTPUT = flag_types.define_path(
    "output",
    None,
    "Folder to write to. Not given: predictions/TASK, in the folder of a fine-tuned model; for "
    "an export, in the current one.",
)
_TASK = flags.DEFINE_string(
    "task", None, "The task to predict, if the model has several. Not given: the only one."
)
_LABELLED = flags.DEFINE_bool(
    "labelled", False, "Read the labels of the file, and score the predictions with them."
)
with flag_types.group(Group.MACHINE):
    _ENGINE = flags.DEFINE(
        flag_types.ChoiceParser((AUTO, *EngineName)),
        "engine",
        EngineName.TENSORFLOW,
        "The engine that computes an export; auto: ONNX Runtime if it is installed, or an engine "
        "in which a lower precision was checked.",
    )
_KIND = flags.DEFINE_string(
    "kind",
    None,
    "The kind of the file, one of `bert-tf finetune --task`, such as ax for a model of mnli. Not "
    "given: that of the model.",
)
_MAX_LENGTH = flag_texts.define_max_length()
_COLUMNS = flags.DEFINE_list("columns", [], COLUMNS_HELP)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = EncodingFlags()


def main() -> None:
    """Predicts as the flags say."""
    import tensorflow as tf

    from bert_tf.serving import file_prediction
    from pipelines.labelled.source import Source

    # Batches in parallel, on one core each, take less time than one at a time on all cores.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    columns = command_line.pairs(_COLUMNS.value, "--columns")
    written, metrics = file_prediction.predict_file(
        _MODEL.value.rstrip("/"),
        Source(_INPUT.value, columns, _HEADER.value, _ENCODING.value),
        _OUTPUT.value,
        _TASK.value,
        kind=_KIND.value,
        labelled=_LABELLED.value,
        engine=_ENGINE.value,
        max_seq_length=_MAX_LENGTH.value,
    )
    print("\n".join(written))
    for name, value in metrics.items():
        print(f"{name}: {value:.4f}")
