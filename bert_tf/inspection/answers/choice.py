"""The best of several continuations of a text."""

from collections.abc import Sequence

import numpy as np

from bert_tf.inspection.answers import base
from bert_tf.inspection.answers.base import Answer, Logits, Row, Target
from bert_tf.inspection.sequences import TokenizedTexts
from bert_tf.tasks.choice.task import Choice
from pipelines.common.errors import InputError
from pipelines.labelled.schema import ChoiceExample
from pipelines.tokenizers.base import Tokenizer


def answer(task: Choice, texts: Sequence[str], tokenizer: Tokenizer, logits: Logits) -> Answer:
    """The choice, and its sequence; see `registry.answer`."""
    first, *others = texts
    if len(others) < 2:
        raise InputError(
            f"the task {task.name} chooses among texts; give two or more, each with --text_b=."
        )
    choices = tuple(map(str.strip, others))
    pairs = [TokenizedTexts(tokenizer, (first, choice)) for choice in choices]
    sequences = [pair.pack(task.max_length) for pair in pairs]
    scores = np.concatenate([logits(sequence) for sequence in sequences])
    example = ChoiceExample("", base.PLACE, first, choices)
    (found,) = task.predict([example], task.features([example], tokenizer), [scores])
    best = found.choice
    order = np.argsort(-found.probabilities, kind="stable").tolist()
    return Answer(
        sequences[best],
        (first, choices[best]),
        choices[best],
        tuple(Row(name=choices[n], share=float(found.probabilities[n])) for n in order),
        (Target(choices[best], lambda logits: logits[:, 0]),),
        "the score of the choice, a logit",
        notes=base.cut_note(pairs[best], sequences[best], task.max_length),
    )
