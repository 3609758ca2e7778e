"""Removes what `make pretrain` and the caches of `make finetune` left, and nothing else.

A folder is touched only where its manifest.json or run.json says that it was made here; what it
has besides stays, and is named.

  bert-tf clean --tfrecords=tfrecords/pretraining --output=savedmodels/pretrained
"""

from pipelines.common import flag_types

_TFRECORDS = flag_types.define_path(
    "tfrecords",
    "tfrecords/pretraining",
    "Folder of examples for pre-training.",
)
_CACHE = flag_types.define_path(
    "cache",
    "tfrecords/finetuning",
    "Folder of converted examples for fine-tuning.",
)
_OUTPUT = flag_types.define_path(
    "output", "savedmodels/pretrained", "Folder of a pre-training run."
)


def main() -> None:
    """Removes what the flags name."""
    from bert_tf.finetuning import freezing
    from bert_tf.training import run_folder
    from pipelines.labelled import features
    from pipelines.pretraining import example_folder

    example_folder.remove(_TFRECORDS.value)
    freezing.remove_outputs(_CACHE.value)
    features.remove_caches(_CACHE.value)
    run_folder.remove_pretraining(_OUTPUT.value)
