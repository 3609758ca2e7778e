r"""Pre-trains a model on TFRecords of examples.

  bert-tf pretrain --tfrecords=tfrecords/pretraining --model=tiny --steps=5000 \
      --output=savedmodels/pretrained

The same command resumes a run that was stopped. Several phases (in the paper 90 % of the steps at
length 128, then 512) are given as lists:

  bert-tf pretrain --tfrecords=tfrecords/128,tfrecords/512 --steps=900000,100000 \
      --model=base --output=savedmodels/base
"""

from bert_tf.commands import training_flags
from bert_tf.pretraining.settings import PretrainingSettings, RunOptions

training_flags.define("savedmodels/pretrained")
PretrainingSettings.define_flags()
RunOptions.define_flags()


def main() -> None:
    """Pre-trains as the flags say."""
    training_flags.run(PretrainingSettings.from_flags(phases=training_flags.phases()))
