r"""Fine-tunes a BERT for one task, or for several that share an encoder.

bert-tf finetune --task=mrpc --data=glue/MRPC --init=uncased_L-12_H-768_A-12
bert-tf finetune --task=classification --data=reviews.csv --init=savedmodels/base \
      --columns=text=review,label=stars
bert-tf finetune --task=mrpc,topics=classification --data=glue/MRPC,topics/ --init=...
"""

from absl import flags

from bert_tf.commands import training_flags
from bert_tf.finetuning import sweep, task_report
from bert_tf.finetuning.settings import FineTuningSettings, Selection, TaskRequest
from bert_tf.tasks import JOINT, KINDS
from bert_tf.weights import own
from pipelines.common import command_line, files
from pipelines.common.errors import InputError

_TASK = flags.DEFINE_list(
    "task", None, f"A task, or NAME=TASK, or several: {', '.join(KINDS)}.", required=True
)
_DATA = flags.DEFINE_list("data", [], "Folder (or one file) of the data of each task.")
_TRAIN, _DEV, _TEST = (
    flags.DEFINE_string(name, None, f"The {name} file, in place of that in --data.")
    for name in ("train", "dev", "test")
)
_COLUMNS = flags.DEFINE_list("columns", [], "Columns by role, such as text=review,label=stars.")
_INIT = flags.DEFINE_string("init", None, "The model: any that `convert` reads.", required=True)
_OUTPUT = command_line.define_path("output", None, "Folder to write; savedmodels/finetuned/TASK.")
_CACHE = command_line.define_path("cache", "tfrecords/finetuning", "Folder for converted examples.")
_EPOCHS = flags.DEFINE_float("epochs", 3.0, "Passes over the training data.")
_BATCH = flags.DEFINE_integer("batch_size", 32, "Examples of a step.")
_RATES = flags.DEFINE_list("learning_rate", ["5e-5"], "Peak learning rate, or a grid of them.")
_SEEDS = flags.DEFINE_list("seeds", ["1"], "A run for each; the median is reported.")
_WARMUP = flags.DEFINE_float("warmup_share", 0.1, "Share of the steps.")
_LAYER_DECAY = flags.DEFINE_float("layer_decay", 1.0, "Learning rate's factor from layer to layer.")
_CORRECTION = flags.DEFINE_bool("bias_correction", True, "Of Adam; the reference has none.")
_BALANCED = flags.DEFINE_bool("balanced", False, "Weigh classes by the inverse of their frequency.")
_LENGTH = flags.DEFINE_integer("max_length", None, "Tokens of a sequence: 128, of SQuAD 384.")
_CONTEXT = flags.DEFINE_bool("document_context", False, "Tagging: fill up with the document.")
_FIXED = flags.DEFINE_bool("fixed_length", False, "Pad every batch to max_length, for TPUs.")
_DEV_SHARE = flags.DEFINE_float("dev_share", 0.1, "Of the training data, without a dev file.")
_EVALUATIONS = flags.DEFINE_integer("evaluations", 1, "On dev, in each epoch.")
_PATIENCE = flags.DEFINE_integer("patience", 0, "Evaluations without gain to stop after; 0: never.")
_SELECT = flags.DEFINE_enum_class("select", Selection.BEST, Selection, "Which weights to keep.")
_KEEP_RUNS = flags.DEFINE_bool("keep_runs", False, "Keep the weights of the other runs too.")
_TENSORBOARD = flags.DEFINE_bool("tensorboard", True, "Write TensorBoard summaries.")


def _requests() -> tuple[TaskRequest, ...]:
    if not any(_TASK.value):
        raise InputError(f"no task was named; use TASK= (--task), one of {', '.join(KINDS)}.")
    entries = [entry.rpartition("=") for entry in _TASK.value]
    places = _DATA.value
    if places and len(entries) == 1:
        places = [",".join(places)]  # a comma in the path
    if places and len(places) != len(entries):
        raise InputError(
            f"--task names {len(entries)} tasks, --data {len(places)} places; give as many."
        )
    named = ((flag.name, flag.value) for flag in (_TRAIN, _DEV, _TEST))
    splits = tuple((name, value) for name, value in named if value)
    if splits and len(entries) > 1:
        raise InputError("--train, --dev and --test are for one task; use --data for several.")
    if not splits and not _DATA.value:
        raise InputError("no data was named; use DATA= (--data), or --train and --dev.")
    for name, *_ in entries:
        if name:
            own.check_task_name(name, "--task")
    columns = tuple(command_line.pairs(_COLUMNS.value, "--columns").items())
    places = places or [None] * len(entries)
    return tuple(
        TaskRequest(kind, name or kind, place, splits, columns)
        for (name, _, kind), place in zip(entries, places, strict=True)
    )


def main() -> None:
    """Fine-tunes with the flags given."""
    if not _INIT.value:
        raise InputError("no model was named; use INIT= (--init), any that `convert` reads.")
    requests = _requests()
    settings = FineTuningSettings(
        tasks=requests,
        init=_INIT.value.rstrip("/"),
        epochs=_EPOCHS.value,
        batch_size=_BATCH.value,
        learning_rates=tuple(command_line.numbers(_RATES, float)),
        seeds=tuple(command_line.numbers(_SEEDS, int, 0)),
        warmup_share=_WARMUP.value,
        layer_decay=_LAYER_DECAY.value,
        bias_correction=_CORRECTION.value,
        balanced=_BALANCED.value,
        max_length=_LENGTH.value,
        document_context=_CONTEXT.value,
        fixed_length=_FIXED.value,
        dev_share=_DEV_SHARE.value,
        evaluations=_EVALUATIONS.value,
        patience=_PATIENCE.value,
        selection=_SELECT.value,
        keep_runs=_KEEP_RUNS.value,
        **training_flags.values(),
    )
    name = JOINT.join(request.name for request in requests)
    output = _OUTPUT.value or f"savedmodels/finetuned/{name}"
    report = sweep.finetune(settings, output, _CACHE.value, _TENSORBOARD.value)
    if report:
        print(task_report.summary(report))
        print(f"\n{output}: {', '.join(sorted(files.gfile.listdir(output)))}")
