"""Tags of words, which are split off as an export does that is given a text."""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf.inspection.answers import base
from bert_tf.inspection.answers.base import Answer, Logits, Tag, Target
from bert_tf.inspection.sequences import TokenizedTexts
from bert_tf.tasks.tagging.task import Tagging
from pipelines.common.errors import InputError
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

_MOST_WORDS = 16  # whose tags' scores are attributed
_OUTSIDE = "O"
_MEASURE = "the log odds of the tag against all others, in nats"


def answer(task: Tagging, texts: Sequence[str], tokenizer: Tokenizer, logits: Logits) -> Answer:
    """The tags of the first sequence of a text; see `registry.answer`."""
    base.check_count(task, texts, 1)
    tokenized = TokenizedTexts(tokenizer, texts, by_word=True)
    if not tokenized.begins.any():
        raise InputError(f"{base.PLACE}: has no words to tag.")
    numbers, begins = tokenized.numbers[0], tokenized.begins
    runs = packing.cut_words(tokenized.rules, numbers, begins, task.max_length)
    sequence = tokenized.sequences(runs.packed)[0]
    within = runs.row.numpy() == 0
    positions = runs.position.numpy()[within].tolist()
    shares = tf.nn.softmax(tf.gather(logits(sequence), positions)).numpy()
    best = shares.argmax(-1).tolist()
    tags = tuple(
        Tag(position=at, tag=task.labels[label], share=float(row[label]))
        for at, label, row in zip(positions, best, shares, strict=True)
    )
    told = [n for n, tag in enumerate(tags) if tag["tag"] != _OUTSIDE] or list(range(len(tags)))
    words = tokenized.words
    notes = []
    if len(told) > _MOST_WORDS:
        notes.append(f"Of {len(told)} tags the first {_MOST_WORDS} are explained.")
    if not within.all():
        notes.append(
            f"The first {len(tags)} of {len(within)} words are shown, which fit "
            f"{task.max_length} tokens; the others are in further sequences."
        )
    return Answer(
        sequence,
        tuple(texts),
        ", ".join(dict.fromkeys(tag["tag"] for tag in tags)),
        (),
        tuple(_target(task, words[n], positions[n], best[n]) for n in told[:_MOST_WORDS]),
        _MEASURE,
        tags,
        notes=tuple(notes),
    )


def _target(task: Tagging, word: str, position: int, label: int) -> Target:
    name = f"{word}: {task.labels[label]}"
    return Target(name, lambda logits: base.log_odds(logits[:, position], label))
