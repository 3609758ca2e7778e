"""Generation: a target text from a source text (Lewis et al. 2019, section 3.4)."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.generation.settings import GenerationSettings
from bert_tf.models.encoder_decoder import TARGET, TARGET_MASK
from bert_tf.tasks import reports, writing
from bert_tf.tasks.base import Batch, Size, Task, TaskFiles
from bert_tf.tasks.generation import rouge
from bert_tf.tasks.signatures import Arrays, ServedModel, Signature
from pipelines.common.texts import shorten
from pipelines.labelled import user_files
from pipelines.labelled.features import FeatureColumn, Features, packed_columns, pad
from pipelines.labelled.schema import GenerationExample, have_labels
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Examples = Sequence[GenerationExample]
Predictions = Sequence[str]
_SMOOTHING = 0.1  # of labels: this share of the probability is for all tokens alike
_NO_TOKEN = -1
# Beam search as for the summaries of the paper, with no length in mind.
_SEARCH = (("beams", 4), ("unique_ngram", 3))


@dataclasses.dataclass(frozen=True)
class Generation(Task):
    """A text for a text, by the model's head over the vocabulary.

    Attributes:
      max_target_length: maximum number of tokens in a target, special tokens included.
      search: names and values of `GenerationSettings` that differ from the defaults.
    """

    shape: ClassVar[str] = "generation"
    per_token: ClassVar[bool] = True
    own_head: ClassVar[bool] = False
    described: ClassVar[tuple[str, ...]] = ("max_target_length",)
    feature_fields: ClassVar[tuple[str, ...]] = ("max_target_length",)

    main_metric = "rouge_l"
    units = 0  # the head is that of the model

    max_target_length: Size = 64
    search: tuple[tuple[str, float], ...] = _SEARCH

    @property
    def generation(self) -> GenerationSettings:
        """How texts are written."""
        return GenerationSettings(
            **{"max_new_tokens": self.max_target_length - 1, **dict(self.search)}  # type: ignore
        )

    def with_generation(self, changes: Mapping[str, Any]) -> Self:
        """The task with other settings of how texts are written."""
        return dataclasses.replace(self, search=tuple((dict(self.search) | dict(changes)).items()))

    def describe(self) -> dict[str, Any]:
        """As in the base class, with `generation`, the settings that differ from the defaults."""
        return super().describe() | {"generation": dict(self.search)}

    def restore(self, description: Mapping[str, Any]) -> Self:
        """The task that `describe` described."""
        search = description.get("generation", dict(_SEARCH))
        restored = dataclasses.replace(super().restore(description), search=tuple(search.items()))
        restored.generation.check()
        return restored

    @classmethod
    def entry(cls) -> type:
        """The type of the described fields."""
        settings: Any = dataclasses.fields(GenerationSettings)
        search = msgspec.defstruct(
            "SearchEntry",
            [(field.name, field.type, None) for field in settings],
            forbid_unknown_fields=True,
        )
        found: Any = [("max_target_length", Size, None), ("generation", search, None)]
        return msgspec.defstruct(f"{cls.__name__}Entry", found)

    def problem(self, example: GenerationExample) -> str | None:
        """An empty text."""
        return reports.empty_text(example, "source", "target")

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Packed sources; the tokens of targets as `labels`."""

        def pack(texts: Sequence[str], most: int) -> tuple[packing.Packed, int]:
            """The packed texts, and how many of them were cut."""
            packed, lengths = tokenizer.pack_texts(texts, None, most)
            return packed, int((lengths.numpy() > most).sum())

        most = self.max_seq_length
        packed, cut = pack([example.source for example in examples], most)
        columns = packed_columns(packed)
        counts = {f"sources longer than --max_seq_length={most}, cut": cut}
        if have_labels(examples):
            most = self.max_target_length
            packed, cut = pack([example.truth for example in examples], most)
            columns["labels"] = FeatureColumn.of(packed.word_ids)
            counts[f"targets longer than --max_target_length={most}, cut"] = cut
        return Features(columns, counts)

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """int32 [size, target length]: the tokens of targets, -1 for padding."""
        if "labels" not in features:
            return {}
        targets = [features["labels"].row(row) for row in rows]
        longest = self.max_target_length if self.fixed_length else max(map(len, targets))
        return {"labels": pad(targets, size, longest, _NO_TOKEN)}

    def encoder_inputs(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The sources, and the targets where there are any."""
        inputs = super().encoder_inputs(batch)
        if "labels" not in batch:
            return inputs
        labels = batch["labels"]
        mask = tf.cast(labels != _NO_TOKEN, tf.int32)
        return inputs | {TARGET: tf.maximum(labels, 0), TARGET_MASK: mask}

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of smoothed labels (Szegedy et al. 2016), [size, length]."""
        log_probabilities = tf.nn.log_softmax(logits)
        labels = tf.maximum(batch["labels"], 0)
        of_label = tf.gather(log_probabilities, labels, batch_dims=2)
        of_all = tf.reduce_mean(log_probabilities, -1)
        return -(1 - _SMOOTHING) * of_label - _SMOOTHING * of_all

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """1 at the tokens of targets."""
        return tf.cast(batch["labels"] != _NO_TOKEN, tf.float32)

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` and `<task>_ids`; none for runtimes that cannot loop."""
        if model.portable:
            return []
        generator = writing.make_generator(model.encoder, model.head, model.tokenizer, self)
        return writing.make_signatures(model, generator, self.name)

    def requests(self, examples: Examples) -> dict[str, Any]:
        """The sources."""
        return {"text": [example.source for example in examples]}

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[str]:
        """The texts."""
        return [tf.compat.as_text(text) for text in outputs["text"]]

    def predict(self, examples: Examples, features: Features, logits: Sequence[Any]) -> list[str]:
        """The texts."""
        return list(logits)

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Means of the F1 of ROUGE-L, ROUGE-1 and ROUGE-2."""
        found = rouge.scores([example.truth for example in examples], predictions)
        return {name: float(found[name].mean()) for name in ("rouge_l", "rouge_1", "rouge_2")}

    def baseline(self, training: Examples, examples: Examples) -> list[str]:
        """The first words of the source, as many as targets have on average."""
        count = round(np.mean([len(example.truth.split()) for example in training]))
        return [" ".join(example.source.split()[:count]) for example in examples]

    def answers(self, prediction: str) -> Sequence[str]:
        """The text."""
        return [prediction]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """JSON by text: id, source, target where known, and prediction."""
        lines = []
        for example, prediction in zip(examples, predictions, strict=True):
            line = {"id": example.key, "source": example.source, "prediction": prediction}
            line |= {"target": example.target} if example.target is not None else {}
            lines.append(f"{json.dumps(line, ensure_ascii=False)}\n")
        return {f"predictions.{split}.jsonl": "".join(lines)}

    def errors(self, example: GenerationExample, prediction: str) -> Iterable[tuple[float, str]]:
        """The text that shares the fewest words with the target."""
        if prediction == example.truth:
            return
        score = float(rouge.scores([example.truth], [prediction])["rouge_l"][0])
        yield (
            score,
            f"{example.place}: ROUGE-L {score:.2f}\n    source: {shorten(example.source)}\n"
            f"    target: {example.truth}\n    prediction: {prediction}",
        )

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """How many texts have which score."""
        axes = figure.subplots()
        found = rouge.scores([example.truth for example in examples], predictions)
        for name, values in found.items():
            axes.hist(
                values,
                np.linspace(0, 1, 21).tolist(),
                histtype="step",
                label=name.replace("_", " "),
            )
        axes.set_xlabel("F1")
        axes.set_ylabel("texts")
        axes.legend()
        axes.grid(alpha=0.3)


TASKS = (Generation("generation", TaskFiles.of_user(user_files.read_generation)),)
