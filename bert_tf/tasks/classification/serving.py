"""Classification and regression of texts and pairs."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.predictions import ClassPrediction
from bert_tf.tasks.signatures import Direct, Engine, Method, Serving, Signature, Tensors
from pipelines.labelled.schema import TextExample
from pipelines.tokenizers import packing

_SAMPLE = ("A sentence to warm up with.", "Another one, a little longer than the first.")


class TextServing(Serving[TextExample, Any]):
    """What classification and regression have in common.

    Args:
      name: of the task.
      pair: whether its inputs are `text_a` and `text_b`, or `text`.
      max_length: tokens of a sequence.
    """

    def __init__(self, name: str, pair: bool, max_length: int):
        self.name = name
        self.names = ("text_a", "text_b") if pair else ("text",)
        self._max_length = max_length

    @property
    def sample(self) -> dict[str, str]:
        """A text for each input."""
        return dict(zip(self.names, _SAMPLE, strict=False))

    def logits(self, engine: Engine, inputs: Tensors) -> tf.Tensor:
        """Logits [batch, units] of raw texts."""
        texts = signatures.same_batch(inputs)
        tokens = [engine.tokenizer.functions.tokenize(texts[name]) for name in self.names]
        second = tokens[1] if len(tokens) > 1 else None
        packed = packing.pack(engine.tokenizer, tokens[0], second, self._max_length)
        return engine.logits(engine.inputs(packed))

    @property
    def request_signature(self) -> str:
        """The signature of raw text."""
        return self.name

    def requests(self, examples: Sequence[TextExample]) -> dict[str, Any]:
        """The texts."""
        texts = [[example.text_a for example in examples], [example.text_b for example in examples]]
        return dict(zip(self.names, texts, strict=False))

    def direct(self) -> dict[str, Direct]:
        """The signature of raw text."""
        return {self.name: Direct(self.names, self._max_length, self._finish)}

    @abc.abstractmethod
    def _finish(self, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of the signature of raw text, of logits."""

    def text_and_ids(self, engine: Engine, outputs: Any) -> list[Signature]:
        """The signatures of raw text and of token ids.

        Args:
          engine: computes the logits.
          outputs: makes outputs from logits.
        """
        return [
            Signature(
                self.name,
                signatures.text_specs(*self.names),
                lambda inputs: outputs(self.logits(engine, inputs)),
                {name: [text] for name, text in self.sample.items()},
            ),
            Signature(
                f"{self.name}_ids",
                engine.ids_specs(),
                lambda inputs: outputs(engine.logits(engine.checked(inputs))),
                engine.ids_sample(len(self.names) > 1),
            ),
        ]


class ClassificationServing(TextServing):
    """Labels and their probabilities.

    Args:
      name: see `TextServing`.
      pair: see there.
      max_length: see there.
      labels: their names, in the order of the logits.
    """

    def __init__(self, name: str, pair: bool, max_length: int, labels: Sequence[str]):
        super().__init__(name, pair, max_length)
        self._labels = list(labels)

    def signatures(self, engine: Engine) -> list[Signature]:
        """`<task>`, `<task>_ids` and, for tf.Examples, `<task>_classify`."""

        def classify(inputs: Tensors) -> Tensors:
            logits = self.logits(engine, signatures.parse(inputs["inputs"], *self.names))
            shape = tf.shape(logits)
            classes = tf.broadcast_to(tf.constant(self._labels), shape)
            return {"classes": classes, "scores": tf.nn.softmax(logits)}

        return [
            *self.text_and_ids(engine, self._outputs),
            Signature(
                f"{self.name}_classify",
                signatures.EXAMPLES,
                classify,
                signatures.example_sample(**self.sample),
                Method.CLASSIFY,
            ),
        ]

    def _outputs(self, logits: tf.Tensor) -> Tensors:
        label = tf.gather(tf.constant(self._labels), tf.argmax(logits, -1))
        return {"label": label, "probabilities": tf.nn.softmax(logits), "logits": logits}

    def _finish(self, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        (logits,) = results
        label = np.array([name.encode() for name in self._labels], object)[logits.argmax(-1)]
        shares = scipy.special.softmax(logits, -1)
        return {"label": label, "probabilities": shares, "logits": logits}

    def predictions(
        self, examples: Sequence[TextExample], outputs: Mapping[str, np.ndarray]
    ) -> list[ClassPrediction]:
        """Labels and probabilities."""
        rows = zip(outputs["label"], outputs["probabilities"], strict=True)
        return [ClassPrediction(label.decode(), shares) for label, shares in rows]


class RegressionServing(TextServing):
    """A score."""

    def signatures(self, engine: Engine) -> list[Signature]:
        """`<task>`, `<task>_ids` and, for tf.Examples, `<task>_regress`."""

        def regress(inputs: Tensors) -> Tensors:
            texts = signatures.parse(inputs["inputs"], *self.names)
            return {"outputs": self.logits(engine, texts)[:, 0]}

        return [
            *self.text_and_ids(engine, lambda logits: {"score": logits[:, 0]}),
            Signature(
                f"{self.name}_regress",
                signatures.EXAMPLES,
                regress,
                signatures.example_sample(**self.sample),
                Method.REGRESS,
            ),
        ]

    def _finish(self, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        return {"score": results[0][:, 0]}

    def predictions(
        self, examples: Sequence[TextExample], outputs: Mapping[str, np.ndarray]
    ) -> list[float]:
        """The scores."""
        return [float(score) for score in outputs["score"]]
