"""Features of tokens and words, and vectors of texts: hidden states (paper, section 5.3)."""

import contextlib
import dataclasses
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export.sources import ModelSource
from bert_tf.models import fused_ops
from bert_tf.models.head_config import Pooling
from bert_tf.models.layers import pooling
from bert_tf.vectors import model as models
from bert_tf.vectors import tokenized
from bert_tf.vectors.settings import (
    Combination,
    EmbeddingSettings,
    FeatureSettings,
    Unit,
    WordPooling,
)
from bert_tf.vectors.tokenized import Example, TokenizedTexts, Units
from pipelines.common.errors import InputError
from pipelines.common.parallel import mapped
from pipelines.common.texts import shorten
from pipelines.labelled import bucketing
from pipelines.labelled.schema import TextExample, WordsExample
from pipelines.tokenizers.packing import MODEL_INPUTS

MIN_NORM = 1e-12  # the norm of shorter vectors, for normalization
_SHOWN = 40  # characters of a text in a message
_SURROGATES = re.compile("[\ud800-\udfff]")
# Batches. While one waits for its threads, the other computes: 3 to 5 % more texts per second on
# two cores; three were no faster than two.
_AT_ONCE = 2
Progress = Callable[[int], Any]


class TextFeatures(NamedTuple):
    """Features of a text, or pair of texts.

    Attributes:
      values: float32 [units, layers, width] if layers are kept apart, else [units, width]; for
        texts as a whole without the first axis.
      units: the tokens or words; None for texts as a whole.
    """

    values: np.ndarray
    units: Units | None


@dataclasses.dataclass(frozen=True)
class FeatureBlock:
    """Features of several texts, one after the other.

    Attributes:
      values: float32; the first axis is the units of all texts, the others as in `TextFeatures`.
      row_splits: int64 [texts + 1], the first unit of each text, and the end.
      units: the units of all texts; None for texts as a whole.
      uncut: int64 [texts], the number of tokens of each text before it was cut.
    """

    values: np.ndarray
    row_splits: np.ndarray
    units: Units | None
    uncut: np.ndarray

    def __len__(self) -> int:
        return len(self.uncut)

    def row(self, index: int) -> TextFeatures:
        """The features of a text."""
        if self.units is None:
            return TextFeatures(self.values[index], None)
        start, end = self.row_splits[index : index + 2]
        return TextFeatures(self.values[start:end], self.units.cut(start, end))


class FeatureExtractor:
    """Makes features of texts with the encoder of a model, fine-tuned or not.

    >>> settings = FeatureSettings(unit="word", layers=(-4, -3, -2, -1), combine="concat")
    >>> extractor = FeatureExtractor("savedmodels/pretrained", settings)
    >>> found = extractor(["It rained."])[0]
    >>> found.units.tokens, found.values.shape
    (['It', 'rained', '.'], (3, 1024))

    Args:
      model: path of a model, in any format that `bert_tf.load` reads; or the model that
        `vectors.model.read` returned.
      settings: the settings; the defaults are those of `bert-tf features`.

    Attributes:
      settings: the settings, with numbers in place of what was left to the model.
      layers: the numbers of the layers, from 0, the embeddings.
      model: checksums of the encoder and the tokenizer.
      max_seq_length: maximum number of tokens of a text.
      shape: shape of the features of a unit: [layers, width] if layers are kept apart, else
        [width].

    Raises:
      InputError: the model cannot be read, or lacks what the settings ask for.
    """

    def __init__(
        self, model: str | os.PathLike[str] | ModelSource, settings: FeatureSettings | None = None
    ):
        settings = settings or FeatureSettings()
        settings.check()
        source = model if isinstance(model, ModelSource) else models.read(model)
        settings = models.complete(source, settings)
        self.layers = models.layers(source, settings)
        self.max_seq_length = models.max_seq_length(source, settings)
        chosen = self.layers if settings.layers is None else settings.layers
        self.settings = dataclasses.replace(
            settings, layers=chosen, max_seq_length=self.max_seq_length
        )
        self._dense = models.dense(source) if settings.dense else tf.identity
        width = settings.dense or source.bundle.config.hidden_size
        *outer, width = _shape(settings.combine, len(self.layers), width)
        if (settings.truncate_dim or 0) > width:
            raise InputError(
                f"--truncate_dim={settings.truncate_dim}: vectors of {source.folder} have {width} "
                "dimensions."
            )
        self.shape = (*outer, settings.truncate_dim or width)
        self.model = models.checksums(source)
        self._tokenizer = source.bundle.tokenizer()
        self._encoder = models.encoder(source, settings.precision)
        signature = [tf.TensorSpec([None, None], tf.int32)] * 3
        self._run = tf.function(self._outputs, autograph=False, input_signature=signature)

    def identity(self) -> dict[str, Any]:
        """All that decides the features, apart from the texts, as JSON values."""
        described = self.settings.describe()
        return {"model": self.model, "settings": described, "shape": list(self.shape)}

    def __call__(
        self, texts: Sequence[str], second: Sequence[str | None] | None = None
    ) -> list[TextFeatures]:
        """The features of texts, or of pairs of texts; long ones are cut.

        Args:
          texts: the texts.
          second: the second text of each, or None if it has none; None: all texts are single.

        Raises:
          InputError: the model has no second segment, or there are not as many second texts.
        """
        return self._rows(_text_examples(texts, second))

    def of_words(self, sentences: Sequence[Sequence[str]]) -> list[TextFeatures]:
        """The features of sentences that are given by their words; long ones are cut.

        Raises:
          InputError: a sentence is a string, or a word is not one.
        """
        found = [_strings(words, "give its words") for words in sentences]
        return self._rows([WordsExample("", "", tuple(words)) for words in found])

    def _rows(self, examples: Sequence[Example]) -> list[TextFeatures]:
        if not examples:
            return []
        block = self.extract(examples)
        return [block.row(index) for index in range(len(block))]

    def extract(
        self, examples: Sequence[Example], progress: Progress | None = None
    ) -> FeatureBlock:
        """The features of texts and pairs of texts, or of sentences of words; at least one.

        Args:
          examples: the texts.
          progress: called with the number of texts of each batch that is done.

        Raises:
          InputError: the model has no second segment.
        """
        if any(isinstance(each, TextExample) and each.text_b is not None for each in examples):
            segments = self._tokenizer.types(2)
            self._encoder.config.check_segments(segments, "the text")
        unit = Unit(self.settings.unit)
        if prefix := self.settings.prefix:
            examples = [
                dataclasses.replace(each, text_a=prefix + each.text_a)
                if isinstance(each, TextExample)
                else each
                for each in examples
            ]
        texts = tokenized.tokenize(self._tokenizer, examples, self.max_seq_length, unit)
        values = self.compute(texts, progress)
        return FeatureBlock(values, texts.unit_splits, texts.units, texts.uncut)

    def compute(self, texts: TokenizedTexts, progress: Progress | None = None) -> np.ndarray:
        """The features of the units of tokenized texts, float32 [units, *shape]."""
        values = np.empty([texts.unit_splits[-1], *self.shape], np.float32)
        mean = self.settings.word_pooling == WordPooling.MEAN

        def compute(batch: np.ndarray) -> int:
            outputs = self._run(*texts.batch(batch)).numpy()
            places, found = texts.pooled(batch, outputs, mean)
            values[places] = found
            return len(batch)

        batches = list(bucketing.batches_by_tokens(texts.lengths, self.settings.batch_tokens))
        threads = _AT_ONCE if len(batches) > 1 else 1
        with contextlib.closing(mapped(compute, batches, threads)) as counts:
            for count in counts:
                if progress:
                    progress(count)
        return values

    def _outputs(self, ids: tf.Tensor, mask: tf.Tensor, types: tf.Tensor) -> tf.Tensor:
        """Features, float32 [tokens, *shape], of encoder inputs; of texts [batch, *shape].

        The tokens are those of all rows, one row after the other, without padding.
        """
        inputs = dict(zip(MODEL_INPUTS, (ids, mask, types), strict=True))
        with fused_ops.inference():
            outputs = self._encoder(inputs, drop_padding=True)
        layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        if self.settings.unit != Unit.TEXT:
            there = mask > 0
            chosen = [tf.boolean_mask(layers[layer], there) for layer in self.layers]
        elif self.settings.pooling == Pooling.POOLER:
            chosen = [outputs["pooled_output"]]
        else:
            pool = pooling.PLAIN[Pooling(self.settings.pooling or Pooling.MEAN)]
            chosen = [self._dense(pool(layers[layer], mask)) for layer in self.layers]
        found = self._combined(tf.stack([tf.cast(layer, tf.float32) for layer in chosen], 1))
        found = found[..., : self.settings.truncate_dim]
        if self.settings.normalize:
            found /= tf.maximum(tf.norm(found, axis=-1, keepdims=True), MIN_NORM)
        return found

    def _combined(self, layers: tf.Tensor) -> tf.Tensor:
        """The combination of layers, float32 [units, layers, width]."""
        match Combination(self.settings.combine):
            case Combination.SEPARATE:
                return layers
            case Combination.CONCAT:
                return tf.reshape(layers, [-1, math.prod(layers.shape[1:])])
            case Combination.SUM:
                return tf.reduce_sum(layers, 1)
            case Combination.MEAN:
                return tf.reduce_mean(layers, 1)
            case Combination.WEIGHTED:
                weights = tf.constant(self.settings.layer_weights, tf.float32)
                return tf.reduce_sum(layers * weights[:, tf.newaxis], 1)


class Embedder:
    """Makes vectors of texts with the encoder of a model, fine-tuned or not.

    >>> embedder = Embedder("savedmodels/pretrained", EmbeddingSettings(normalize=True))
    >>> embedder(["It rained.", "Rain fell."]).shape
    (2, 256)

    Args:
      model: path of a model, in any format that `bert_tf.load` reads; or the model that
        `vectors.model.read` returned.
      settings: `EmbeddingSettings`, the defaults of which are those of `bert-tf embed`, or others
        that make one vector for each text.

    Attributes:
      settings: the settings, with numbers in place of what was left to the model.
      extractor: makes the vectors, as features of texts.
      max_seq_length: maximum number of tokens of a text.
      width: size of a vector.

    Raises:
      InputError: the model cannot be read, or lacks what the settings ask for.
    """

    def __init__(
        self, model: str | os.PathLike[str] | ModelSource, settings: FeatureSettings | None = None
    ):
        self.extractor = FeatureExtractor(model, settings or EmbeddingSettings())
        self.max_seq_length = self.extractor.max_seq_length
        self.settings = dataclasses.replace(self.extractor.settings, layers=self.extractor.layers)
        (self.width,) = self.extractor.shape

    def __call__(
        self, texts: Sequence[str], second: Sequence[str | None] | None = None
    ) -> np.ndarray:
        """The vectors of texts, float32 [texts, width]; long texts are cut.

        Args:
          texts: the texts.
          second: the second text of each, or None if it has none; None: all texts are single.

        Raises:
          InputError: the model has no second segment, or there are not as many second texts.
        """
        examples = _text_examples(texts, second)
        if not examples:
            return np.zeros([0, self.width], np.float32)
        return self.extractor.extract(examples).values


def _text_examples(texts: Sequence[str], second: Sequence[str | None] | None) -> list[TextExample]:
    """Texts, each with a second text or None, as examples.

    Raises:
      InputError: there is a string in place of a list, something else in place of a text, or there
        are not as many second texts.
    """
    remedy = "give a list of texts"
    first = _strings(texts, remedy)
    if second is None:
        return [TextExample("", "", text, None) for text in first]
    items = _items(second, remedy)
    others = [None if text is None else _strings([text], remedy)[0] for text in items]
    if len(others) != len(first):
        raise InputError(f"{len(first)} texts have {len(others)} second ones; give one for each.")
    return [TextExample("", "", text, other) for text, other in zip(first, others, strict=True)]


def _items(texts: Any, remedy: str) -> Sequence[Any]:
    """The items of a list, a NumPy array or a tensor; InputError for one text, or other axes."""
    if isinstance(texts, str | bytes):
        raise InputError(f"{shorten(str(texts), _SHOWN)!r}: is one text; {remedy}.")
    if isinstance(texts, tf.Tensor | np.ndarray):
        if len(texts.shape) != 1:
            raise InputError(f"texts of the shape {tuple(texts.shape)}: {remedy}.")
        return np.asarray(texts).tolist()
    # The items of a dict or a DataFrame are its names.
    if isinstance(texts, Mapping) or getattr(texts, "ndim", 1) != 1:
        raise InputError(f"a {type(texts).__name__} of texts by name: {remedy}.")
    try:
        return list(texts)
    except TypeError as error:
        raise InputError(f"{texts!r}: {remedy}.") from error


def _strings(texts: Any, remedy: str) -> list[str]:
    """Texts of Python, NumPy or TensorFlow as strings, or an InputError.

    Bytes that are no UTF-8, and lone surrogates, become U+FFFD, as in files.
    """
    found = []
    for text in _items(texts, remedy):
        plain = text.numpy() if isinstance(text, tf.Tensor) and text.shape.rank == 0 else text
        plain = plain.decode("utf-8", "replace") if isinstance(plain, bytes) else plain
        if not isinstance(plain, str):
            raise InputError(f"{text!r}: is not a text; give strings.")
        found.append(_SURROGATES.sub("\ufffd", plain))
    return found


def _shape(combine: str, layers: int, width: int) -> tuple[int, ...]:
    """The shape of the features of a unit."""
    shapes = {Combination.SEPARATE: (layers, width), Combination.CONCAT: (layers * width,)}
    return shapes.get(Combination(combine), (width,))
