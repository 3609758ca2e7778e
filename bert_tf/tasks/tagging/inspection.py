"""Inspection of tagging: the tags of the words of a text, split as an export splits them."""

import dataclasses
from collections.abc import Sequence

from bert_tf.tasks import inspection
from bert_tf.tasks.inspection import PLACE, InspectedAnswer, Reader, Target, WordTag
from bert_tf.tasks.tagging.task import Tagging
from pipelines.common.errors import InputError
from pipelines.labelled.schema import WordsExample

_MAX_TARGETS = 16  # words whose tags are explained
_OUTSIDE = "O"


def inspect(task: Tagging, texts: Sequence[str], reader: Reader) -> InspectedAnswer:
    """The tags in the first sequence of a text.

    Raises:
      InputError: there is more than one text, or it has no words.
    """
    inspection.check_count(task, texts, 1)
    words = reader.split_words(texts[0])
    if not words:
        raise InputError(f"{PLACE}: has no words to tag.")
    example = WordsExample("", PLACE, tuple(words))
    alone = dataclasses.replace(task, document_context=False)
    reading = reader.read(alone, example)
    (found,) = alone.predict([example], reading.features, reading.logits)
    positions = reading.features["firsts"].row(0).tolist()
    tags = [
        WordTag(position=at, tag=tag, share=float(share))
        for at, tag, share in zip(positions, found.tags, found.probabilities, strict=False)
    ]
    entities = [n for n, tag in enumerate(tags) if tag["tag"] != _OUTSIDE]
    explained = entities or list(range(len(tags)))
    notes = []
    if len(explained) > _MAX_TARGETS:
        notes.append(f"Of {len(explained)} tags the first {_MAX_TARGETS} are explained.")
    if len(tags) < len(words):
        notes.append(
            f"The first {len(tags)} of {len(words)} words are shown, which fit "
            f"{task.max_seq_length} tokens; the others are in further sequences."
        )
    return InspectedAnswer(
        reading.sequences[0],
        tuple(texts),
        ", ".join(dict.fromkeys(tag["tag"] for tag in tags)),
        (),
        tuple(_target(task, words[n], tags[n]) for n in explained[:_MAX_TARGETS]),
        "the log odds of the tag against all others, in nats",
        tuple(tags),
        notes=tuple(notes),
    )


def _target(task: Tagging, word: str, tag: WordTag) -> Target:
    label, position = task.labels.index(tag["tag"]), tag["position"]
    name = f"{word}: {tag['tag']}"
    return Target(name, lambda logits: inspection.log_odds(logits[:, position], label))
