r"""Pre-trains a model on TFRecords of examples.

  bert-tf pretrain --tfrecords=tfrecords/pretraining --model=tiny --steps=5000 \
      --output=savedmodels/pretrained

The same command resumes a run that was stopped. Several phases (in the paper 90 % of the steps at
length 128, then 512) are given as lists:

  bert-tf pretrain --tfrecords=tfrecords/128,tfrecords/512 --steps=900000,100000 \
      --model=base --output=savedmodels/base
"""

from bert_tf.commands.training_flags import PhaseFlags, run
from bert_tf.pretraining.settings import PretrainingSettings, RunOptions
from pipelines.common.flag_types import Path


def main(
    *,
    phases: PhaseFlags,
    output: Path = "savedmodels/pretrained",
    settings: type[PretrainingSettings],
    options: RunOptions,
) -> None:
    """Pre-trains as the flags say.

    Flags:
      output: Folder to write checkpoints, SavedModel, report and curves to.
    """
    run(settings.from_flags(phases=phases.phases()), output, options)
