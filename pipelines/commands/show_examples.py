"""Prints pre-training examples in readable form: tokens, masks and originals, segments, label.

  bert-tf show-examples --tfrecords=tfrecords/pretraining --count=3

A token to predict is printed as {seen|original}.
"""

import itertools

from absl import flags

from pipelines.common import flag_types

_TFRECORDS = flags.DEFINE_string("tfrecords", None, "Folder of the examples.", required=True)
_COUNT = flags.DEFINE(flag_types.NumberParser(int, minimum=1), "count", 5, "Number of examples.")


def main() -> None:
    """Prints the first examples of a folder."""
    import tensorflow as tf

    from pipelines.pretraining import example_folder, example_reader

    folder = _TFRECORDS.value.rstrip("/")
    tokens = example_folder.read_vocabulary(folder).tokens
    examples = example_reader.open_examples(folder)
    batches = example_reader.evaluation_batches(examples, batch_size=1).as_numpy_iterator()
    try:
        for batch in itertools.islice(batches, _COUNT.value):
            print("\n".join(example_reader.describe({k: v[0] for k, v in batch.items()}, tokens)))
            print()
    except tf.errors.DataLossError as error:
        raise example_reader.find_damage(examples.paths) from error
