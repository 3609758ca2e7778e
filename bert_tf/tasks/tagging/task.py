"""Tagging of words: the first sub-token of a word carries its tag (paper, section 5.3)."""

import collections
import dataclasses
import itertools
import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.special
import seqeval.metrics
import sklearn.metrics
import tensorflow as tf
from absl import logging

from bert_tf.tasks import base, messages, plots
from bert_tf.tasks.base import Task
from bert_tf.tasks.predictions import TagsPrediction
from bert_tf.tasks.tagging import words
from bert_tf.tasks.tagging.serving import TaggingServing
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import WordsExample, have_labels
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import matplotlib.figure

_IGNORED = -1
_CONTEXT = 12  # words shown on each side of a mistake


def _of_entities(tags: Iterable[str]) -> bool:
    return all(tag == "O" or tag[:2] in ("B-", "I-", "E-", "S-") for tag in tags)


@dataclasses.dataclass(frozen=True)
class Tagging(Task[WordsExample, TagsPrediction]):
    """A tag for each word.

    A row of features is a sentence, or a part of one that exceeds the window.

    Attributes:
      document_context: whether the sentences round a sentence fill up its
        sequence, as far as its document reaches.
      tag_set: all tags that there are, if training has none besides; they are
        labels then, though training may lack some.
      balanced: whether the loss weighs tags by the inverse of their frequency.
      label_weights: those weights, found in the training data.
    """

    described: ClassVar[tuple[str, ...]] = ("document_context",)

    document_context: bool = False
    tag_set: tuple[str, ...] = ()
    balanced: bool = False
    label_weights: tuple[float, ...] = ()
    shape: str = dataclasses.field(default="tagging", init=False)
    per_token: bool = dataclasses.field(default=True, init=False)

    @property
    def units(self) -> int:
        """One for each tag."""
        return len(self.labels)

    @property
    def entities(self) -> bool:
        """Whether tags mark the begin and the inside of entities (IOB schemes)."""
        return _of_entities(self.labels)

    def _check_kind(self, tags: Collection[str], path: str) -> None:
        """Raises InputError for entities where parts of speech are asked for; warns of numbers."""
        if self.tag_set and _of_entities(tags):
            example = max(set(tags) - {"O"})
            raise InputError(
                f"{path}: the tags are of entities, such as {example!r}, not parts of speech; "
                "name the column with --columns=tags=COLUMN, or give --task=ner."
            )
        if all(map(str.isdecimal, tags)):
            logging.warning(
                "%s: the tags are numbers, which are scored as plain tags; for entities name them: "
                "--label_map=0=O,1=B-PER,...",
                path,
            )

    @property
    def main_metric(self) -> str:
        """F1 of entities, or accuracy of plain tags."""
        return "f1" if self.entities else "accuracy"

    def fit(self, examples: Sequence[WordsExample]) -> Self:
        """Finds the tags, sorted, and their weights."""
        counts = collections.Counter(tag for example in examples for tag in example.truth)
        if len(counts) < 2:
            path = messages.file_of(examples[0].place)
            raise InputError(
                f"{path}: all words have the tag {min(counts)!r}; there "
                "is nothing to learn from one class."
            )
        messages.check_labels(counts, examples[0].place, "tags")
        self._check_kind(counts.keys(), messages.file_of(examples[0].place))
        labels = sorted(self.tag_set if counts.keys() <= set(self.tag_set) else counts)
        weights = base.balancing_weights(np.array([counts[label] for label in labels]))
        return dataclasses.replace(
            self, labels=tuple(labels), label_weights=weights if self.balanced else ()
        )

    def problem(self, example: WordsExample) -> str | None:
        """A sentence without words."""
        return None if example.words else "the sentence has no words"

    def check(self, examples: Sequence[WordsExample]) -> None:
        """Checks for unknown tags."""
        known = set(self.labels)
        for example in examples:
            for tag in set(example.tags or ()) - known:
                messages.check_known(tag, self.labels, example.place, "tag")

    def feature_settings(self) -> dict[str, Any]:
        """As usual, and whether there is document context."""
        return super().feature_settings() | {"document_context": self.document_context}

    def features(self, examples: Sequence[WordsExample], tokenizer: Tokenizer) -> Features:
        """Sequences, the first token of each word, and a label for each of those."""
        counts = [len(example.words) for example in examples]
        example_of_word = np.repeat(np.arange(len(examples)), counts)
        flat = [word for example in examples for word in example.words]
        runs = words.cut(tokenizer, flat, example_of_word, len(examples), self.max_length)
        row, position = runs.row.numpy(), runs.position.numpy()
        splits = np.searchsorted(row, np.arange(runs.packed.word_ids.nrows() + 1))
        owner = example_of_word[splits[:-1]]  # the example of each row
        packed = runs.packed
        if self.document_context:
            alone = tokenizer.overhead[0]
            rows = [ids[1 : len(ids) + 1 - alone] for ids in packed.word_ids.numpy()]
            documents = [examples[index].document for index in owner]
            rows, shifts = words.add_context(rows, documents, self.max_length - alone)
            wider = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), list(map(len, rows)))
            packed = packing.pack(tokenizer, wider, None, self.max_length)
            position = position + shifts[row]
        columns = {
            "input_word_ids": FeatureColumn.of(packed.word_ids),
            "input_type_ids": FeatureColumn.of(packed.type_ids),
            "firsts": FeatureColumn(position, splits),
            "example": FeatureColumn.of(owner),
        }
        if have_labels(examples):
            index = {tag: number for number, tag in enumerate(self.labels)}
            tags = [index[tag] for example in examples for tag in example.truth]
            columns["labels"] = FeatureColumn(np.array(tags, np.int64), splits)
        longer = len(owner) - len(set(owner))
        return Features(
            columns, {f"sentences longer than --max_length={self.max_length}, in parts": longer}
        )

    def batch_labels(
        self, features: Features, rows: np.ndarray, size: int, length: int
    ) -> base.Batch:
        """int32 [size, length]: the label at the first token of each word, else -1."""
        if "labels" not in features:
            return {}
        labels = np.full((size, length), _IGNORED, np.int32)
        for index, row in enumerate(rows):
            labels[index, features["firsts"].row(row)] = features["labels"].row(row)
        return {"labels": labels}

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of the tags, [size, length]."""
        labels = tf.maximum(batch["labels"], 0)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """1, or the weight of the label, where there is one."""
        there = tf.cast(batch["labels"] != _IGNORED, tf.float32)
        if not self.label_weights:
            return there
        return there * tf.gather(tf.constant(self.label_weights), tf.maximum(batch["labels"], 0))

    def serving(self) -> TaggingServing:
        """See `signatures.tagging`; each text is on its own, without document context."""
        return TaggingServing(self.name, self.max_length, self.labels)

    def predict(
        self, examples: Sequence[WordsExample], features: Features, logits: Sequence[np.ndarray]
    ) -> list[TagsPrediction]:
        """The most probable tag of each word."""
        parts: list[list[np.ndarray]] = [[] for _ in examples]
        for row, scores in enumerate(logits):
            index = int(features["example"].values[row])
            parts[index].append(scipy.special.softmax(scores[features["firsts"].row(row)], axis=-1))
        found = []
        nothing = np.zeros((0, len(self.labels)), np.float32)
        for rows in parts:
            shares = np.concatenate([nothing, *rows])
            best = shares.argmax(-1)
            tags = tuple(self.labels[tag] for tag in best)
            found.append(TagsPrediction(tags, shares.max(-1)))
        return found

    def metrics(
        self, examples: Sequence[WordsExample], predictions: Sequence[TagsPrediction]
    ) -> dict[str, float]:
        """Accuracy over words; of entities precision, recall and F1 as conlleval counts them."""
        truth = [list(example.truth) for example in examples]
        guesses = [list(prediction.tags) for prediction in predictions]
        right = np.concatenate([np.equal(a, b) for a, b in zip(truth, guesses, strict=True)])
        result = {"accuracy": float(right.mean())}
        if self.entities:
            for name in ("f1", "precision", "recall"):
                score = getattr(seqeval.metrics, f"{name}_score")
                result[name] = float(score(truth, guesses, zero_division=0))
        return result

    def baseline(
        self, training: Sequence[WordsExample], examples: Sequence[WordsExample]
    ) -> list[TagsPrediction]:
        """The most frequent tag of each word; of a word that training lacks, that of all words."""
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for example in training:
            for word, tag in zip(example.words, example.truth, strict=True):
                counts[word][tag] += 1
        best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        total: collections.Counter[str] = sum(counts.values(), collections.Counter())
        usual = total.most_common(1)[0][0]
        return [
            TagsPrediction(tuple(best.get(word, usual) for word in e.words), np.ones(len(e.words)))
            for e in examples
        ]

    def answers(self, prediction: TagsPrediction) -> Sequence[str]:
        """The tags."""
        return prediction.tags

    def by_label(
        self, examples: Sequence[WordsExample], predictions: Sequence[TagsPrediction]
    ) -> dict[str, base.LabelScores]:
        """Scores of each tag; of entities, of each type as conlleval counts them."""
        truth = [list(example.truth) for example in examples]
        guesses = [list(prediction.tags) for prediction in predictions]
        if self.entities:
            types = sorted({tag[2:] for tag in self.labels if tag != "O"})
            found = seqeval.metrics.classification_report(
                truth, guesses, output_dict=True, zero_division=0
            )
            there = [name for name in types if name in found]
            rows = [found[name] for name in there]
            kinds = ("precision", "recall", "f1-score", "support")
            return base.label_scores(there, ([row[kind] for row in rows] for kind in kinds))
        flat = [list(itertools.chain.from_iterable(rows)) for rows in (truth, guesses)]
        columns = sklearn.metrics.precision_recall_fscore_support(
            *flat, labels=list(self.labels), zero_division=0
        )
        return base.label_scores(self.labels, columns)

    def files(
        self, examples: Sequence[WordsExample], predictions: Sequence[TagsPrediction], split: str
    ) -> dict[str, str]:
        """What conlleval reads: word, true tag where known, predicted tag; and JSON by sentence."""
        rows: list[tuple[str, ...]] = []
        lines = []
        for example, prediction in zip(examples, predictions, strict=True):
            truth = [example.tags] if example.tags else []
            rows += [*zip(example.words, *truth, prediction.tags, strict=True), ()]
            line = {"id": example.key, "words": example.words, "tags": prediction.tags}
            line |= {"true_tags": example.tags} if example.tags else {}
            lines.append(json.dumps(line, ensure_ascii=False))
        return {
            f"predictions.{split}.txt": base.table(rows, " "),
            f"predictions.{split}.jsonl": "".join(f"{line}\n" for line in lines),
        }

    def mistakes(
        self, examples: Sequence[WordsExample], predictions: Sequence[TagsPrediction], count: int
    ) -> list[str]:
        """The wrong tags that the model was surest of."""
        wrong = [
            (float(prediction.probabilities[word]), example, prediction, word)
            for example, prediction in zip(examples, predictions, strict=True)
            for word in range(len(example.words))
            if prediction.tags[word] != example.truth[word]
        ]
        wrong.sort(key=lambda item: -item[0])
        lines = []
        for sure, example, prediction, word in wrong[:count]:
            near = list(example.words)
            near[word] = f"[{near[word]}]"
            text = " ".join(near[max(0, word - _CONTEXT) : word + _CONTEXT + 1])
            lines.append(
                f"{example.place}: {prediction.tags[word]} ({sure:.0%} sure) is "
                f"{example.truth[word]}\n    {text}"
            )
        return lines

    def draw(
        self,
        figure: "matplotlib.figure.Figure",
        examples: Sequence[WordsExample],
        predictions: Sequence[TagsPrediction],
    ) -> None:
        """The confusion matrix of the tags."""
        matrix = sklearn.metrics.confusion_matrix(
            [tag for example in examples for tag in example.truth],
            [tag for prediction in predictions for tag in prediction.tags],
            labels=list(self.labels),
        )
        plots.draw_confusion(figure, matrix, self.labels)
