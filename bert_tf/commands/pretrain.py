r"""Pre-trains a model on TFRecords of examples.

  bert-tf pretrain --tfrecords=tfrecords/pretraining --model=tiny --steps=5000 \
      --output=savedmodels/pretrained

The same command resumes a run that was stopped. Several phases (in the paper 90 % of the steps at
length 128, then 512) are given as lists:

  bert-tf pretrain --tfrecords=tfrecords/128,tfrecords/512 --steps=900000,100000 \
      --model=base --output=savedmodels/base
"""

from absl import flags

from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.texts import counted

_TFRECORDS = flags.DEFINE_list(
    "tfrecords",
    None,
    "Folder of examples that write-examples wrote, or one for each of several phases.",
    required=True,
)
_OUTPUT = flag_types.define_path(
    "output",
    "savedmodels/pretrained",
    "Folder to write checkpoints, SavedModel, report and curves to.",
)
with flag_types.group(Group.TRAINING):
    _STEPS = flags.DEFINE(
        flag_types.NumberParser(int, several=True, minimum=1),
        "steps",
        (1_000_000,),
        "Training steps, or those of each of several phases.",
    )
    _BATCH_SIZE = flags.DEFINE(
        flag_types.NumberParser(int, several=True, minimum=1),
        "batch_size",
        (256,),
        "Sequences per step, on all devices together; one number, or one for each phase.",
    )
PretrainingSettings.define_flags()
RunOptions.define_flags()


def _phases() -> tuple[Phase, ...]:
    from pipelines.common import path_lists

    folders = path_lists.named_folders(_TFRECORDS.value)
    steps, batches = _STEPS.value, _BATCH_SIZE.value
    if len(batches) == 1:
        batches *= len(folders)
    if not len(folders) == len(steps) == len(batches):
        raise InputError(
            f"--tfrecords names {counted(len(folders), 'phase')}, --steps {len(steps)} and "
            f"--batch_size {len(batches)}; give one of each for every phase."
        )
    return tuple(map(Phase, folders, steps, batches))


def main() -> None:
    """Pre-trains as the flags say."""
    settings = PretrainingSettings.from_flags(phases=_phases())
    options, output = RunOptions.from_flags(), _OUTPUT.value
    from bert_tf.pretraining import report, run

    result = run.pretrain(settings, output, options)
    print(report.summary(result))
    print(f"\n{output}: checkpoints, saved_model, report.json, curves.png")
