"""Multiple choice."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.predictions import ChoicePrediction
from bert_tf.tasks.signatures import Engine, Serving, Signature, Tensors
from pipelines.labelled.schema import ChoiceExample
from pipelines.tokenizers import packing

_ABSENT = -1e9  # the logit of a choice that is not there


class ChoiceServing(Serving[ChoiceExample, ChoicePrediction]):
    """The choice of the highest score, and the probabilities of all.

    Args:
      name: of the task.
      max_length: tokens of a sequence.
    """

    def __init__(self, name: str, max_length: int):
        self._name = name
        self._max_length = max_length

    def signatures(self, engine: Engine) -> list[Signature]:
        """`<task>` and `<task>_ids`; empty choices fill up rows that have fewer."""
        specs = signatures.text_specs("context") | {
            "choices": tf.TensorSpec([None, None], tf.string, "choices")
        }
        return [
            Signature(
                self._name,
                specs,
                lambda inputs: self._answer(engine, signatures.same_batch(inputs)),
                {"context": ["It rained."], "choices": [["We got wet.", "It was dry."]]},
            ),
            Signature(
                f"{self._name}_ids",
                engine.ids_specs(rank=3),
                lambda inputs: self._answer_ids(engine, engine.checked(inputs)),
                engine.ids_sample(pair=True, rank=3),
            ),
        ]

    def _answer(self, engine: Engine, inputs: Tensors) -> Tensors:
        context, choices = inputs["context"], inputs["choices"]
        choices = _with_some(engine, choices, choices != "")
        shape = tf.shape(choices)
        rows = tf.repeat(tf.range(shape[0]), shape[1])
        first = tf.gather(engine.tokenizer.functions.tokenize(context), rows)
        second = engine.tokenizer.functions.tokenize(tf.reshape(choices, [-1]))
        packed = packing.pack(engine.tokenizer, first, second, self._max_length)
        logits = tf.reshape(engine.logits(engine.inputs(packed))[:, 0], shape)
        return _outputs(tf.where(choices == "", _ABSENT, logits))

    def _answer_ids(self, engine: Engine, inputs: Tensors) -> Tensors:
        there = tf.reduce_any(inputs["input_mask"] > 0, -1)
        inputs = inputs | {"input_word_ids": _with_some(engine, inputs["input_word_ids"], there)}
        shape = tf.shape(inputs["input_word_ids"])
        flat = {name: tf.reshape(x, [shape[0] * shape[1], shape[2]]) for name, x in inputs.items()}
        logits = tf.reshape(engine.logits(flat)[:, 0], shape[:2])
        return _outputs(tf.where(there, logits, _ABSENT))

    @property
    def request_signature(self) -> str:
        """The signature of raw text."""
        return self._name

    def requests(self, examples: Sequence[ChoiceExample]) -> dict[str, Any]:
        """Contexts and choices, the latter filled up to one number."""
        most = max(len(example.choices) for example in examples)
        choices = [
            [f"{example.stem} {choice}".strip() or signatures.NOTHING for choice in example.choices]
            + [""] * (most - len(example.choices))
            for example in examples
        ]
        return {"context": [example.context for example in examples], "choices": choices}

    def predictions(
        self, examples: Sequence[ChoiceExample], outputs: Mapping[str, np.ndarray]
    ) -> list[ChoicePrediction]:
        """Choices, and the probabilities of those that each example has."""
        rows = zip(examples, outputs["choice"], outputs["probabilities"], strict=True)
        return [
            ChoicePrediction(int(choice), shares[: len(example.choices)])
            for example, choice, shares in rows
        ]


def _with_some(engine: Engine, values: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """The values, of which each row has a choice; other runtimes have no checks.

    Args:
      engine: of the signature.
      values: [batch, choices, ...].
      there: bool [batch, choices], which of them are.

    Raises (in the graph):
      InvalidArgumentError: a row has none.
    """
    if engine.portable:
        return values
    message = "every row must have a choice that is not empty."
    check = tf.debugging.Assert(tf.reduce_all(tf.reduce_any(there, -1)), [message])
    with tf.control_dependencies([check]):
        return tf.identity(values)


def _outputs(logits: tf.Tensor) -> Tensors:
    # Without any choice there is none to take the highest of.
    filled = tf.concat([logits, tf.fill([tf.shape(logits)[0], 1], 2 * _ABSENT)], 1)
    return {
        "choice": tf.argmax(filled, -1, tf.int32),
        "probabilities": tf.nn.softmax(logits),
        "logits": logits,
    }
