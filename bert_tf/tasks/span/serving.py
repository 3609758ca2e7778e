"""Question answering by spans."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks import offsets, signatures
from bert_tf.tasks.predictions import Candidate, SpanPrediction
from bert_tf.tasks.signatures import Engine, Serving, Signature, Tensors
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers import byte_ranges, packing

# Below all scores; far from where float32 ends, so that sums stay finite.
_LOW = -1e30
_TINY = 1e-37


class _Spans(NamedTuple):
    """Possible answers, the best first: int64 and float32 [batch, n]; score _LOW where none."""

    score: tf.Tensor
    start: tf.Tensor  # bytes
    end: tf.Tensor


class _Pairs(NamedTuple):
    """Starts and ends that make an answer, [pairs]."""

    window: tf.Tensor  # int64
    first: tf.Tensor  # int64, the first token, counted from where the window begins
    last: tf.Tensor  # int64, the last one
    score: tf.Tensor  # float32


@dataclasses.dataclass(frozen=True)
class SpanServing(Serving[SpanExample, SpanPrediction]):
    """The answer, where it stands, and the next best ones.

    The fields are those of the task.
    """

    name: str
    max_length: int
    stride: int
    max_question: int
    max_answer: int
    n_best: int
    allow_null: bool
    null_threshold: float

    def signatures(self, engine: Engine) -> list[Signature]:
        """`<task>` and `<task>_ids`."""

        def from_ids(inputs: Tensors) -> Tensors:
            logits = engine.logits(engine.checked(inputs))
            return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}

        return [
            Signature(
                self.name,
                signatures.text_specs("question", "context"),
                lambda inputs: self._answer(engine, signatures.same_batch(inputs)),
                {"question": ["What fell?"], "context": ["Rain fell on the hills all day."]},
            ),
            Signature(f"{self.name}_ids", engine.ids_specs(), from_ids, engine.ids_sample(True)),
        ]

    def _answer(self, engine: Engine, inputs: Tensors) -> Tensors:
        context = inputs["context"]
        tokens, starts, ends = engine.tokenizer.tokenize_with_offsets(context)
        windows = packing.slide(
            engine.tokenizer,
            engine.tokenizer.tokenize(inputs["question"]),
            tokens,
            self.max_length,
            self.stride,
            self.max_question,
        )
        logits = engine.logits(engine.inputs(windows.packed))
        best = self._spans(context, logits, windows, starts, ends)
        null = tf.math.unsorted_segment_min(
            tf.reduce_sum(logits[:, 0], -1), windows.row, tf.size(context)
        )
        return self._outputs(context, best, null)

    def _spans(
        self,
        context: tf.Tensor,
        logits: tf.Tensor,
        windows: packing.Windows,
        starts: tf.RaggedTensor,
        ends: tf.RaggedTensor,
    ) -> _Spans:
        """The best spans of all windows of each context, of each text the best."""
        pairs = self._pairs(logits, windows)
        score = pairs.score
        row = tf.gather(windows.row, pairs.window)
        # Tokens are numbered through the whole batch.
        origin = tf.gather(starts.row_starts(), row) + tf.gather(windows.start, pairs.window)
        start = tf.gather(starts.flat_values, origin + pairs.first)
        end = tf.gather(ends.flat_values, origin + pairs.last)
        kept = _best_of_each(byte_ranges.fingerprints(context, row, start, end), score)

        def ragged(values: tf.Tensor) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_value_rowids(
                tf.gather(values, kept), tf.gather(row, kept), nrows=tf.size(context, tf.int64)
            )

        scores = ragged(score)
        most = tf.reduce_max(tf.concat([scores.row_lengths(), [self.n_best]], 0))
        shape = tf.stack([scores.nrows(), most])
        top = tf.math.top_k(scores.to_tensor(_LOW, shape=shape), self.n_best)
        start, end = (
            tf.gather(ragged(x).to_tensor(0, shape=shape), top.indices, batch_dims=1)
            for x in (start, end)
        )
        return _Spans(top.values, start, end)

    def _pairs(self, logits: tf.Tensor, windows: packing.Windows) -> _Pairs:
        """The pairs of the most probable starts and ends of each window.

        A start counts only in the window where it has most context.
        """
        scores, places = self._ends(logits, windows)
        score = scores[:, 0, :, tf.newaxis] + scores[:, 1, tf.newaxis, :]
        first, last = places[:, 0, :, tf.newaxis], places[:, 1, tf.newaxis, :]
        valid = (score > _LOW / 2) & (last >= first) & (last < first + self.max_answer)
        found = tf.where(valid)
        window, start_rank, end_rank = tf.unstack(found, axis=1)
        first = tf.gather_nd(places[:, 0], tf.stack([window, start_rank], 1))
        last = tf.gather_nd(places[:, 1], tf.stack([window, end_rank], 1))
        most_context = tf.gather(
            windows.best.flat_values, tf.gather(windows.best.row_starts(), window) + first
        )
        pairs = _Pairs(window, first, last, tf.gather_nd(score, found))
        return _Pairs(*(tf.boolean_mask(values, most_context) for values in pairs))

    def _ends(self, logits: tf.Tensor, windows: packing.Windows) -> tuple[tf.Tensor, tf.Tensor]:
        """The highest logits of tokens of the context, and where these stand in the window.

        Returns:
          float32 and int64 [windows, 2 (start, end), n]; _LOW where there are fewer tokens.
        """
        offset, length = windows.offset[:, tf.newaxis], windows.length[:, tf.newaxis]
        place = tf.range(tf.shape(logits, tf.int64)[1]) - offset
        within = (place >= 0) & (place < length)
        scores = tf.where(within[:, tf.newaxis], tf.transpose(logits, [0, 2, 1]), _LOW)
        missing = tf.maximum(self.n_best - tf.shape(scores)[2], 0)
        scores = tf.pad(scores, [[0, 0], [0, 0], [0, missing]], constant_values=_LOW)
        top = tf.math.top_k(scores, self.n_best)
        return top.values, tf.cast(top.indices, tf.int64) - windows.offset[:, None, None]

    def _outputs(self, context: tf.Tensor, best: _Spans, null: tf.Tensor) -> Tensors:
        null = null if self.allow_null else tf.fill(tf.shape(null), _LOW)
        scores = tf.concat([best.score, null[:, tf.newaxis]], 1)
        shares = tf.nn.softmax(scores) * tf.cast(scores > _LOW / 2, tf.float32)
        none = (best.score[:, 0] <= _LOW / 2) | (
            self.allow_null & (null - best.score[:, 0] > self.null_threshold)
        )
        texts = _cut(context, best)
        zero = tf.zeros_like(best.start[:, 0])
        start = tf.where(none, zero, best.start[:, 0])
        end = tf.where(none, zero, best.end[:, 0])
        rows = tf.range(tf.shape(context, tf.int64)[0])
        return {
            "answer": tf.where(none, "", texts[:, 0]),
            "start": tf.cast(start, tf.int32),
            "end": tf.cast(end, tf.int32),
            "start_character": offsets.to_characters(context, rows, start),
            "end_character": offsets.to_characters(context, rows, end),
            "score": tf.where(none, shares[:, -1], shares[:, 0]),
            "no_answer_probability": shares[:, -1],
            "n_best_answer": texts,
            "n_best_start": tf.cast(best.start, tf.int32),
            "n_best_end": tf.cast(best.end, tf.int32),
            "n_best_score": shares[:, :-1],
        }

    @property
    def request_signature(self) -> str:
        """The signature of raw text."""
        return self.name

    def requests(self, examples: Sequence[SpanExample]) -> dict[str, Any]:
        """Questions and contexts."""
        return {
            "question": [example.question for example in examples],
            "context": [example.context for example in examples],
        }

    def predictions(
        self, examples: Sequence[SpanExample], outputs: Mapping[str, np.ndarray]
    ) -> list[SpanPrediction]:
        """Candidates with the logarithms of their probabilities for logits."""
        names = ("n_best_answer", "n_best_score", "n_best_start", "n_best_end")
        found = []
        for index in range(len(examples)):
            rows = zip(*(outputs[name][index] for name in names), strict=True)
            candidates = tuple(
                Candidate(text.decode("utf-8", "replace"), _log(share), 0.0, int(start), int(end))
                for text, share, start, end in rows
                if share > 0
            )
            null = outputs["no_answer_probability"][index] if self.allow_null else 0.0
            found.append(SpanPrediction(candidates, _log(null)))
        return found


def _log(share: float) -> float:
    return float(np.log(max(float(share), _TINY)))


def _best_of_each(keys: tf.Tensor, score: tf.Tensor) -> tf.Tensor:
    """The index of the highest score of each key, int64, in the order of the keys' appearance."""
    unique, number = tf.unique(keys, tf.int64)
    count = tf.size(unique, tf.int64)
    highest = tf.gather(tf.math.unsorted_segment_max(score, number, count), number)
    index = tf.range(tf.size(keys, tf.int64))
    index = tf.where(score == highest, index, tf.int64.max)
    return tf.math.unsorted_segment_min(index, number, count)


def _cut(context: tf.Tensor, spans: _Spans) -> tf.Tensor:
    """The texts of spans, string [batch, n]."""
    start = tf.cast(spans.start, tf.int32)
    return tf.strings.substr(context[:, tf.newaxis], start, tf.cast(spans.end, tf.int32) - start)
