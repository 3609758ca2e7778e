"""Removes the output of `make pretrain` and the caches of `make finetune`, and nothing else.

A folder is changed only if its manifest.json or run.json shows that this program made it. Other
files in it are kept and listed.

  bert-tf clean --tfrecords=tfrecords/pretraining --output=savedmodels/pretrained
"""

from pipelines.common.flag_types import Path


def main(
    *,
    tfrecords: Path = "tfrecords/pretraining",
    cache: Path = "tfrecords/finetuning",
    output: Path = "savedmodels/pretrained",
) -> None:
    """Removes the folders that the flags name.

    Flags:
      tfrecords: Folder of pre-training examples.
      cache: Folder of kept outputs of frozen encoders.
      output: Folder of a pre-training run.
    """
    from bert_tf.finetuning import freezing
    from bert_tf.training import run_folder
    from pipelines.pretraining import example_folder

    example_folder.remove(tfrecords)
    freezing.remove_outputs(cache)
    run_folder.remove_pretraining(output)
