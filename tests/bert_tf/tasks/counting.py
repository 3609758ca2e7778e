"""A shape of task from outside the package: how many good words a text has, from 0 to 3."""

import dataclasses
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks import Task, TaskShape, signatures
from bert_tf.tasks.base import TaskFiles
from bert_tf.tasks.signatures import Prepared, Signature
from pipelines.labelled import tables
from pipelines.labelled.features import FeatureColumn, Features, packed_columns
from pipelines.labelled.schema import Example, have_labels
from pipelines.tokenizers import packing

SHAPE = TaskShape("count", ("count",), __name__)
_MAX = 3


@dataclasses.dataclass(frozen=True)
class CountExample(Example):
    """A text, and the number of its good words."""

    TEXTS = ("text",)

    text: str
    label: int | None = None


class CountPrediction(NamedTuple):
    """A number, and its probability."""

    count: int
    probability: float


def _read(source, labelled):
    rows = tables.read_rows(source)
    return [
        CountExample(
            str(i), row.place, row.values["text"], int(row.values["label"]) if labelled else None
        )
        for i, row in enumerate(rows)
    ]


@dataclasses.dataclass(frozen=True)
class Counting(Task):
    """A softmax over the numbers."""

    shape: ClassVar[str] = "count"
    main_metric = "exact"
    units = _MAX + 1

    def features(self, examples, tokenizer):
        packed, _ = tokenizer.pack_texts(
            [example.text for example in examples], None, self.max_seq_length
        )
        columns = packed_columns(packed)
        if have_labels(examples):
            columns["labels"] = FeatureColumn.of(np.array([example.label for example in examples]))
        return Features(columns)

    def losses(self, logits, batch):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)

    def predict(self, examples, features, logits):
        shares = [tf.nn.softmax(row).numpy() for row in logits]
        return [CountPrediction(int(row.argmax()), float(row.max())) for row in shares]

    def metrics(self, examples, predictions):
        pairs = zip(examples, predictions, strict=True)
        return {"exact": float(np.mean([guess.count == e.label for e, guess in pairs]))}

    def baseline(self, training, examples):
        usual = int(np.bincount([example.label for example in training]).argmax())
        return [CountPrediction(usual, 1.0)] * len(examples)

    def answers(self, prediction):
        return [str(prediction.count)]

    def files(self, examples, predictions, split):
        rows = zip(examples, predictions, strict=True)
        lines = [f"{example.key}\t{guess.count}\n" for example, guess in rows]
        return {f"predictions.{split}.tsv": "".join(lines)}

    def errors(self, example, prediction):
        if prediction.count != example.label:
            yield -prediction.probability, f"{example.place}: {prediction.count}"

    def draw(self, figure, examples, predictions):
        figure.subplots().hist([prediction.count for prediction in predictions])

    def signatures(self, model):
        def pack(inputs):
            ids = model.tokenizer.functions.tokenize(inputs["text"])
            packed = packing.pack(model.tokenizer, ids, None, self.max_seq_length)
            return Prepared(model.padded(packed), {})

        def outputs(results, state):
            shares = tf.nn.softmax(results[0])
            return {
                "count": tf.argmax(shares, -1, tf.int32),
                "probability": tf.reduce_max(shares, -1),
            }

        specs, sample = signatures.text_specs("text"), {"text": ["good and fine"]}
        return [Signature(self.name, specs, sample, pack, model.logits, outputs)]

    def requests(self, examples):
        return {"text": [example.text for example in examples]}

    def from_outputs(self, examples, outputs):
        rows = zip(outputs["count"], outputs["probability"], strict=True)
        return [CountPrediction(int(count), float(share)) for count, share in rows]


TASKS = (Counting("count", TaskFiles.of_user(_read)),)
