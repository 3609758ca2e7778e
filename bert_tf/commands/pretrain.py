r"""Pre-trains BERT on TFRecords of examples.

  bert-tf pretrain --tfrecords=tfrecords/pretraining --model=tiny --steps=5000 \
      --output=savedmodels/pretrained

Several phases (the paper: 90 % of the steps at length 128, then 512) are
comma-separated lists:

  --tfrecords=tfrecords/128,tfrecords/512 --steps=900000,100000 --batch_size=256,256
"""

from absl import flags

from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from pipelines.common import command_line
from pipelines.common.errors import InputError

_TFRECORDS = flags.DEFINE_list(
    "tfrecords", None, "Folders of examples, one a phase.", required=True
)
_STEPS = flags.DEFINE_list("steps", ["1000000"], "Steps of each phase.")
_BATCH_SIZE = flags.DEFINE_list("batch_size", ["256"], "Global batch of each phase, or of all.")
_OUTPUT = command_line.define_path("output", "savedmodels/pretrained", "Folder to write to.")
PretrainingSettings.define_flags()
RunOptions.define_flags()


def _phases() -> tuple[Phase, ...]:
    from pipelines.common import files

    folders = files.named_folders(_TFRECORDS.value)
    steps, batches = (command_line.numbers(flag, int, 1) for flag in (_STEPS, _BATCH_SIZE))
    if len(batches) == 1:
        batches *= len(folders)
    if not len(folders) == len(steps) == len(batches):
        raise InputError(
            f"--tfrecords names {len(folders)} phases, --steps {len(steps)} and --batch_size "
            f"{len(batches)}; give each as many."
        )
    return tuple(map(Phase, folders, steps, batches))


def main() -> None:
    """Runs pre-training with the flags given."""
    settings = PretrainingSettings.from_flags(phases=_phases())
    options, output = RunOptions.from_flags(), _OUTPUT.value
    from bert_tf.pretraining import report, run

    result = run.pretrain(settings, output, options)
    print(report.summary(result))
    print(f"\n{output}: checkpoints, saved_model, report.json, curves.png")
