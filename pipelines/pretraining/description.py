"""Pre-training examples in readable form."""

from collections.abc import Iterator, Sequence
from typing import Any


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
