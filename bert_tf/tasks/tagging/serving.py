"""Words to sequences, and what an exported model does for tagging."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.labels import LabelTask
from bert_tf.tasks.signatures import TRANSITIONS, Arrays, Prepared, ServedModel, Signature, Tensors
from bert_tf.tasks.tagging import crf, schemes
from bert_tf.tasks.tagging.schemes import Scheme
from pipelines.labelled.schema import WordsExample
from pipelines.tokenizers import byte_ranges, packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import Runs

_MAX_CELLS = 1 << 16  # words of texts that are decoded together, padding included


class TagsPrediction(NamedTuple):
    """A tag for each word, and its probability."""

    tags: tuple[str, ...]
    probabilities: np.ndarray


class PlacedWords(NamedTuple):
    """Words, or entities, of texts, with their bytes.

    Attributes:
      text: string [batch].
      row: int64 [words], the text of each word, ascending.
      start: int64 [words], its first byte.
      end: int64 [words], the byte after its last one.
    """

    text: tf.Tensor
    row: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor

    @classmethod
    def joined(cls, words: tf.Tensor, row: tf.Tensor, rows: tf.Tensor) -> "PlacedWords":
        """Words with single spaces between, string [words], of so many rows."""
        text = tf.strings.unsorted_segment_join(words, row, rows, " ")
        size = tf.cast(tf.strings.length(words), tf.int64)
        place = tf.cumsum(size + 1, exclusive=True)
        start = place - tf.gather(tf.math.unsorted_segment_min(place, row, rows), row)
        return cls(text, row, start, start + size)

    def places(self) -> Tensors:
        """The texts of the words, and where they start and end, in bytes and in characters."""
        text, row, start, end = self
        return {
            "tokens": byte_ranges.cut(text, row, start, end),
            "starts": tf.cast(start, tf.int32),
            "ends": tf.cast(end, tf.int32),
            "start_characters": byte_ranges.to_characters(text, row, start),
            "end_characters": byte_ranges.to_characters(text, row, end),
        }

    def padded(self, columns: Tensors) -> Tensors:
        """Values of words as [batch, most words of a text] each, filled up with 0 or ""."""
        rows = tf.size(self.text, tf.int64)
        return {
            name: tf.RaggedTensor.from_value_rowids(values, self.row, rows).to_tensor(
                "" if values.dtype == tf.string else 0
            )
            for name, values in columns.items()
        }


@dataclasses.dataclass(frozen=True)
class ServedTagging(LabelTask):
    """What an exported model does: words, their tags, entities, and their places in the text.

    Texts longer than `max_seq_length` are cut between words into several sequences; tags are chosen
    for all words of a text together.

    Attributes:
      valid_tags: whether tags follow their scheme, if it is known: an entity begins with B- or S-,
        and continues with its type. Training sets it by its own tags.
    """

    valid_tags: bool = True

    @functools.cached_property
    def scheme(self) -> Scheme | None:
        """How tags mark entities; None: they are of single words."""
        return schemes.find(self.labels)

    @functools.cached_property
    def _valid(self) -> np.ndarray | None:
        """Which labels may follow which (`Scheme.valid`); None: all may."""
        return self.scheme.valid(self.labels) if self.scheme and self.valid_tags else None

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
        names = ("text", "text_of_word", "start", "end")
        words = PlacedWords(*(state[name] for name in names))
        tags, probabilities = self._served_tags(results, state, words.row, tf.size(words.text))
        columns = words.places() | {
            "tags": tf.gather(tf.constant(self.labels), tags),
            "probabilities": probabilities,
        }
        return words.padded(columns) | self._entities(words, tags, probabilities)

    def _cut(self, model: ServedModel, words: tf.Tensor) -> Prepared:
        """Empty words fill up rows that have fewer."""
        shape = tf.shape(words)
        flat = tf.reshape(words, [-1])
        present = flat != ""
        row = tf.boolean_mask(tf.repeat(tf.range(shape[0], dtype=tf.int64), shape[1]), present)
        words = tf.boolean_mask(flat, present)
        runs = cut(model.tokenizer, words, row, shape[0], self.max_seq_length)
        return _prepared(model, runs, present=tf.reshape(present, shape), words=words)

    def _tags_of_words(self, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
        place, shape = tf.where(state["present"]), tf.shape(state["present"], tf.int64)
        row = place[:, 0]
        tags, probabilities = self._served_tags(results, state, row, shape[0])
        # Counted from 1, so that 0 is left for words that are not present.
        best = tf.scatter_nd(place, tags + 1, shape)
        found = {
            "tags": tf.gather(tf.constant(["", *self.labels]), best),
            "probabilities": tf.scatter_nd(place, probabilities, shape),
        }
        joined = PlacedWords.joined(state["words"], row, shape[0])
        return found | self._entities(joined, tags, probabilities)

    def _tags_of_ids(self, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
        logits, *transitions = results
        if transitions:  # which decide the tags, together with the logits of all words
            return {"logits": logits, TRANSITIONS: transitions[0]}
        probabilities = tf.nn.softmax(logits)
        return {
            "tags": signatures.best(self.labels, probabilities),
            "probabilities": tf.reduce_max(probabilities, -1),
            "logits": logits,
        }

    def _served_tags(
        self, results: Sequence[tf.Tensor], state: Tensors, row: tf.Tensor, rows: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """`choose_tags` for the words of a request; arguments as there."""
        logits, *transitions = results
        # All sequences have the same transitions; there may be no sequence.
        table = tf.reduce_sum(transitions[0][:1], 0) if transitions else None
        return self.choose_tags(tf.gather_nd(logits, state["place"]), row, rows, table)

    def choose_tags(
        self,
        logits: tf.Tensor,
        row: tf.Tensor,
        rows: tf.Tensor | int,
        transitions: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The most probable tags of texts among those that follow the scheme.

        Args:
          logits: float32 [words, tags], of the words of all texts one after the other.
          row: int64 [words], the text of each, ascending.
          rows: how many there are.
          transitions: float32 [tags + 1, tags + 1], of a CRF; None: tags depend on the word alone.

        Returns:
          The index of each word's tag, int32 [words], and its probability, float32 [words].
        """
        shares, best = tf.nn.softmax(logits), tf.argmax(logits, -1, tf.int32)
        if transitions is None and self._valid is None:
            return best, tf.reduce_max(shares, -1)
        valid = tf.ones([len(self.labels) + 1] * 2, tf.bool) if self._valid is None else self._valid
        table = tf.where(valid, 0.0 if transitions is None else transitions, crf.FORBIDDEN)

        def decoded() -> tuple[tf.Tensor, tf.Tensor]:
            by_text = tf.RaggedTensor.from_value_rowids(logits, row, tf.cast(rows, tf.int64))
            words = by_text.row_lengths()

            def together() -> tuple[tf.Tensor, tf.Tensor]:
                found = crf.decode(by_text.to_tensor(), words, table)
                there = tf.sequence_mask(words, tf.shape(found[0])[1])
                return tf.boolean_mask(found[0], there), tf.boolean_mask(found[1], there)

            def one_by_one() -> tuple[tf.Tensor, tf.Tensor]:
                def text(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                    begin, end = by_text.row_splits[number], by_text.row_splits[number + 1]
                    tags, shares = crf.decode(logits[begin:end][tf.newaxis], [end - begin], table)
                    return tags[0], shares[0]

                kinds = (tf.RaggedTensorSpec([None], tf.int32), tf.RaggedTensorSpec([None]))
                numbers = tf.range(tf.size(words))
                found = tf.map_fn(text, numbers, fn_output_signature=kinds, parallel_iterations=1)
                return found[0].flat_values, found[1].flat_values

            # A long text among short ones would be padding for the most part.
            cells = tf.size(words, tf.int64) * tf.reduce_max(tf.concat([words, [0]], 0))
            return tf.cond(cells > _MAX_CELLS, one_by_one, together)

        if transitions is not None:
            return decoded()
        # Mostly the best tags of all words are valid.
        same = row[1:] == row[:-1]
        around = len(self.labels)
        before = tf.concat([[around], tf.where(same, best[:-1], around)], 0)[: tf.size(best)]
        after = tf.concat([tf.where(same, best[1:], around), [around]], 0)[: tf.size(best)]
        pairs = tf.concat([tf.stack([before, best], -1), tf.stack([best, after], -1)], 0)
        all_valid = tf.reduce_all(tf.gather_nd(tf.constant(self._valid), pairs))
        tags = tf.cond(all_valid, lambda: best, lambda: decoded()[0])
        return tags, tf.gather(shares, tags, batch_dims=1)

    def _entities(self, words: "PlacedWords", tags: tf.Tensor, probabilities: tf.Tensor) -> Tensors:
        """The entities of `schemes.entities`; their probability is that of their least sure tag."""
        if self.scheme is None:
            return {}
        iobes = [self.scheme.iobes(label) for label in self.labels]

        def where(*parts: str) -> tf.Tensor:
            return tf.gather(tf.constant([tag[0] in parts for tag in iobes]), tags)

        inside, type_ = ~where("O"), tf.gather(tf.constant([tag[2:] or "_" for tag in iobes]), tags)
        goes_on = (inside & ~where("E", "S"))[:-1] & (inside & ~where("B", "S"))[1:]
        goes_on &= (type_[1:] == type_[:-1]) & (words.row[1:] == words.row[:-1])
        begins = inside & ~tf.concat([[False], goes_on], 0)[: tf.size(tags)]
        first, of = tf.where(begins)[:, 0], tf.cumsum(tf.cast(begins, tf.int32)) - 1
        of, count = tf.boolean_mask(of, inside), tf.size(first)
        end, share = (tf.boolean_mask(x, inside) for x in (words.end, probabilities))
        entities = PlacedWords(
            *(words.text, tf.gather(words.row, first), tf.gather(words.start, first)),
            tf.math.unsorted_segment_max(end, of, count),
        )
        places = entities.places()
        found = {
            "types": tf.gather(type_, first),
            "texts": places["tokens"],
            "starts": places["start_characters"],
            "ends": places["end_characters"],
            "probabilities": tf.math.unsorted_segment_min(share, of, count),
        }
        return {f"entity_{name}": value for name, value in entities.padded(found).items()}

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
