"""Flags that `pretrain` and `distill` share: the examples, steps and batches of each phase."""

from absl import flags

from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.texts import counted


def define(output: str) -> None:
    """Defines the flags; `output` is the default of --output."""
    flags.DEFINE_list(
        "tfrecords",
        None,
        "Folder of examples that write-examples wrote, or one for each of several phases.",
        required=True,
    )
    flag_types.define_path(
        "output", output, "Folder to write checkpoints, SavedModel, report and curves to."
    )
    with flag_types.group(Group.TRAINING):
        flags.DEFINE(
            flag_types.NumberParser(int, several=True, minimum=1),
            "steps",
            (1_000_000,),
            "Training steps, or those of each of several phases.",
        )
        flags.DEFINE(
            flag_types.NumberParser(int, several=True, minimum=1),
            "batch_size",
            (256,),
            "Sequences per step, on all devices together; one number, or one for each phase.",
        )


def phases() -> tuple[Phase, ...]:
    """The phases that the flags name; an InputError if there are not as many of each."""
    from pipelines.common import path_lists

    values = flags.FLAGS
    folders = path_lists.named_folders(values.tfrecords)
    steps, batches = values.steps, values.batch_size
    if len(batches) == 1:
        batches *= len(folders)
    if not len(folders) == len(steps) == len(batches):
        raise InputError(
            f"--tfrecords names {counted(len(folders), 'phase')}, --steps {len(steps)} and "
            f"--batch_size {len(batches)}; give one of each for every phase."
        )
    return tuple(map(Phase, folders, steps, batches))


def run(settings: PretrainingSettings) -> None:
    """Pre-trains, and prints the report."""
    options, output = RunOptions.from_flags(), flags.FLAGS.output
    from bert_tf.pretraining import report
    from bert_tf.pretraining.run import pretrain

    result = pretrain(settings, output, options)
    print(report.summary(result))
    exported = " saved_model," if options.saved_model else ""
    print(f"\n{output}: checkpoints,{exported} report.json, curves.png")
