"""Labels and scores of single texts and of pairs."""

from collections.abc import Sequence

import numpy as np

from bert_tf.inspection.answers import base
from bert_tf.inspection.answers.base import Answer, Logits, Row, Target
from bert_tf.inspection.sequences import TokenizedTexts
from bert_tf.tasks.classification.regression import Regression
from bert_tf.tasks.classification.task import Classification
from pipelines.labelled.schema import TextExample
from pipelines.tokenizers.base import Tokenizer

_MOST_LABELS = 6  # whose scores are attributed
_MEASURE = "the log odds of the label against all others, in nats"


def answer(
    task: Classification | Regression, texts: Sequence[str], tokenizer: Tokenizer, logits: Logits
) -> Answer:
    """A label with the probabilities of all, or a score; see `registry.answer`."""
    pair = len(texts) > 1 if task.pair is None else task.pair
    base.check_count(task, texts, 2 if pair else 1)
    tokenized = TokenizedTexts(tokenizer, texts)
    sequence = tokenized.pack(task.max_length)
    example = TextExample("", base.PLACE, *texts)
    features = task.features([example], tokenizer)
    notes = base.cut_note(tokenized, sequence, task.max_length)
    if isinstance(task, Regression):
        (score,) = task.predict([example], features, [logits(sequence)])
        target = Target("score", lambda found: found[:, 0])
        return Answer(
            sequence, tuple(texts), f"{score:.3f}", (), (target,), "the score", notes=notes
        )
    (found,) = task.predict([example], features, [logits(sequence)])
    order = np.argsort(-found.probabilities, kind="stable").tolist()
    return Answer(
        sequence,
        tuple(texts),
        found.label,
        tuple(Row(name=task.labels[n], share=float(found.probabilities[n])) for n in order),
        tuple(_target(task, n) for n in order[:_MOST_LABELS]),
        _MEASURE,
        notes=notes,
    )


def _target(task: Classification, label: int) -> Target:
    return Target(task.labels[label], lambda logits: base.log_odds(logits, label))
