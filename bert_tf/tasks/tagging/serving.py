"""Tagging of words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tasks import offsets, signatures
from bert_tf.tasks.predictions import TagsPrediction
from bert_tf.tasks.signatures import Engine, Serving, Signature, Tensors
from bert_tf.tasks.tagging.words import cut
from pipelines.labelled.schema import WordsExample
from pipelines.tokenizers import byte_ranges, packing
from pipelines.tokenizers.packing import Runs


class TaggingServing(Serving[WordsExample, TagsPrediction]):
    """Words, their tags, and where they stand.

    Args:
      name: of the task.
      max_length: tokens of a sequence; longer texts are cut between words into several.
      labels: the tags, in the order of the logits.
    """

    def __init__(self, name: str, max_length: int, labels: Sequence[str]):
        self._name = name
        self._max_length = max_length
        self._labels = list(labels)

    def signatures(self, engine: Engine) -> list[Signature]:
        """`<task>_words` takes words, `<task>` raw text, `<task>_ids` token ids."""
        words = {"words": tf.TensorSpec([None, None], tf.string, "words")}
        return [
            Signature(
                self._name,
                signatures.text_specs("text"),
                lambda inputs: self._tag_text(engine, inputs["text"]),
                {"text": ["A sentence to warm up with."]},
            ),
            Signature(
                f"{self._name}_words",
                words,
                lambda inputs: self._tag_words(engine, inputs["words"]),
                {"words": [["A", "sentence", "to", "warm", "up", "with", "."]]},
            ),
            Signature(
                f"{self._name}_ids",
                engine.ids_specs(),
                lambda inputs: self._tag_ids(engine, engine.checked(inputs)),
                engine.ids_sample(),
            ),
        ]

    def _tag_text(self, engine: Engine, text: tf.Tensor) -> Tensors:
        """Words are what the tokenizer splits at white space and punctuation."""
        pieces, starts, ends, begins = engine.tokenizer.functions.tokenize_by_word(text)
        is_first = begins.flat_values
        runs = packing.cut_words(engine.tokenizer, pieces, is_first, self._max_length)
        shares = self._shares(engine, runs)
        first = tf.where(is_first)[:, 0]
        row = tf.gather(pieces.value_rowids(), first)
        # A word ends where its last piece does: before the next word's first, or at the end.
        next_first = tf.concat([first, [tf.size(pieces.flat_values, tf.int64)]], 0)[1:]
        start = tf.gather(starts.flat_values, first)
        end = tf.gather(ends.flat_values, next_first - 1)
        words = byte_ranges.cut(text, row, start, end)

        def padded(values: tf.Tensor, default: Any) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(values, row, nrows=pieces.nrows())
            return ragged.to_tensor(default)

        return {
            "tokens": padded(words, ""),
            "tags": padded(self._best(shares), ""),
            "probabilities": padded(tf.reduce_max(shares, -1), 0.0),
            "starts": padded(tf.cast(start, tf.int32), 0),
            "ends": padded(tf.cast(end, tf.int32), 0),
            "start_characters": padded(offsets.to_characters(text, row, start), 0),
            "end_characters": padded(offsets.to_characters(text, row, end), 0),
        }

    def _tag_words(self, engine: Engine, words: tf.Tensor) -> Tensors:
        """Empty words fill up rows that have fewer."""
        shape = tf.shape(words)
        flat = tf.reshape(words, [-1])
        there = flat != ""
        row = tf.boolean_mask(tf.repeat(tf.range(shape[0], dtype=tf.int64), shape[1]), there)
        runs = cut(engine.tokenizer, tf.boolean_mask(flat, there), row, shape[0], self._max_length)
        shares = self._shares(engine, runs)
        place = tf.where(there)
        size = tf.cast(tf.size(flat), tf.int64)[tf.newaxis]
        # Numbers from 1, so that 0 is left for what is not there.
        best = tf.scatter_nd(place, tf.argmax(shares, -1, tf.int32) + 1, size)
        tags = tf.gather(tf.constant(["", *self._labels]), best)
        return {
            "tags": tf.reshape(tags, shape),
            "probabilities": tf.reshape(
                tf.scatter_nd(place, tf.reduce_max(shares, -1), size), shape
            ),
        }

    def _tag_ids(self, engine: Engine, inputs: Tensors) -> Tensors:
        logits = engine.logits(inputs)
        shares = tf.nn.softmax(logits)
        return {
            "tags": self._best(shares),
            "probabilities": tf.reduce_max(shares, -1),
            "logits": logits,
        }

    def _shares(self, engine: Engine, runs: Runs) -> tf.Tensor:
        """Probabilities of the tags of each word, float32 [words, tags]."""
        logits = engine.logits(engine.inputs(runs.packed))
        return tf.nn.softmax(tf.gather_nd(logits, tf.stack([runs.row, runs.position], -1)))

    def _best(self, shares: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(self._labels), tf.argmax(shares, -1))

    def requests(self, examples: Sequence[WordsExample]) -> dict[str, Any]:
        """The words, for `<task>_words`: text would be split by other rules."""
        most = max(len(example.words) for example in examples)
        # An empty word is a word; what is not there is empty, too.
        words = [[word or signatures.NOTHING for word in example.words] for example in examples]
        return {"words": [[*row, *[""] * (most - len(row))] for row in words]}

    @property
    def request_signature(self) -> str:
        """The signature that takes words."""
        return f"{self._name}_words"

    def predictions(
        self, examples: Sequence[WordsExample], outputs: Mapping[str, np.ndarray]
    ) -> list[TagsPrediction]:
        """Tags and probabilities of the words of each example."""
        rows = zip(examples, outputs["tags"], outputs["probabilities"], strict=True)
        return [
            TagsPrediction(
                tuple(tag.decode() for tag in tags[: len(example.words)]),
                shares[: len(example.words)],
            )
            for example, tags, shares in rows
        ]
