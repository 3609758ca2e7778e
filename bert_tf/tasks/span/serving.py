"""Question answering by spans."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.base import Size, Task
from bert_tf.tasks.signatures import Arrays, Prepared, ServedModel, Signature, Tensors
from bert_tf.tasks.span import decoding
from bert_tf.tasks.span.decoding import LOW, Candidate, SpanPrediction
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers import byte_ranges, packing

_TINY = 1e-37


@dataclasses.dataclass(frozen=True)
class ServedSpans(Task):
    """What an exported model does: the answer, its place in the context, and the next best ones.

    Attributes:
      allow_null: whether questions may have no answer; None: as the training data has it.
      null_threshold: null odds above which there is no answer; tuned on dev data.
      stride: number of tokens between the starts of windows.
      max_question: maximum number of tokens of a question; longer ones are cut.
      max_answer: maximum number of tokens in an answer.
      n_best: number of candidates to keep.
    """

    allow_null: bool | None = None
    null_threshold: float = 0.0
    stride: Size = 128
    max_question: Size = 64
    max_answer: Size = 30
    n_best: Size = 20

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` and `<task>_ids`."""
        return [
            Signature(
                self.name,
                signatures.text_specs("question", "context"),
                {"question": ["What fell?"], "context": ["Rain fell on the hills all day."]},
                lambda inputs: self._windows(model, signatures.same_batch(inputs)),
                model.logits,
                self._answer,
            ),
            model.ids_signature(self.name, _split, pair=True),
        ]

    def _windows(self, model: ServedModel, inputs: Tensors) -> Prepared:
        functions = model.tokenizer.functions
        tokens, starts, ends = functions.tokenize_with_offsets(inputs["context"])
        windows = packing.slide(
            model.tokenizer,
            functions.tokenize(inputs["question"]),
            tokens,
            self.max_seq_length,
            self.stride,
            self.max_question,
        )
        found = decoding.WindowTokens(
            windows.row,
            windows.offset,
            windows.length,
            tf.gather(starts.row_starts(), windows.row) + windows.start,
            starts.flat_values,
            ends.flat_values,
            windows.best,
        )
        state = found._asdict() | {"context": inputs["context"], "best": found.best.flat_values}
        return Prepared(model.padded(windows.packed), state)

    def _answer(self, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
        (logits,) = results
        context = state["context"]
        found = decoding.WindowTokens(*(state[name] for name in decoding.WindowTokens._fields))
        found = found._replace(best=tf.RaggedTensor.from_row_lengths(found.best, found.length))
        best = decoding.best_spans(context, logits, found, self.n_best, self.max_answer)
        null = decoding.null_scores(logits, found.row, tf.size(context))
        null = null if self.allow_null else tf.fill(tf.shape(null), LOW)
        scores = tf.concat([best.score, null[:, tf.newaxis]], 1)
        probabilities = tf.nn.softmax(scores) * tf.cast(scores > LOW / 2, tf.float32)
        none = (best.score[:, 0] <= LOW / 2) | (
            bool(self.allow_null) & (null - best.score[:, 0] > self.null_threshold)
        )
        first, length = (tf.cast(x, tf.int32) for x in (best.start, best.end - best.start))
        texts = tf.strings.substr(context[:, tf.newaxis], first, length)
        zero = tf.zeros_like(best.start[:, 0])
        start = tf.where(none, zero, best.start[:, 0])
        end = tf.where(none, zero, best.end[:, 0])
        rows = tf.range(tf.shape(context, tf.int64)[0])
        return {
            "answer": tf.where(none, "", texts[:, 0]),
            "start": tf.cast(start, tf.int32),
            "end": tf.cast(end, tf.int32),
            "start_character": byte_ranges.to_characters(context, rows, start),
            "end_character": byte_ranges.to_characters(context, rows, end),
            "score": tf.where(none, probabilities[:, -1], probabilities[:, 0]),
            "no_answer_probability": probabilities[:, -1],
            "n_best_answer": texts,
            "n_best_start": tf.cast(best.start, tf.int32),
            "n_best_end": tf.cast(best.end, tf.int32),
            "n_best_score": probabilities[:, :-1],
        }

    def requests(self, examples: Sequence[SpanExample]) -> dict[str, Any]:
        """Questions and contexts."""
        return {
            "question": [example.question for example in examples],
            "context": [example.context for example in examples],
        }

    def from_outputs(
        self, examples: Sequence[SpanExample], outputs: Arrays
    ) -> list[SpanPrediction]:
        """Candidates with the logarithms of their probabilities for logits."""
        names = ("n_best_answer", "n_best_score", "n_best_start", "n_best_end")
        found = []
        for index in range(len(examples)):
            rows = zip(*(outputs[name][index] for name in names), strict=True)
            candidates = tuple(
                Candidate(
                    text.decode("utf-8", "replace"), _log(probability), 0.0, int(start), int(end)
                )
                for text, probability, start, end in rows
                if probability > 0
            )
            null = outputs["no_answer_probability"][index] if self.allow_null else 0.0
            found.append(SpanPrediction(candidates, _log(null)))
        return found


def _log(probability: float) -> float:
    return float(np.log(max(float(probability), _TINY)))


def _split(results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
    """Logits of token ids by their place in the answer."""
    return {"start_logits": results[0][:, :, 0], "end_logits": results[0][:, :, 1]}
