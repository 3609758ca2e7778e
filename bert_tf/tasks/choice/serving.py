"""Multiple choice."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.predictions import ChoicePrediction
from bert_tf.tasks.signatures import Arrays, Prepared, ServedModel, Serving, Signature, Tensors
from pipelines.labelled.schema import ChoiceExample
from pipelines.tokenizers import packing

_ABSENT = -1e9  # the logit of a choice that a row does not have


class ChoiceServing(Serving[ChoiceExample, ChoicePrediction]):
    """The choice with the highest score, and the probabilities of all.

    Args:
      name: of the task.
      max_length: tokens of a sequence.
    """

    def __init__(self, name: str, max_length: int):
        self._name = name
        self._max_length = max_length

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` and `<task>_ids`; empty choices fill up rows that have fewer."""
        specs = signatures.text_specs("context") | {
            "choices": tf.TensorSpec([None, None], tf.string, "choices")
        }
        return [
            Signature(
                self._name,
                specs,
                {"context": ["It rained."], "choices": [["We got wet.", "It was dry."]]},
                lambda inputs: self._pack(model, signatures.same_batch(inputs)),
                model.logits,
                _outputs,
                sequence_axes=2,
            ),
            Signature(
                f"{self._name}_ids",
                model.ids_specs(rank=3),
                model.ids_sample(pair=True, rank=3),
                lambda inputs: _flat(model, model.checked(inputs)),
                model.logits,
                _outputs,
                sequence_axes=2,
            ),
        ]

    def _pack(self, model: ServedModel, inputs: Tensors) -> Prepared:
        choices = inputs["choices"]
        choices = _with_some(model, choices, choices != "")
        shape = tf.shape(choices)
        rows = tf.repeat(tf.range(shape[0]), shape[1])
        tokenize = model.tokenizer.functions.tokenize
        first = tf.gather(tokenize(inputs["context"]), rows)
        second = tokenize(tf.reshape(choices, [-1]))
        packed = packing.pack(model.tokenizer, first, second, self._max_length)
        return Prepared(model.padded(packed), {"present": choices != ""})

    @property
    def request_signature(self) -> str:
        """The signature of raw text."""
        return self._name

    def requests(self, examples: Sequence[ChoiceExample]) -> dict[str, Any]:
        """Contexts and choices; rows are filled up to the same number of choices."""
        most = max(len(example.choices) for example in examples)
        choices = [
            [
                f"{example.stem} {choice}".strip() or signatures.EMPTY_TEXT
                for choice in example.choices
            ]
            + [""] * (most - len(example.choices))
            for example in examples
        ]
        return {"context": [example.context for example in examples], "choices": choices}

    def predictions(
        self, examples: Sequence[ChoiceExample], outputs: Arrays
    ) -> list[ChoicePrediction]:
        """Choices, and the probabilities of those that each example has."""
        rows = zip(examples, outputs["choice"], outputs["probabilities"], strict=True)
        return [
            ChoicePrediction(int(choice), probabilities[: len(example.choices)])
            for example, choice, probabilities in rows
        ]


def _flat(model: ServedModel, inputs: Tensors) -> Prepared:
    """Token ids [batch, choices, length] as one sequence for each choice."""
    present = tf.reduce_any(inputs["input_mask"] > 0, -1)
    ids = _with_some(model, inputs["input_word_ids"], present)
    shape = tf.shape(ids)
    inputs = inputs | {"input_word_ids": ids}
    flat = {name: tf.reshape(x, [shape[0] * shape[1], shape[2]]) for name, x in inputs.items()}
    return Prepared(flat, {"present": present})


def _with_some(model: ServedModel, values: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """The values [batch, choices, ...], checked to have a choice in each row.

    Args:
      model: other runtimes than TensorFlow have no checks.
      values: [batch, choices, ...].
      present: bool [batch, choices].

    Raises (in the graph):
      InvalidArgumentError: a row has no choice.
    """
    if model.portable:
        return values
    message = "every row must have a choice that is not empty."
    check = tf.debugging.Assert(tf.reduce_all(tf.reduce_any(present, -1)), [message])
    with tf.control_dependencies([check]):
        return tf.identity(values)


def _outputs(results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
    present = state["present"]
    logits = tf.where(present, tf.reshape(results[0][:, 0], tf.shape(present)), _ABSENT)
    # A batch without choices has no highest one: a lower score stands behind all.
    filled = tf.concat([logits, tf.fill([tf.shape(logits)[0], 1], 2 * _ABSENT)], 1)
    return {
        "choice": tf.argmax(filled, -1, tf.int32),
        "probabilities": tf.nn.softmax(logits),
        "logits": logits,
    }
