"""Removes the output of `make pretrain` and the caches of `make finetune`, and nothing else.

A folder is changed only if its manifest.json or run.json shows that this program made it. Other
files in it are kept and listed.

  bert-tf clean --tfrecords=tfrecords/pretraining --output=savedmodels/pretrained
"""

from pipelines.common import flag_types

_TFRECORDS = flag_types.define_path(
    "tfrecords", "tfrecords/pretraining", "Folder of pre-training examples."
)
_CACHE = flag_types.define_path(
    "cache", "tfrecords/finetuning", "Folder of kept outputs of frozen encoders."
)
_OUTPUT = flag_types.define_path(
    "output", "savedmodels/pretrained", "Folder of a pre-training run."
)


def main() -> None:
    """Removes the folders that the flags name."""
    from bert_tf.finetuning import freezing
    from bert_tf.training import run_folder
    from pipelines.pretraining import example_folder

    example_folder.remove(_TFRECORDS.value)
    freezing.remove_outputs(_CACHE.value)
    run_folder.remove_pretraining(_OUTPUT.value)
