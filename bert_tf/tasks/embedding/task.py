"""Sentence embeddings (Reimers and Gurevych 2019, arXiv 1908.10084)."""

import dataclasses
import enum
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.stats
import sklearn.feature_extraction.text
import tensorflow as tf

from bert_tf.tasks import reports, signatures
from bert_tf.tasks.base import Size, Task, TaskFiles
from bert_tf.tasks.embedding import losses, retrieval
from bert_tf.tasks.sequences import SequencesTask
from bert_tf.tasks.signatures import Arrays, PlainTexts, Prepared, ServedModel, Signature, Tensors
from pipelines.common.errors import InputError
from pipelines.common.texts import shorten
from pipelines.labelled import embedding_files
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import EmbeddingExample, have_labels
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORDS = 1 << 10  # width of the baseline's vectors


class Form(enum.StrEnum):
    """What examples are, which decides the loss."""

    TEXTS = "texts"  # each is its own pair, with another dropout (SimCSE, arXiv 2104.08821)
    PAIRS = "pairs"
    TRIPLETS = "triplets"
    SIMILARITIES = "similarities"
    CLASSES = "classes"


class TextVectors(NamedTuple):
    """The vectors of the texts of an example, float32 [texts, width], each of length 1."""

    vectors: np.ndarray

    @property
    def cosine(self) -> float:
        """The cosine of the first two; 1 for a single text."""
        return float(self.vectors[0] @ self.vectors[min(1, len(self.vectors) - 1)])


Examples = Sequence[EmbeddingExample]
Predictions = Sequence[TextVectors]


@dataclasses.dataclass(frozen=True)
class Embedding(SequencesTask):
    """One vector for each text.

    Attributes:
      form: what the training examples are.
      dimensions: the first numbers of a vector that must do as vectors, too (Kusupati et al. 2022,
        arXiv 2205.13147); empty: only all of them.
      normalize: whether the vectors of exports have length 1, as those of predictions do.
      prompts: texts that may begin a text, by name. Training and `predict` add none, as
        sentence-transformers does in training.
      default_prompt: name of the prompt that vectors are made with if none is named; "": none.
      truncate_dim: dimensions that vectors are cut to, before they are normalized; None: all.
      similarity: how vectors are compared by `neighbours` and clients: "cosine" or "dot".
    """

    shape: ClassVar[str] = "embedding"
    own_head: ClassVar[bool] = False
    # What decides the vectors of a text, apart from weights and tokens.
    vector_fields: ClassVar[tuple[str, ...]] = (
        *("head", "normalize", "prompts", "default_prompt", "truncate_dim", "similarity"),
    )
    described: ClassVar[tuple[str, ...]] = ("form", "dimensions", *vector_fields[1:])
    feature_fields: ClassVar[tuple[str, ...]] = ("form",)
    main_metric = "score"
    reads_pooled = False

    form: Form = Form.PAIRS
    dimensions: tuple[int, ...] = ()
    normalize: bool = True
    prompts: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)
    default_prompt: str = ""
    truncate_dim: Size | None = None
    similarity: Literal["cosine", "dot"] = "cosine"

    @property
    def prefix(self) -> str:
        """The default prompt; empty if there is none."""
        return self.prompts.get(self.default_prompt, "")

    @property
    def least_rows(self) -> int:
        """The texts of other rows are what a text must not be near to, if its row has none."""
        return 1 if self.form in (Form.SIMILARITIES, Form.TRIPLETS) else 2

    @property
    def needs_dropout(self) -> bool:
        """Without dropout, both vectors of a text that is its own pair are the same."""
        return self.form is Form.TEXTS

    @property
    def units(self) -> int:
        """Width of the vectors, if a dense layer decides it; else 0."""
        return self.head.dense_width

    def begin_with(self, known: Iterable[Task]) -> Self:
        """Vectors are made as those of a model that was trained to make some."""
        same = next((task for task in known if isinstance(task, Embedding)), self)
        if same.units and same.name != self.name:
            raise InputError(
                f"{self.name}: the model's dense layer is that of its task {same.name}, which is "
                f"trained under this name only: --task={same.name}=embedding."
            )
        return dataclasses.replace(self, **{x: getattr(same, x) for x in self.vector_fields})

    def fit(self, examples: Examples) -> Self:
        """Finds the form of the examples, and of their labels."""
        self.check(examples)
        form, file = _form(examples), reports.file_of(examples[0].place)
        labels: tuple[str, ...] = ()
        if form is Form.CLASSES:
            labels = tuple(sorted({example.label or "" for example in examples}))
            if len(labels) < 2:
                raise InputError(
                    f"{file}: every text has the label {labels[0]!r}; there is nothing to learn "
                    "from one class."
                )
        if form is Form.SIMILARITIES:
            values = {float(example.label or 0) for example in examples}
            if len(values) == 1:
                raise InputError(
                    f"{file}: every pair has the similarity {values.pop():g}; give different ones, "
                    "or pairs without them."
                )
        second = {example.texts[-1] for example in examples}
        if form in (Form.PAIRS, Form.TEXTS) and len(second) == 1:
            raise InputError(
                f"{file}: every row has the text {shorten(second.pop(), 40)!r}; each must be "
                "found among other ones, so give several."
            )
        return dataclasses.replace(self, form=form, labels=labels)

    def check(self, examples: Examples) -> None:
        """Checks that similarities are possible cosines, with which they are compared."""
        if _form(examples) is not Form.SIMILARITIES:
            return
        for example in examples:
            if not -1 <= float(example.label or 0) <= 1:
                raise InputError(
                    f"{example.place}: the similarity {example.label} is not from -1 to 1, as "
                    "cosines are; divide those of the file by the largest possible one, such as 5."
                )

    def restore(self, description: Any) -> Self:
        """The task that `describe` described."""
        restored = super().restore(description)
        return dataclasses.replace(restored, form=Form(restored.form))

    def problem(self, example: EmbeddingExample) -> str | None:
        """An empty text."""
        return None if all(map(str.strip, example.texts)) else "a text is empty"

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """A row for each example: its texts one after the other, and the length of each."""
        texts = [self._texts(example) for example in examples]
        packed, lengths = tokenizer.pack_texts(
            [text for row in texts for text in row], None, self.max_seq_length
        )
        columns = self.sequence_columns(packed, np.array(list(map(len, texts))))
        if have_labels(examples):
            columns["labels"] = FeatureColumn.of(self._targets(examples))
        cut = int(tf.reduce_sum(tf.cast(lengths > self.max_seq_length, tf.int32)))
        return Features(
            columns, {f"texts longer than --max_seq_length={self.max_seq_length}, cut": cut}
        )

    def _texts(self, example: EmbeddingExample) -> tuple[str, ...]:
        """The texts of a row; in training, a text alone is its own pair."""
        alone = self.form is Form.TEXTS and len(example.texts) == 1
        return example.texts * 2 if alone else example.texts

    def _targets(self, examples: Examples) -> np.ndarray:
        """Similarities, ids of classes, or ids of the texts, [examples] or [examples, texts]."""
        form = _form(examples)
        if form is Form.SIMILARITIES:
            return np.array([float(example.label or 0) for example in examples], np.float32)
        if form is Form.CLASSES:
            known = {label: number for number, label in enumerate(self.labels)}
            return np.array([known.get(example.label or "", 0) for example in examples], np.int64)
        numbers: dict[str, int] = {}
        rows = map(self._texts, examples)
        ids = [[numbers.setdefault(text, len(numbers)) for text in row] for row in rows]
        return np.array(ids, np.int64)

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The vectors of the texts of each row, [size, texts, width]."""
        size, texts = tf.unstack(tf.shape(batch["input_word_ids"])[:2])
        return tf.reshape(logits, [size, texts, logits.shape[-1]])

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The loss of the form of all dimensions, plus those of the first ones alone."""
        if not self.dimensions:
            return self._loss(logits, batch)
        sizes = {logits.shape[-1], *self.dimensions}
        shorter = [tf.math.l2_normalize(logits[..., :size], -1) for size in sizes]
        return tf.add_n([self._loss(vectors, batch) for vectors in shorter])

    def _loss(self, vectors: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        if self.form is Form.SIMILARITIES:
            return losses.similarity(vectors, batch["labels"])
        if self.form is Form.CLASSES:
            # Distances depend on the lengths of vectors, cosines do not.
            points = tf.math.l2_normalize(vectors, -1) if self.normalize else vectors
            return losses.triplet(points, batch["labels"], batch["weights"])
        return losses.ranking(vectors, batch["labels"], batch["weights"])

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` of raw text, and `<task>_ids` of token ids.

        With a default prompt, also `<task>_unprompted` of texts that are taken as they are.
        """

        def finish(results: Sequence[Any], state: Tensors) -> dict[str, Any]:
            found = results[0][:, : self.truncate_dim]
            return {"embedding": signatures.normalized(found) if self.normalize else found}

        def of_text(name: str, prefix: str) -> Signature:
            def pack(inputs: Tensors) -> Prepared:
                texts = tf.strings.join([prefix, inputs["text"]]) if prefix else inputs["text"]
                tokens = model.tokenizer.functions.tokenize(texts)
                packed = packing.pack(model.tokenizer, tokens, None, self.max_seq_length)
                return Prepared(model.padded(packed), {})

            return Signature(
                name,
                signatures.text_specs("text"),
                {"text": ["A sentence to warm up with."]},
                pack,
                model.logits,
                finish,
                plain=PlainTexts(("text",), self.max_seq_length, prefix=prefix),
            )

        ids = model.ids_signature(self.name, finish, pair=False)
        if not self.prefix:
            return [of_text(self.name, ""), ids]
        return [of_text(self.name, self.prefix), of_text(self.request_signature, ""), ids]

    @property
    def request_signature(self) -> str:
        """Name of the signature that adds no prompt."""
        return f"{self.name}_unprompted" if self.prefix else self.name

    def requests(self, examples: Examples) -> dict[str, Any]:
        """All texts, one after the other."""
        return {"text": [text for example in examples for text in example.texts]}

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[TextVectors]:
        """The vectors of the texts of each example."""
        splits = np.cumsum([len(example.texts) for example in examples])[:-1]
        vectors = signatures.normalized(outputs["embedding"])
        return [TextVectors(part) for part in np.split(vectors, splits)]

    def predict(
        self, examples: Examples, features: Features, logits: Sequence[np.ndarray]
    ) -> list[TextVectors]:
        """The vectors, each of length 1."""
        pairs = zip(examples, logits, strict=True)
        return [
            TextVectors(signatures.normalized(rows[: len(e.texts), : self.truncate_dim]))
            for e, rows in pairs
        ]

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """By the form of the examples; `score` is the first of them.

        Of pairs with similarities Spearman's correlation with the cosines; of classes how often the
        nearest text has the same one; of other pairs what `retrieval.scores` returns. Single texts
        have nothing to be right about: how far apart they are, 1 - the mean cosine.
        """
        form = _form(examples)
        if form is Form.SIMILARITIES:
            truth = [float(example.label or 0) for example in examples]
            cosines = [prediction.cosine for prediction in predictions]
            differ = len(set(truth)) > 1 and len(set(cosines)) > 1
            found = {"spearman": float(scipy.stats.spearmanr(truth, cosines)[0]) if differ else 0.0}
        elif form is Form.CLASSES:
            points = np.stack([prediction.vectors[0] for prediction in predictions])
            classes = np.array([example.label for example in examples])
            found = {"nearest_accuracy": retrieval.nearest_accuracy(points, classes)}
        elif form is Form.TEXTS:
            mean = np.mean([prediction.vectors[0] for prediction in predictions], 0)
            found = {"spread": float(1 - mean @ mean)}
        else:
            found = _retrieval(examples, predictions)
        return {"score": next(iter(found.values())), **found}

    def baseline(self, training: Examples, examples: Examples) -> list[TextVectors]:
        """Vectors of the words of texts: which are in both."""
        words = sklearn.feature_extraction.text.HashingVectorizer(
            n_features=_WORDS, norm="l2", dtype=np.float32
        )
        return [TextVectors(words.transform(e.texts).toarray()) for e in examples]

    def answers(self, prediction: TextVectors) -> Sequence[str]:
        """The cosine of two texts, or the first numbers of one."""
        if len(prediction.vectors) > 1:
            return [f"{prediction.cosine:.3f}"]
        return [" ".join(f"{value:.3f}" for value in prediction.vectors[0, :3])]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """A table of ids, cosines and texts."""
        table = {"id": [example.key for example in examples]}
        table["cosine"] = [f"{prediction.cosine:.6f}" for prediction in predictions]
        if have_labels(examples) and any(example.label for example in examples):
            table["true_label"] = [example.label or "" for example in examples]
        for index in range(max(len(example.texts) for example in examples)):
            table[f"text{index + 1}"] = [
                example.texts[index] if index < len(example.texts) else "" for example in examples
            ]
        return {f"predictions.{split}.tsv": reports.tsv(table)}

    def errors(
        self, example: EmbeddingExample, prediction: TextVectors
    ) -> Iterable[tuple[float, str]]:
        """A pair whose cosine differs most from its similarity, or is lowest."""
        if len(example.texts) < 2:
            return
        truth = float(example.label) if example.label else 1.0
        lines = "\n".join(f"    {shorten(text)}" for text in example.texts)
        wanted = f", not {truth:.2f}" if example.label else ""
        place = f"{example.place}: cosine {prediction.cosine:.2f}{wanted}"
        yield -abs(prediction.cosine - truth), f"{place}\n{lines}"

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """Cosines of pairs by their similarity, or next to those of texts of different examples."""
        axes = figure.subplots()
        cosines = [prediction.cosine for prediction in predictions]
        if _form(examples) is Form.SIMILARITIES:
            truth = [float(example.label or 0) for example in examples]
            axes.scatter(truth, cosines, s=8, alpha=0.4)
            axes.set_xlabel("similarity")
            axes.set_ylabel("cosine")
        else:
            shifted = [*predictions[1:], predictions[0]]
            mixed = [
                TextVectors(np.stack([one.vectors[0], other.vectors[-1]])).cosine
                for one, other in zip(predictions, shifted, strict=True)
            ]
            bins = np.linspace(-1, 1, 41).tolist()
            axes.hist(cosines, bins, alpha=0.6, label="texts of one example")
            axes.hist(mixed, bins, alpha=0.6, label="of different examples")
            axes.set_xlabel("cosine")
            axes.legend()
        axes.grid(alpha=0.3)


def _form(examples: Examples) -> Form:
    """What examples are, by the first one."""
    first = examples[0]
    if len(first.texts) > 2:
        return Form.TRIPLETS
    if len(first.texts) == 2:
        return Form.SIMILARITIES if first.label else Form.PAIRS
    return Form.CLASSES if first.label else Form.TEXTS


def _retrieval(examples: Examples, predictions: Predictions) -> dict[str, float]:
    """Scores of finding the second texts by the first ones, among all but itself, each once."""
    texts: dict[str, int] = {}
    relevant: dict[str, set[int]] = {}
    queries: dict[str, np.ndarray] = {}
    vectors: list[np.ndarray] = []
    for example, prediction in zip(examples, predictions, strict=True):
        first, *others = example.texts
        queries.setdefault(first, prediction.vectors[0])
        for text, vector in zip(others, prediction.vectors[1:], strict=False):
            if text not in texts:
                texts[text] = len(texts)
                vectors.append(vector)
        found = relevant.setdefault(first, set())
        found.add(texts[others[0]] if others else -1)
    wanted, own = [sorted(r) for r in relevant.values()], [texts.get(q, -1) for q in queries]
    return retrieval.scores(np.stack(list(queries.values())), np.stack(vectors), wanted, own)


TASKS = (Embedding("embedding", TaskFiles.of_user(embedding_files.read)),)
