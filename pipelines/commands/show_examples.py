"""Prints pre-training examples readably: tokens, masks and originals, segments, label.

python -m bert_tf show-examples --tfrecords=tfrecords/pretraining --count=3
"""

import pipelines.common.quiet_start  # noqa: F401  isort: skip

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags

from pipelines.common import command_line
from pipelines.pretraining import example_folder, example_reader

_TFRECORDS = flags.DEFINE_string("tfrecords", None, "Folder of examples.", required=True)
_COUNT = flags.DEFINE_integer("count", 5, "How many to print.")
_HELD_OUT = flags.DEFINE_bool("held_out", False, "Print held-out examples.")


def describe(example: dict[str, Any], tokens: Sequence[str]) -> Iterator[str]:
    """Yields the lines that describe one example.

    A token to predict is shown as `{seen|original}`, segment A before segment
    B, each on its line.

    Args:
      example: arrays [size] under our feature names.
      tokens: the vocabulary.
    """
    words = [tokens[index] for index in example["input_word_ids"]]
    length = int(example["input_mask"].sum())
    weights = example.get("masked_lm_weights", [])
    for slot, weight in enumerate(weights):
        if weight:
            position = example["masked_lm_positions"][slot]
            original = tokens[example["masked_lm_ids"][slot]]
            words[position] = f"{{{words[position]}|{original}}}"
    a_length = length - int(example["input_type_ids"].sum())
    yield f"A: {' '.join(words[:a_length])}"
    if a_length < length:
        yield f"B: {' '.join(words[a_length:length])}"
    label = ""
    if "next_sentence_labels" in example:
        label = ", B is random" if example["next_sentence_labels"] else ", B is the next sentence"
    yield f"   {length} tokens, {int(sum(weights))} to predict{label}"


def main() -> None:
    """Prints the first examples of a folder."""
    folder = _TFRECORDS.value.rstrip("/")
    tokens = example_folder.read_vocabulary(folder).tokens
    examples = example_reader.open_examples(folder, _HELD_OUT.value)
    batches = example_reader.evaluation_batches(examples, batch_size=1).as_numpy_iterator()
    for batch in itertools.islice(batches, _COUNT.value):
        for line in describe({name: value[0] for name, value in batch.items()}, tokens):
            print(line)
        print()


if __name__ == "__main__":
    command_line.run(main)
