"""Question answering by spans: SQuAD 1.1 and 2.0 (paper, sections 4.2 and 4.3)."""

import collections
import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.special
import tensorflow as tf

from bert_tf.tasks import reports
from bert_tf.tasks.base import Batch, TaskFiles
from bert_tf.tasks.span import decoding, squad_metrics
from bert_tf.tasks.span.decoding import LOW, Candidate, SpanPrediction
from bert_tf.tasks.span.serving import ServedSpans
from bert_tf.tasks.span.windows import WindowSizes, chunk_features
from pipelines.common.errors import InputError
from pipelines.common.texts import shorten
from pipelines.labelled import offsets, squad, user_files
from pipelines.labelled.features import FeatureColumn, Features, pad
from pipelines.labelled.schema import SpanExample, have_labels
from pipelines.labelled.source import Source
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Examples = Sequence[SpanExample]
Predictions = Sequence[SpanPrediction]
_CHUNK = 256  # contexts that are packed at once


@dataclasses.dataclass(frozen=True)
class SpanTask(ServedSpans):
    """An answer is a span of the context, or, if `allow_null`, none.

    A row of features is a window of a context, preceded by its question.
    """

    shape: ClassVar[str] = "span"
    per_token: ClassVar[bool] = True
    described: ClassVar[tuple[str, ...]] = (
        *("allow_null", "null_threshold", "stride"),
        *("max_question", "max_answer", "n_best"),
    )
    feature_fields: ClassVar[tuple[str, ...]] = ("stride", "max_question")

    main_metric = "f1"
    segments = 2  # the question and a part of the context
    units = 2  # start and end

    def fit(self, examples: Examples) -> Self:
        """Finds whether questions may have no answer.

        Raises:
          InputError: they may, but all have one.
        """
        some_null = any(not example.answers for example in examples)
        if self.allow_null and not some_null:
            path = reports.file_of(examples[0].place)
            raise InputError(
                f"{path}: every question ({len(examples):,} in all) has an answer, "
                f"so that {self.kind} cannot learn when there is none; train squad1 with them."
            )
        return dataclasses.replace(
            self, allow_null=some_null if self.allow_null is None else self.allow_null
        )

    def fit_features(self, training: Features) -> Self:
        """Answers of the user's own files may have as many tokens as the longest in training."""
        if self.kind != "span":  # those of SQuAD have the limit of the reference
            return self
        start, end = training["labels"].values.reshape(-1, 2).T
        return dataclasses.replace(
            self, max_answer=max(self.max_answer, int((end - start).max()) + 1)
        )

    def tune(self, examples: Examples, predictions: Predictions) -> Self:
        """Sets the threshold with the highest F1."""
        if not self.allow_null:
            return self
        keyed = list(zip([example.key for example in examples], predictions, strict=True))
        answers = {key: _best_text(prediction) for key, prediction in keyed}
        odds = {key: prediction.null_odds for key, prediction in keyed}
        threshold = squad_metrics.best_threshold(examples, answers, odds)
        return dataclasses.replace(self, null_threshold=threshold)

    def classes(self, example: SpanExample) -> set[str]:
        """Whether the question has an answer."""
        return {"answer" if example.answers else "none"}

    def problem(self, example: SpanExample) -> str | None:
        """An empty text, an answer that is not at its offset, or none where each has one."""
        if self.allow_null is False and example.answers == ():
            return "the question has no answer; squad2 learns when there is none"
        answer = example.answers[0] if example.answers else None
        if answer and (
            answer.start < 0 or not example.context.startswith(answer.text, answer.start)
        ):
            shown = shorten(answer.text, 60)
            return f"the answer {shown!r} is not at character {answer.start} of the context"
        return reports.empty_text(example, "question", "context")

    def check(self, examples: Examples) -> None:
        """Raises InputError for duplicate ids."""
        seen: dict[str, str] = {}
        for example in examples:
            if example.key in seen:
                raise InputError(
                    f"{example.place}: the id {example.key!r} is used at {seen[example.key]} too."
                )
            seen[example.key] = example.place

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Windows, the bytes of their tokens, and start and end where known."""
        parts: dict[str, list[Any]] = {}
        counts = collections.Counter[str]()
        labelled = have_labels(examples)
        sizes = WindowSizes(self.max_seq_length, self.stride, self.max_question)
        for first in range(0, len(examples), _CHUNK):
            chunk = examples[first : first + _CHUNK]
            found, counted = chunk_features(sizes, chunk, first, tokenizer, labelled)
            counts.update(counted)
            for name, value in found.items():
                parts.setdefault(name, []).append(value)
        columns = {name: FeatureColumn.of(tf.concat(values, 0)) for name, values in parts.items()}
        counts["further windows of long contexts"] = len(columns["example"]) - len(examples)
        if labelled and self.kind != "span":
            start, end = columns["labels"].values.reshape(-1, 2).T
            # An answer may be in several windows.
            long = columns["example"].values[end - start >= self.max_answer]
            counts[f"answers of more than {self.max_answer} tokens, which are never given"] = len(
                np.unique(long)
            )
        return Features(columns, counts)

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """int32 [size, 2]: the positions of start and end; 0 where the window has no answer."""
        if "labels" not in features:
            return {}
        labels = [features["labels"].row(row) for row in rows]
        return {"labels": pad(labels, size, 2)}

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Padding can be neither start nor end."""
        hidden = 1.0 - tf.cast(batch["input_mask"], tf.float32)
        return logits - 1e9 * hidden[:, :, tf.newaxis]

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The mean negative log-likelihood of start and end."""
        labels, scores = batch["labels"], tf.transpose(logits, [0, 2, 1])
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores), axis=1
        )

    def teacher_losses(self, logits: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
        """The mean divergence of the distributions of start and end over the tokens."""
        ours, theirs = (tf.transpose(x, [0, 2, 1]) for x in (logits, teacher))
        return tf.reduce_mean(super().teacher_losses(ours, theirs), axis=1)

    def predict(
        self, examples: Examples, features: Features, logits: Sequence[np.ndarray]
    ) -> list[SpanPrediction]:
        """Candidates from all windows of each context."""
        rows = features["example"].values
        found: list[SpanPrediction] = []
        for first in range(0, len(examples), _CHUNK):
            chunk = examples[first : first + _CHUNK]
            begin, end = np.searchsorted(rows, [first, first + len(chunk)])
            found += self._decode(chunk, features, range(begin, end), logits[begin:end])
        return found

    def _decode(
        self, examples: Examples, features: Features, windows: range, logits: Sequence[np.ndarray]
    ) -> list[SpanPrediction]:
        """Predictions of some examples from the logits of their windows, as serving decodes them.

        Scores are summed in float64, so that files are what they were with Python's floats.
        """
        scores = np.full((len(logits), max(map(len, logits)), 2), LOW)
        for scored, row in zip(scores, logits, strict=True):
            scored[: len(row)] = row
        part = slice(windows.start, windows.stop)
        row = features["example"].values[part] - features["example"].values[windows.start]
        splits = features["starts"].splits[windows.start : windows.stop + 1]
        lengths = np.diff(splits)
        starts, ends, best = (
            features[name].values[splits[0] : splits[-1]] for name in ("starts", "ends", "best")
        )
        tokens = decoding.WindowTokens(
            row,
            features["offset"].values[part],
            lengths,
            splits[:-1] - splits[0],
            starts,
            ends,
            tf.RaggedTensor.from_row_lengths(best > 0, lengths),
        )
        contexts = [example.context.encode() for example in examples]
        spans = decoding.best_spans(
            tf.constant(contexts), tf.constant(scores), tokens, self.n_best, self.max_answer
        )
        nulls = decoding.null_scores(tf.constant(scores), row, len(examples)).numpy()
        columns = [values.numpy().tolist() for values in spans]
        found = []
        for context, null, *values in zip(contexts, nulls, *columns, strict=True):
            candidates = tuple(
                Candidate(context[start:end].decode("utf-8", "replace"), a, b, start, end)
                for score, a, b, start, end in zip(*values, strict=True)
                if score > LOW / 2
            )
            found.append(SpanPrediction(candidates, float(null)))
        return found

    def answer(self, prediction: SpanPrediction) -> str:
        """The answer; "" means no answer."""
        if self.allow_null and prediction.null_odds > self.null_threshold:
            return ""
        return _best_text(prediction)

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """F1 and exact match of the official scripts; that of version 2.0 if `allow_null`."""
        pairs = zip(examples, predictions, strict=True)
        answers = {example.key: self.answer(prediction) for example, prediction in pairs}
        return squad_metrics.score(examples, answers, bool(self.allow_null))

    def baseline(self, training: Examples, examples: Examples) -> list[SpanPrediction]:
        """No answer where there may be none, else the whole context."""
        if self.allow_null:
            return [SpanPrediction((), 0.0)] * len(examples)
        return [
            SpanPrediction((Candidate(e.context, 0.0, 0.0, 0, len(e.context.encode())),), 0.0)
            for e in examples
        ]

    def answers(self, prediction: SpanPrediction) -> Sequence[str]:
        """The answer."""
        return [self.answer(prediction)]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """predictions.json, nbest_predictions.json and null_odds.json; and a table to read."""
        suffix = "" if split == "dev" else f".{split}"
        keys, texts = [e.key for e in examples], [self.answer(p) for p in predictions]
        table = {"id": keys, "answer": texts}
        if have_labels(examples):
            table["true_answers"] = [" | ".join(self._golds(example)) for example in examples]
        table["question"] = [example.question for example in examples]
        table["context"] = [example.context for example in examples]
        contents: dict[str, list[Any]] = {
            "predictions": texts,
            "nbest_predictions": [self._n_best(prediction) for prediction in predictions],
        }
        if self.allow_null:
            contents["null_odds"] = [prediction.null_odds for prediction in predictions]
        found = {f"predictions.{split}.tsv": reports.tsv(table)}
        for name, values in contents.items():
            by_key = dict(zip(keys, values, strict=True))
            found[f"{name}{suffix}.json"] = json.dumps(by_key, indent=2, ensure_ascii=False) + "\n"
        return found

    def _n_best(self, prediction: SpanPrediction) -> list[dict[str, Any]]:
        rows = [(c.text, c.start_logit, c.end_logit) for c in prediction.candidates]
        if self.allow_null or not rows:
            half = prediction.null_score / 2
            rows.append(("", half, half))
            rows.sort(key=lambda row: -(row[1] + row[2]))
        probabilities = scipy.special.softmax(np.array([row[1] + row[2] for row in rows]))
        return [
            {"text": text, "probability": float(probability), "start_logit": a, "end_logit": b}
            for (text, a, b), probability in zip(rows, probabilities, strict=True)
        ]

    def errors(
        self, example: SpanExample, prediction: SpanPrediction
    ) -> Iterable[tuple[tuple[float, float], str]]:
        """A wrong answer; the worst have no word right, and of these the surest are the worst."""
        answer = self.answer(prediction)
        exact, f1 = squad_metrics.score_one(example, answer, bool(self.allow_null))
        if max(exact, f1) < 1:
            rows = self._n_best(prediction)
            sure = next(row["probability"] for row in rows if row["text"] == answer)
            yield (
                (f1, -sure),
                f"{example.place}: {example.question}\n"
                f"    answered ({sure:.0%} sure): {shorten(answer) or '(none)'}\n"
                f"    right: {' | '.join(self._golds(example)) or '(none)'}",
            )

    def _golds(self, example: SpanExample) -> list[str]:
        """The right answers, each once."""
        golds = squad_metrics.gold_answers(example, bool(self.allow_null))
        return list(dict.fromkeys(golds))

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """F1 by the length of the right answer; with null answers, also over the threshold."""
        axes = figure.subplots(1, 2 if self.allow_null else 1, squeeze=False)[0]
        groups: dict[int, list[float]] = {}
        for example, prediction in zip(examples, predictions, strict=True):
            words = min((len(gold.split()) for gold in self._golds(example)), default=0)
            answer = self.answer(prediction)
            _, best = squad_metrics.score_one(example, answer, bool(self.allow_null))
            groups.setdefault(min(words, 15), []).append(best)
        axes[0].bar(list(groups), [float(np.mean(values)) for values in groups.values()])
        axes[0].set_xlabel("words of the answer (0: none)")
        axes[0].set_ylabel("F1")
        if self.allow_null:
            for has, label in ((True, "answerable"), (False, "unanswerable")):
                odds = [
                    np.clip(p.null_odds, -20, 20)
                    for e, p in zip(examples, predictions, strict=True)
                    if bool(e.answers) == has
                ]
                axes[1].hist(odds, bins=40, alpha=0.5, label=label)
            axes[1].axvline(self.null_threshold, color="black", linewidth=0.8)
            axes[1].set_xlabel("null odds")
            axes[1].legend()


def _best_text(prediction: SpanPrediction) -> str:
    return prediction.candidates[0].text if prediction.candidates else ""


def _read(source: Source, labelled: bool) -> list[SpanExample]:
    if squad.is_squad(source.path, source.encoding):
        return _read_squad(source)
    return offsets.corrected(list(user_files.read_spans(source, labelled)), source.path)


def _read_squad(source: Source) -> list[SpanExample]:
    return offsets.corrected(squad.read(source.path, source.encoding), source.path)


def _squad(version: int) -> SpanTask:
    # Files of other names count too, but none of the other version: none with "-v".
    endings = (f"-v{version}*.json", ".json", "[!-]*.json", "-[!v]*.json")
    files = TaskFiles(
        {split: tuple(f"{split}{end}" for end in endings) for split in ("train", "dev", "test")},
        lambda source, split, labelled, skipped: _read_squad(source),
        named_columns=False,
    )
    return SpanTask(f"squad{version}", files, max_seq_length=384, allow_null=version == 2)


TASKS = (_squad(1), _squad(2), SpanTask("span", TaskFiles.of_user(_read), max_seq_length=384))
