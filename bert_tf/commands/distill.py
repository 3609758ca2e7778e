r"""Distils a pre-trained model into a smaller one, as DistilBERT was.

  bert-tf write-examples --corpus='corpus/*.txt' --vocab=uncased_L-12_H-768_A-12 \
      --objective=mlm --masking=dynamic --output=tfrecords/distillation
  bert-tf distill --teacher=uncased_L-12_H-768_A-12 --tfrecords=tfrecords/distillation \
      --flagfile=recipes/distilbert.flags --steps=7500 --warmup_steps=375 \
      --output=savedmodels/distilled

The student has half of the teacher's layers and starts from them. The same command resumes a run
that was stopped. To distil a fine-tuned model, use `bert-tf finetune` with its --teacher.
"""

from absl import flags

from bert_tf.commands import training_flags
from bert_tf.pretraining.settings import DistillationSettings, RunOptions

_TEACHER = flags.DEFINE_string(
    "teacher",
    None,
    "The model to learn from: a masked LM in any format that `bert-tf convert` reads.",
    required=True,
)
training_flags.define("savedmodels/distilled")
DistillationSettings.define_flags()
RunOptions.define_flags()


def main() -> None:
    """Distils as the flags say."""
    teacher = _TEACHER.value.rstrip("/")
    settings = DistillationSettings.from_flags(phases=training_flags.phases(), teacher=teacher)
    training_flags.run(settings)
