"""Words to sequences, and what an exported model does for tagging."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.labels import LabelTask
from bert_tf.tasks.signatures import Arrays, Prepared, ServedModel, Signature, Tensors
from pipelines.labelled.schema import WordsExample
from pipelines.tokenizers import byte_ranges, packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import Runs


class TagsPrediction(NamedTuple):
    """A tag for each word, and its probability."""

    tags: tuple[str, ...]
    probabilities: np.ndarray


class ServedTagging(LabelTask):
    """What an exported model does: words, their tags, and their places in the text.

    Texts longer than `max_seq_length` are cut between words into several sequences.
    """

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` takes raw text, `<task>_words` words, `<task>_ids` token ids."""
        words = {"words": tf.TensorSpec([None, None], tf.string, "words")}
        return [
            Signature(
                self.name,
                signatures.text_specs("text"),
                {"text": ["A sentence to warm up with."]},
                lambda inputs: self._split(model, inputs["text"]),
                model.logits,
                self._tags_of_text,
            ),
            Signature(
                f"{self.name}_words",
                words,
                {"words": [["A", "sentence", "to", "warm", "up", "with", "."]]},
                lambda inputs: self._cut(model, inputs["words"]),
                model.logits,
                self._tags_of_words,
            ),
            model.ids_signature(self.name, self._tags_of_ids, pair=False),
        ]

    def _split(self, model: ServedModel, text: tf.Tensor) -> Prepared:
        """Splits text at white space and punctuation, as the tokenizer does."""
        pieces, starts, ends, begins = model.tokenizer.functions.tokenize_by_word(text)
        is_first = begins.flat_values
        runs = packing.cut_words(model.tokenizer, pieces, is_first, self.max_seq_length)
        first = tf.where(is_first)[:, 0]
        # A word ends where its last piece does: before the next word's first, or at the end.
        next_first = tf.concat([first, [tf.size(pieces.flat_values, tf.int64)]], 0)[1:]
        return _prepared(
            model,
            runs,
            text=text,
            text_of_word=tf.gather(pieces.value_rowids(), first),
            start=tf.gather(starts.flat_values, first),
            end=tf.gather(ends.flat_values, next_first - 1),
        )

    def _tags_of_text(self, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
        probabilities = _of_words(results, state)
        text, row, start, end = (state[name] for name in ("text", "text_of_word", "start", "end"))

        def padded(values: tf.Tensor, default: Any) -> tf.Tensor:
            rows = tf.shape(text, tf.int64)[0]
            return tf.RaggedTensor.from_value_rowids(values, row, nrows=rows).to_tensor(default)

        return {
            "tokens": padded(byte_ranges.cut(text, row, start, end), ""),
            "tags": padded(signatures.best(self.labels, probabilities), ""),
            "probabilities": padded(tf.reduce_max(probabilities, -1), 0.0),
            "starts": padded(tf.cast(start, tf.int32), 0),
            "ends": padded(tf.cast(end, tf.int32), 0),
            "start_characters": padded(byte_ranges.to_characters(text, row, start), 0),
            "end_characters": padded(byte_ranges.to_characters(text, row, end), 0),
        }

    def _cut(self, model: ServedModel, words: tf.Tensor) -> Prepared:
        """Empty words fill up rows that have fewer."""
        shape = tf.shape(words)
        flat = tf.reshape(words, [-1])
        present = flat != ""
        row = tf.boolean_mask(tf.repeat(tf.range(shape[0], dtype=tf.int64), shape[1]), present)
        words = tf.boolean_mask(flat, present)
        runs = cut(model.tokenizer, words, row, shape[0], self.max_seq_length)
        return _prepared(model, runs, present=tf.reshape(present, shape))

    def _tags_of_words(self, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
        probabilities = _of_words(results, state)
        place, shape = tf.where(state["present"]), tf.shape(state["present"], tf.int64)
        # Counted from 1, so that 0 is left for words that are not present.
        best = tf.scatter_nd(place, tf.argmax(probabilities, -1, tf.int32) + 1, shape)
        return {
            "tags": tf.gather(tf.constant(["", *self.labels]), best),
            "probabilities": tf.scatter_nd(place, tf.reduce_max(probabilities, -1), shape),
        }

    def _tags_of_ids(self, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
        (logits,) = results
        probabilities = tf.nn.softmax(logits)
        return {
            "tags": signatures.best(self.labels, probabilities),
            "probabilities": tf.reduce_max(probabilities, -1),
            "logits": logits,
        }

    def requests(self, examples: Sequence[WordsExample]) -> dict[str, Any]:
        """The words, for `<task>_words`: text would be split by other rules."""
        most = max(len(example.words) for example in examples)
        # An empty word is a word; the padding of rows is empty, too.
        words = [[word or signatures.EMPTY_TEXT for word in example.words] for example in examples]
        return {"words": [[*row, *[""] * (most - len(row))] for row in words]}

    @property
    def request_signature(self) -> str:
        """The signature that takes words."""
        return f"{self.name}_words"

    def from_outputs(
        self, examples: Sequence[WordsExample], outputs: Arrays
    ) -> list[TagsPrediction]:
        """Tags and probabilities of the words of each example."""
        rows = zip(examples, outputs["tags"], outputs["probabilities"], strict=True)
        return [
            TagsPrediction(
                tuple(tag.decode() for tag in tags[: len(example.words)]),
                probabilities[: len(example.words)],
            )
            for example, tags, probabilities in rows
        ]


def cut(
    tokenizer: Tokenizer,
    words: tf.Tensor | Sequence[str],
    text: tf.Tensor | np.ndarray,
    texts: tf.Tensor | int,
    max_seq_length: int,
) -> Runs:
    """Cuts texts, given by their words, into sequences of whole words.

    A word that normalization makes empty is an unknown token: it gets its tag, too.

    Args:
      tokenizer: for the words.
      words: string [words], those of all texts one after the other.
      text: int64 [words], the text of each, ascending.
      texts: how many there are.
      max_seq_length: tokens of a sequence, special ones included.
    """
    pieces = tokenizer.tokenize_words(words)
    lost = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.fill([tf.reduce_sum(lost)], tokenizer.unknown_id)
    pieces = tf.concat([pieces, tf.RaggedTensor.from_row_lengths(unknown, lost)], 1)
    by_text = tf.RaggedTensor.from_value_rowids(
        pieces.flat_values, tf.gather(text, pieces.value_rowids()), nrows=tf.cast(texts, tf.int64)
    )
    first = pieces.row_starts()
    total = tf.size(pieces.flat_values, tf.int64)
    is_first = tf.scatter_nd(first[:, tf.newaxis], tf.ones_like(first), [total]) > 0
    return packing.cut_words(tokenizer, by_text, is_first, max_seq_length)


def _prepared(model: ServedModel, runs: Runs, **state: tf.Tensor) -> Prepared:
    """Runs of words as sequences, and the place of each word's first token in them."""
    place = tf.stack([runs.row, runs.position], -1)
    return Prepared(model.padded(runs.packed), {"place": place, **state})


def _of_words(results: Sequence[tf.Tensor], state: Tensors) -> tf.Tensor:
    """Probabilities of the tags of each word, float32 [words, tags]."""
    return tf.nn.softmax(tf.gather_nd(results[0], state["place"]))
