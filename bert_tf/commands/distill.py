r"""Distils a pre-trained model into a smaller one, as DistilBERT was.

  bert-tf write-examples --corpus='corpus/*.txt' --vocab=uncased_L-12_H-768_A-12 \
      --objective=mlm --masking=dynamic --output=tfrecords/distillation
  bert-tf distill --teacher=uncased_L-12_H-768_A-12 --tfrecords=tfrecords/distillation \
      --flagfile=recipes/distilbert.flags --steps=7500 --warmup_steps=375 \
      --output=savedmodels/distilled

The student has half of the teacher's layers and starts from them. The same command resumes a run
that was stopped. To distil a fine-tuned model, use `bert-tf finetune` with its --teacher.
"""

from bert_tf.commands.training_flags import PhaseFlags, run
from bert_tf.pretraining.settings import DistillationSettings, RunOptions
from pipelines.common.flag_types import Path


def main(
    *,
    teacher: Path,
    phases: PhaseFlags,
    output: Path = "savedmodels/distilled",
    settings: type[DistillationSettings],
    options: RunOptions,
) -> None:
    """Distils as the flags say.

    Flags:
      teacher: The model to learn from: a masked LM in any format that `bert-tf convert` reads.
      output: Folder to write checkpoints, SavedModel, report and curves to.
    """
    run(settings.from_flags(phases=phases.phases(), teacher=teacher), output, options)
