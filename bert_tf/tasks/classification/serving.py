"""Classification and regression of texts and pairs."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.predictions import ClassPrediction
from bert_tf.tasks.signatures import (
    Arrays,
    Method,
    PlainTexts,
    Prepared,
    ServedModel,
    Serving,
    Signature,
    Tensors,
)
from pipelines.labelled.schema import TextExample
from pipelines.tokenizers import packing

_SAMPLE = ("A sentence to warm up with.", "Another one, a little longer than the first.")
Outputs = Callable[[Any], dict[str, Any]]


class TextServing(Serving[TextExample, Any]):
    """Common part of classification and regression.

    Args:
      name: of the task.
      pair: whether its inputs are `text_a` and `text_b`, or `text`.
      max_length: tokens of a sequence.
    """

    def __init__(self, name: str, pair: bool, max_length: int):
        self.name = name
        self.names = ("text_a", "text_b") if pair else ("text",)
        self._max_length = max_length

    def text_signatures(
        self, model: ServedModel, outputs: Outputs, method: Method, of_examples: Outputs
    ) -> list[Signature]:
        """`<task>` of raw text, `<task>_ids` of token ids, `<task>_<method>` of tf.Examples.

        Args:
          model: computes the logits.
          outputs: maps logits [batch, units] to outputs; tensors or arrays.
          method: TensorFlow Serving's interface of the signature of tf.Examples.
          of_examples: maps logits to the outputs of that interface.
        """

        def pack(inputs: Tensors) -> Prepared:
            texts = signatures.same_batch(inputs)
            tokens = [model.tokenizer.functions.tokenize(texts[name]) for name in self.names]
            second = tokens[1] if len(tokens) > 1 else None
            packed = packing.pack(model.tokenizer, tokens[0], second, self._max_length)
            return Prepared(model.padded(packed), {})

        def finish(results: Sequence[Any], state: Tensors) -> dict[str, Any]:
            return outputs(results[0])

        sample = dict(zip(self.names, _SAMPLE, strict=False))
        return [
            Signature(
                self.name,
                signatures.text_specs(*self.names),
                {name: [text] for name, text in sample.items()},
                pack,
                model.logits,
                finish,
                plain=PlainTexts(self.names, self._max_length),
            ),
            Signature(
                f"{self.name}_ids",
                model.ids_specs(),
                model.ids_sample(len(self.names) > 1),
                model.prepared_ids,
                model.logits,
                finish,
            ),
            Signature(
                f"{self.name}_{method.rpartition('/')[2]}",
                signatures.EXAMPLES,
                signatures.example_sample(**sample),
                lambda inputs: pack(signatures.parse(inputs["inputs"], *self.names)),
                model.logits,
                lambda results, state: of_examples(results[0]),
                method,
            ),
        ]

    @property
    def request_signature(self) -> str:
        """The signature of raw text."""
        return self.name

    def requests(self, examples: Sequence[TextExample]) -> dict[str, Any]:
        """The texts."""
        texts = [[example.text_a for example in examples], [example.text_b for example in examples]]
        return dict(zip(self.names, texts, strict=False))


class ClassificationServing(TextServing):
    """Labels and their probabilities.

    Args:
      name: of the task.
      pair: whether its inputs are pairs.
      max_length: tokens of a sequence.
      labels: their names, in the order of the logits.
    """

    def __init__(self, name: str, pair: bool, max_length: int, labels: Sequence[str]):
        super().__init__(name, pair, max_length)
        self._labels = list(labels)

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>`, `<task>_ids` and, for tf.Examples, `<task>_classify`."""

        def classify(logits: tf.Tensor) -> Tensors:
            classes = tf.broadcast_to(tf.constant(self._labels), tf.shape(logits))
            return {"classes": classes, "scores": tf.nn.softmax(logits)}

        return self.text_signatures(model, self._outputs, Method.CLASSIFY, classify)

    def _outputs(self, logits: Any) -> dict[str, Any]:
        return {
            "label": signatures.best(self._labels, logits),
            "probabilities": signatures.softmax(logits),
            "logits": logits,
        }

    def predictions(
        self, examples: Sequence[TextExample], outputs: Arrays
    ) -> list[ClassPrediction]:
        """Labels and probabilities."""
        rows = zip(outputs["label"], outputs["probabilities"], strict=True)
        return [ClassPrediction(label.decode(), probabilities) for label, probabilities in rows]


class RegressionServing(TextServing):
    """A score."""

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>`, `<task>_ids` and, for tf.Examples, `<task>_regress`."""
        return self.text_signatures(
            model,
            lambda logits: {"score": logits[:, 0]},
            Method.REGRESS,
            lambda logits: {"outputs": logits[:, 0]},
        )

    def predictions(self, examples: Sequence[TextExample], outputs: Arrays) -> list[float]:
        """The scores."""
        return [float(score) for score in outputs["score"]]
