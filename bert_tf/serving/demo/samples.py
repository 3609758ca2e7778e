"""Texts that the forms of the page begin with."""

from collections.abc import Mapping, Sequence

# The text of each field; a list where a field takes several.
Sample = Mapping[str, str | Sequence[str]]

_REVIEW = {"text": "A warm and funny film, with a cast that never puts a foot wrong."}
_STATEMENTS = {
    "text_a": "The company said on Monday that its profit rose by a tenth.",
    "text_b": "Profit went up ten percent, the company said.",
}
_ENTAILMENT = {
    "text_a": "Three children are building a snowman in the garden behind the school.",
    "text_b": "Some children are outside.",
}
_NEWS = "Ada Lovelace met Charles Babbage in London in 1833, and wrote about his engine."
_LIGHTHOUSE = {
    "question": "Who built the lighthouse?",
    "context": (
        "The lighthouse on the northern cape was built in 1874 by Maria Torres, who had studied "
        "in Lisbon. It guided ships for ninety years, until its lamp went out in the storm of 1964."
    ),
}
_CHOICES = {
    "context": "It had rained all night, and nobody had closed the roof window.",
    "choices": [
        "In the morning the attic was wet.",
        "In the morning the desert was dry.",
        "So the piano was tuned on Sundays.",
    ],
}
SENTENCES: Sample = {
    "query": "Where can I get something to eat?",
    "sentences": [
        "The kitchen is open until ten in the evening.",
        "The train to the coast leaves from platform four.",
        "There is a small restaurant behind the station.",
        "Her brother plays the violin.",
        "Rain is expected on Thursday.",
    ],
}
# By the kind of the task.
_OF_KINDS: dict[str, Sample] = {
    "cola": {"text": "The book that I bought yesterday are on the table."},
    "sst2": _REVIEW,
    "mrpc": _STATEMENTS,
    "stsb": {
        "text_a": "A man is playing a guitar in the street.",
        "text_b": "A street musician plays his guitar.",
    },
    "qqp": {
        "text_a": "How do I learn to swim as an adult?",
        "text_b": "What is the best way for grown-ups to learn swimming?",
    },
    "mnli": _ENTAILMENT,
    "qnli": {"text_a": _LIGHTHOUSE["question"], "text_b": _LIGHTHOUSE["context"]},
    "rte": _ENTAILMENT,
    "wnli": {
        "text_a": "The cup did not fit into the box because it was too large.",
        "text_b": "The cup was too large.",
    },
    "ax": _ENTAILMENT,
    "pos": {"text": "The old captain quickly told us three strange stories about the sea."},
}
# By the shape of the answer, where the kind has none.
_OF_SHAPES: dict[str, Sample] = {
    "classification": _REVIEW | _STATEMENTS,
    "regression": _REVIEW | _STATEMENTS,
    "choice": _CHOICES,
    "span": _LIGHTHOUSE,
    "tagging": {"text": _NEWS},
}


def of_task(kind: str, shape: str) -> Sample:
    """The sample of a task; it may have more fields than the task takes."""
    return _OF_KINDS.get(kind, _OF_SHAPES[shape])


def of_mask(mask: str) -> Sample:
    """The sample of a model that fills in masks.

    Args:
      mask: what stands for one in a text.
    """
    return {"text": f"The weather is {mask} today, so we will {mask} at home."}
