"""Prints pre-training examples in readable form: tokens, masks and originals, segments, label.

  bert-tf show-examples --tfrecords=tfrecords/pretraining --count=3

A token to predict is printed as {seen|original}.
"""

import itertools

from pipelines.common.flag_types import Count, Path


def main(*, tfrecords: Path, count: Count = 5) -> None:
    """Prints the first examples of a folder.

    Flags:
      tfrecords: Folder of the examples.
      count: Number of examples.
    """
    import tensorflow as tf

    from pipelines.pretraining import example_folder, example_reader

    tokens = example_folder.read_vocabulary(tfrecords).tokens
    examples = example_reader.open_examples(tfrecords)
    batches = example_reader.evaluation_batches(examples, batch_size=1).as_numpy_iterator()
    try:
        for batch in itertools.islice(batches, count):
            print("\n".join(example_reader.describe({k: v[0] for k, v in batch.items()}, tokens)))
            print()
    except tf.errors.DataLossError as error:
        raise example_reader.find_damage(examples.paths) from error
