"""Tagging of words: the first sub-token of a word carries its tag (paper, section 5.3)."""

import collections
import dataclasses
import functools
import itertools
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.tasks import reports
from bert_tf.tasks.base import Batch, LabelScores, TaskFiles
from bert_tf.tasks.labels import check_case, check_labels
from bert_tf.tasks.signatures import TRANSITIONS
from bert_tf.tasks.tagging import crf, schemes
from bert_tf.tasks.tagging.serving import ServedTagging, TagsPrediction, cut
from pipelines.common.errors import InputError
from pipelines.labelled import conll, labelled_lines, text_files
from pipelines.labelled.columns import SPLITS
from pipelines.labelled.features import FeatureColumn, Features, packed_columns
from pipelines.labelled.schema import TextEntity, WordsExample, have_labels
from pipelines.labelled.source import Source
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

Examples = Sequence[WordsExample]
Predictions = Sequence[TagsPrediction]
_IGNORED = -1
_CONTEXT = 12  # words shown on each side of a mistake
_DECODED = 256  # examples at once
_MAX_WRONG = 0.05  # of tags of entities, which do not follow their scheme


@dataclasses.dataclass(frozen=True)
class Tagging(ServedTagging):
    """A tag for each word.

    A row of features is a sentence, or a part of one that is longer than `max_seq_length`.

    Attributes:
      document_context: whether a sequence is filled up with the sentences around its own, as far
        as they are of the same document.
      tag_set: all tags that exist. If training has no others, they are the labels, although
        training may lack some.
    """

    shape: ClassVar[str] = "tagging"
    per_token: ClassVar[bool] = True
    has_chain: ClassVar[bool] = True
    described: ClassVar[tuple[str, ...]] = ("document_context", "valid_tags")
    feature_fields: ClassVar[tuple[str, ...]] = ("document_context",)
    role: ClassVar[str] = "tags"

    document_context: bool = False
    tag_set: tuple[str, ...] = ()

    @property
    def main_metric(self) -> str:
        """F1 of entities, or accuracy of tags of single words."""
        return "f1" if self.scheme else "accuracy"

    def given(self, example: WordsExample) -> Sequence[str]:
        """The tags."""
        return example.tags or ()

    def fit(self, examples: Examples) -> Self:
        """Finds the tags, sorted, their weights, and whether they follow their scheme.

        Raises:
          InputError: there is one tag, tags look like something else, or a CRF is `balanced`.
        """
        if self.balanced and self.head.crf:
            raise InputError(
                "--balanced: the loss of a CRF is of whole sentences, not of single tags; leave "
                "out --balanced or --crf."
            )
        counts, path = self.counted(examples), reports.file_of(examples[0].place)
        if len(counts) < 2:
            raise InputError(
                f"{path}: all words have the tag {min(counts)!r}; there is nothing to learn from "
                "one class."
            )
        check_labels(counts, examples[0].place, "tags", named="tags" in dict(self.columns))
        if not self.label_map:
            check_case(counts, examples[0].place, "tags")
        self._check_kind(counts.keys(), path)
        labels = sorted(self.tag_set if counts.keys() <= set(self.tag_set) else counts)
        weights = self.weights(counts, labels)
        found = dataclasses.replace(self, labels=tuple(labels), label_weights=weights)
        found = dataclasses.replace(found, valid_tags=found._are_valid(examples))
        kind = found.scheme or "of single words"
        logging.info("%s: the tags are %s; scored by %s.", path, kind, found.main_metric)
        return found

    def _check_kind(self, tags: Collection[str], path: str) -> None:
        """Warns of numbers.

        Raises:
          InputError: tags are of entities where parts of speech are expected, or only some are.
        """
        if self.tag_set and (scheme := schemes.find(tags)):
            example = max(set(tags) - {scheme.outside})
            raise InputError(
                f"{path}: the tags are of entities, such as {example!r}, not parts of speech; "
                "name the column with --columns=tags=COLUMN, or give --task=ner."
            )
        schemes.check(tags, path)
        if all(map(str.isdecimal, tags)):
            logging.warning(
                "%s: the tags are numbers, which are scored as plain tags; for entities name them: "
                "--label_map=0=O,1=B-PER,...",
                path,
            )

    def _are_valid(self, examples: Examples) -> bool:
        """Whether tags follow their scheme (IOB1 does not) but for slips, which are logged."""
        if self.scheme is None or (valid := self.scheme.valid(self.labels)) is None:
            return True
        ids = {label: number for number, label in enumerate(self.labels)}
        rows = [np.array([-1, *(ids[tag] for tag in e.truth), -1]) for e in examples]
        wrong = [int((~valid[row[:-1], row[1:]]).sum()) for row in rows]
        inside = sum(tag != self.scheme.outside for e in examples for tag in e.truth)
        follow = sum(wrong) <= _MAX_WRONG * inside
        if any(wrong):
            first = next(e for e, count in zip(examples, wrong, strict=True) if count)
            logging.warning(
                "%s: the tags of %d of %d words in entities do not follow their scheme (the first "
                "is here), such as an entity that begins with I-; predictions %s.",
                *(first.place, sum(wrong), inside, "will" if follow else "need not, either"),
            )
        return follow

    def problem(self, example: WordsExample) -> str | None:
        """A sentence without words."""
        return None if example.words else "the sentence has no words"

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Sequences, the first token of each word, and a label for each of those."""
        counts = [len(example.words) for example in examples]
        example_of_word = np.repeat(np.arange(len(examples)), counts)
        flat = [word for example in examples for word in example.words]
        runs = cut(tokenizer, flat, example_of_word, len(examples), self.max_seq_length)
        packed, row, position = runs.packed, runs.row.numpy(), runs.position.numpy()
        splits = np.searchsorted(row, np.arange(packed.word_ids.nrows() + 1))
        owner = example_of_word[splits[:-1]]  # the example of each row
        if self.document_context:
            alone, first = tokenizer.overhead[0], int(tokenizer.framed)
            rows = [ids[first : len(ids) + first - alone] for ids in packed.word_ids.numpy()]
            documents = np.array([examples[index].document for index in owner])
            rows, shifts = _add_context(rows, documents, self.max_seq_length - alone)
            wider = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), list(map(len, rows)))
            packed = packing.pack(tokenizer, wider, None, self.max_seq_length)
            position = position + shifts[row]
        columns = packed_columns(packed) | {
            "firsts": FeatureColumn(position, splits),
            "example": FeatureColumn.of(owner),
        }
        if have_labels(examples):
            columns["labels"] = FeatureColumn(self.label_values(examples), splits)
        longer = len(owner) - len(set(owner))
        return Features(
            columns,
            {f"sentences longer than --max_seq_length={self.max_seq_length}, in parts": longer},
        )

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """int32 [size, length]: the label at the first token of each word, else -1."""
        if "labels" not in features:
            return {}
        labels = np.full((size, length), _IGNORED, np.int32)
        for index, row in enumerate(rows):
            labels[index, features["firsts"].row(row)] = features["labels"].row(row)
        return {"labels": labels}

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of the tags, [size, length]; of a CRF, its mean, [size]."""
        labels = tf.maximum(batch["labels"], 0)
        if self.head.crf:
            is_word = batch["labels"] != _IGNORED
            likelihood = crf.log_likelihood(logits, labels, is_word, batch[TRANSITIONS])
            return tf.math.divide_no_nan(-likelihood, self.loss_weights(batch))
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """1, or the weight of the label, at the tokens that have one; of a CRF, their number."""
        labelled = tf.cast(batch["labels"] != _IGNORED, tf.float32)
        if self.head.crf:
            return tf.reduce_sum(labelled, 1)
        if not self.label_weights:
            return labelled
        return labelled * tf.gather(tf.constant(self.label_weights), tf.maximum(batch["labels"], 0))

    def predict(
        self, examples: Examples, features: Features, logits: Sequence[Any]
    ) -> list[TagsPrediction]:
        """The most probable tags of the words of each example, in all its rows."""
        transitions = None
        parts = [np.zeros((0, len(self.labels)), np.float32)]
        for number, scores in enumerate(logits):
            if self.head.crf:
                scores, transitions = scores
            parts.append(scores[features["firsts"].row(number)])
        flat, found = np.concatenate(parts), list[TagsPrediction]()
        ends = np.cumsum([len(example.words) for example in examples])
        for some in np.split(np.arange(len(examples)), range(_DECODED, len(examples), _DECODED)):
            sizes = np.diff(ends[some], prepend=ends[some[0]] - len(examples[some[0]].words))
            row, scores = np.repeat(np.arange(len(some)), sizes), flat[: sizes.sum()]
            flat = flat[len(scores) :]
            chosen = self.choose_tags(tf.constant(scores), row, len(some), transitions)
            tags, shares = (np.split(x.numpy(), np.cumsum(sizes)[:-1]) for x in chosen)
            for each, probabilities in zip(tags, shares, strict=True):
                names = tuple(self.labels[tag] for tag in each)
                found.append(TagsPrediction(names, probabilities))
        return found

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Accuracy over words; of entities precision, recall and F1 as conlleval counts them."""
        flat = self.pairs(examples, predictions)
        result = {"accuracy": float(np.equal(*flat).mean())}
        if self.scheme:
            counts = self._by_type(examples, predictions).values()
            result |= _scores(*np.sum([*counts, (0, 0, 0)], 0).tolist())
        return result

    def _by_type(
        self, examples: Examples, predictions: Predictions
    ) -> dict[str, tuple[int, int, int]]:
        """The numbers of true, guessed and rightly guessed entities of each type."""
        assert self.scheme is not None
        iobes = functools.cache(self.scheme.iobes)
        counts = [collections.Counter[str]() for _ in range(3)]
        for example, guess in zip(examples, predictions, strict=True):
            each = [set(schemes.entities(map(iobes, tags))) for tags in (example.truth, guess.tags)]
            for count, found in zip(counts, (*each, each[0] & each[1]), strict=True):
                count.update(entity.type for entity in found)
        tags = set(map(iobes, self.labels)) - {"O"}
        types = {tag[2:] or "_" for tag in tags} | counts[0].keys() | counts[1].keys()
        true, guessed, right = counts
        return {name: (true[name], guessed[name], right[name]) for name in sorted(types)}

    def baseline(self, training: Examples, examples: Examples) -> list[TagsPrediction]:
        """The most frequent tag of each word, or of all words where training lacks the word."""
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

    def by_label(self, examples: Examples, predictions: Predictions) -> dict[str, LabelScores]:
        """Scores of each tag; of entities, of each type as conlleval counts them."""
        if self.scheme is None:
            return super().by_label(examples, predictions)
        return {
            name: cast("LabelScores", {**_scores(true, guessed, right), "count": true})
            for name, (true, guessed, right) in self._by_type(examples, predictions).items()
            if true or guessed
        }

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """What conlleval reads: word, true tag where known, predicted tag; and JSON by sentence.

        Where the file had texts with entities, those that were found are written in its form.
        """
        rows: list[tuple[str, ...]] = []
        lines, annotated = [], []
        for example, prediction in zip(examples, predictions, strict=True):
            truth = [example.tags] if example.tags else []
            rows += [*zip(example.words, *truth, prediction.tags, strict=True), ()]
            line: dict[str, Any] = {"id": example.key, "words": example.words}
            line |= {"tags": prediction.tags} | ({"true_tags": example.tags} if truth else {})
            if self.scheme:
                text, found = self.entities(example, prediction)
                shown = [{**each._asdict(), "text": text[each.start : each.end]} for each in found]
                line |= {"text": text, "entities": shown}
                annotated += [example.form.written(text, found)] if example.form else []
            lines.append(line)
        texts = {
            f"predictions.{split}.txt": reports.table(rows, " "),
            f"predictions.{split}.jsonl": _by_line(lines),
        }
        if not annotated:
            return texts
        if ": line " in examples[0].place:
            return texts | {f"annotations.{split}.jsonl": _by_line(annotated)}
        whole = json.dumps(annotated, ensure_ascii=False, indent=1)
        return texts | {f"annotations.{split}.json": f"{whole}\n"}

    def entities(
        self, example: WordsExample, prediction: TagsPrediction
    ) -> tuple[str, list[TextEntity]]:
        """The text of an example (its words with spaces between) and the entities in it."""
        text, starts = example.text, example.starts
        if text is None:
            sizes = [len(word) + 1 for word in example.words]
            text, starts = " ".join(example.words), tuple(itertools.accumulate(sizes, initial=0))
        assert self.scheme is not None
        return text, [
            TextEntity(
                kind,
                starts[first],
                starts[end - 1] + len(example.words[end - 1]),
                float(prediction.probabilities[first:end].min()),
            )
            for kind, first, end in schemes.entities(map(self.scheme.iobes, prediction.tags))
        ]

    def errors(
        self, example: WordsExample, prediction: TagsPrediction
    ) -> Iterable[tuple[float, str]]:
        """Wrong tags; the worst are those that the model was surest of."""
        for word, (tag, true) in enumerate(zip(prediction.tags, example.truth, strict=True)):
            if tag != true:
                first = max(0, word - _CONTEXT)
                near = list(example.words[first : word + _CONTEXT + 1])
                near[word - first] = f"[{near[word - first]}]"
                text = " ".join(near)
                sure = float(prediction.probabilities[word])
                yield -sure, f"{example.place}: {tag} ({sure:.0%} sure) is {true}\n    {text}"


def _add_context(
    rows: Sequence[np.ndarray], documents: np.ndarray, limit: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Fills up each sequence with the tokens before and after it in its document.

    Args:
      rows: tokens of each sequence, without special ones.
      documents: int64 [rows], the document of each; equal numbers in a row are one document.
      limit: maximum number of tokens in a sequence.

    Returns:
      The wider rows, and int64 [rows], the number of tokens that each got in front.
    """
    flat, ends = np.concatenate(rows), np.cumsum([len(row) for row in rows])
    starts = np.concatenate([[0], ends[:-1]])
    breaks = np.flatnonzero(np.diff(documents)) + 1  # first rows of all documents but the first
    number = np.searchsorted(breaks, np.arange(len(rows)), "right")  # of each row's document
    first = np.concatenate([[0], starts[breaks]])[number]
    last = np.concatenate([starts[breaks], [len(flat)]])[number]
    room = limit - (ends - starts)
    before, after = starts - first, last - ends
    taken = np.minimum(before, np.maximum(room // 2, room - after))
    stops = np.minimum(ends + room - taken, last)
    return [flat[a:b] for a, b in zip(starts - taken, stops, strict=True)], taken


def _by_line(values: Iterable[Any]) -> str:
    return "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values)


def _scores(true: int, guessed: int, right: int) -> dict[str, float]:
    """Precision, recall and their harmonic mean; 0 where there is nothing to divide by."""
    return {
        "f1": 2 * right / max(true + guessed, 1),
        "precision": right / max(guessed, 1),
        "recall": right / max(true, 1),
    }


def _read(source: Source, labelled: bool) -> list[WordsExample]:
    return list(text_files.read_words(source, labelled))


def _patterns(*names: str, other: str) -> tuple[str, ...]:
    """The patterns of the files of a split, by its names and that in the shared task of 2003."""
    exact = [f"{name}{ending}" for ending in (".txt", ".tsv") for name in names]
    endings = ("*.conll", "*.conllu")
    some = [f"*{name}{ending}" for ending in endings for name in names]
    folders = [f"{name}/{labelled_lines.WORDS}" for name in names]
    return (*exact, *some, other, *(f"*{name}.tsv" for name in names), *folders)


_NER = TaskFiles(
    {
        "train": _patterns("train", other="eng.train"),
        "dev": _patterns(*SPLITS["dev"], other="eng.testa"),
        "test": _patterns("test", other="eng.testb"),
    },
    lambda source, split, labelled, skipped: _read(source, labelled),
)
TASKS = (
    Tagging("ner", _NER),
    Tagging("pos", _NER, tag_set=conll.UPOS),
    Tagging("tagging", TaskFiles.of_user(_read, (".conllu", ".conll"))),
)
