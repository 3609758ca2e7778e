"""An encoder that makes features of tokens, of words, or of texts (paper, section 5.3)."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.sources import Source
from bert_tf.vectors.encoding import model as encoding
from bert_tf.vectors.encoding.settings import Pooling
from bert_tf.vectors.extraction import tokenized
from bert_tf.vectors.extraction.extracted import Extracted, TextFeatures
from bert_tf.vectors.extraction.inputs import Inputs
from bert_tf.vectors.extraction.layout import Layout
from bert_tf.vectors.extraction.settings import Combination, FeatureSettings, Unit, WordPooling
from pipelines.labelled import bucketing

# Numbers that features of a block have at the most, unless they are of one text.
BLOCK = 1 << 24
Progress = Callable[[int], Any]


class FeatureExtractor:
    """Makes features of texts with the encoder of a model, fine-tuned or not.

    >>> settings = FeatureSettings(unit="word", layers=(-4, -3, -2, -1), combine="concat")
    >>> extractor = FeatureExtractor("savedmodels/pretrained", settings)
    >>> found = extractor(["It rained."])[0]
    >>> found.units.tokens, found.values.shape
    (['It', 'rained', '.'], (3, 1024))

    Args:
      model: its path, in any format that `bert_tf.load` reads; or what was read of it
        (`encoding.model.read_model`).
      settings: how; those of `--help` are the defaults.

    Attributes:
      settings: with numbers in place of what was left to the model.
      max_length: tokens of a text at the most.
      shape: of the features of a unit: [layers, width] where layers are kept apart, else [width].

    Raises:
      InputError: the model cannot be read, or lacks what the settings ask for.
    """

    def __init__(self, model: str | Source, settings: FeatureSettings | None = None):
        settings = settings or FeatureSettings()
        settings.check()
        source = model if isinstance(model, Source) else encoding.read_model(model)
        config = source.bundle.config
        self.settings = _settled(settings, source)
        assert self.settings.layers is not None
        self._layers = encoding.layer_numbers(source, self.settings.layers, "layers")
        self.max_length = encoding.longest_of(source, self.settings.max_length)
        self.shape = _shape(self.settings.combine, len(self._layers), config.hidden_size)
        self._model = encoding.checksums_of(source)
        self._tokenizer = source.bundle.tokenizer()
        self._encoder = encoding.make_encoder(source, settings.precision)
        signature = [tf.TensorSpec([None, None], tf.int32)] * 3
        self._run = tf.function(self._outputs, autograph=False, input_signature=signature)

    def identity(self) -> dict[str, Any]:
        """What features follow from beside the texts, as JSON values."""
        described = self.settings.describe()
        return {"model": self._model, "settings": described, "shape": list(self.shape)}

    def __call__(
        self, texts: Sequence[str], second: Sequence[str | None] | None = None
    ) -> list[TextFeatures]:
        """The features of texts, or of pairs of texts; long ones are cut.

        Args:
          texts: of one row each.
          second: as many, to be packed behind them; None: there is one text in a row.

        Raises:
          InputError: the model has no second segment.
        """
        return self._all(Inputs.of_texts(texts, second))

    def of_words(self, sentences: Sequence[Sequence[str]]) -> list[TextFeatures]:
        """The features of sentences that are given by their words; long ones are cut."""
        return self._all(Inputs.of_sentences(sentences))

    def _all(self, inputs: Inputs) -> list[TextFeatures]:
        blocks = self.blocks(inputs)
        return [block.row(index) for block in blocks for index in range(len(block))]

    def blocks(
        self, inputs: Inputs, start: int = 0, progress: Progress | None = None
    ) -> Iterator[Extracted]:
        """Yields the features of texts, as many at once as have `BLOCK` numbers.

        Args:
          inputs: the texts.
          start: how many of them to leave out, which ended with a block; blocks are the same.
          progress: is told how many texts were done, after each batch.

        Raises:
          InputError: the model has no second segment.
        """
        if not len(inputs):
            return
        if inputs.has_pairs:
            segments = self._tokenizer.vocabulary.types(2)
            self._encoder.config.check_segments(segments, "the text")
        if inputs.sentences is not None:
            texts = tokenized.tokenize_sentences(self._tokenizer, inputs.sentences, self.max_length)
        else:
            by_word = self.settings.unit == Unit.WORD
            texts = tokenized.tokenize_texts(
                self._tokenizer, inputs.first, inputs.second, by_word, self.max_length
            )
        layout = Layout.of(texts, Unit(self.settings.unit))
        for rows in layout.blocks(BLOCK // math.prod(self.shape)):
            if rows.start >= start:
                yield self._extract(layout, inputs, rows, progress)

    def _extract(
        self, layout: Layout, inputs: Inputs, rows: range, progress: Progress | None
    ) -> Extracted:
        """The features of rows that follow each other."""
        splits = layout.splits[rows.start : rows.stop + 1]
        values = np.empty([splits[-1] - splits[0], *self.shape], np.float32)
        mean = self.settings.word_pooling == WordPooling.MEAN
        sequences = layout.texts.sequences
        lengths = sequences.lengths[rows.start : rows.stop]
        for batch in bucketing.batches_by_tokens(lengths, self.settings.batch_tokens):
            chosen = batch + rows.start
            outputs = self._run(*sequences.batch(chosen)).numpy()
            places, found = layout.values(chosen, outputs, mean)
            values[places - splits[0]] = found
            if progress:
                progress(len(batch))
        units = layout.units(rows, inputs, self._tokenizer.vocabulary.tokens)
        uncut = layout.texts.uncut[rows.start : rows.stop]
        return Extracted(values, splits - splits[0], units, uncut)

    def _outputs(self, ids: tf.Tensor, mask: tf.Tensor, types: tf.Tensor) -> tf.Tensor:
        """Features float32 [tokens, *shape] of encoder inputs; of texts [batch, *shape].

        Tokens are those of all rows, one row after the other, without padding.
        """
        layers, pooled = encoding.outputs_of(self._encoder, ids, mask, types)
        if self.settings.unit != Unit.TEXT:
            there = mask > 0
            chosen = [tf.boolean_mask(layers[layer], there) for layer in self._layers]
        elif self.settings.pooling == Pooling.POOLER:
            chosen = [pooled]
        else:
            pool = encoding.OVER_TOKENS[Pooling(self.settings.pooling)]
            chosen = [pool(layers[layer], mask) for layer in self._layers]
        return self._combined(tf.stack([tf.cast(layer, tf.float32) for layer in chosen], 1))

    def _combined(self, layers: tf.Tensor) -> tf.Tensor:
        """What is made of layers, float32 [units, layers, width]."""
        match Combination(self.settings.combine):
            case Combination.SEPARATE:
                return layers
            case Combination.CONCAT:
                return tf.reshape(layers, [-1, *self.shape])
            case Combination.SUM:
                return tf.reduce_sum(layers, 1)
            case Combination.MEAN:
                return tf.reduce_mean(layers, 1)
            case Combination.WEIGHTED:
                weights = tf.constant(self.settings.layer_weights, tf.float32)
                return tf.reduce_sum(layers * weights[:, tf.newaxis], 1)


def _settled(settings: FeatureSettings, source: Source) -> FeatureSettings:
    """The settings with what the model decides.

    Raises:
      InputError: it has no such positions, no pooler, or other layers than there are weights.
    """
    layers = settings.layers
    if layers is None:
        layers = tuple(range(source.bundle.config.num_hidden_layers + 1))
    settings.check_weights(len(layers))
    if settings.unit == Unit.TEXT and settings.pooling == Pooling.POOLER:
        numbers = encoding.layer_numbers(source, layers, "layers")
        encoding.check_pooler(source, numbers, "layers")
    longest = encoding.longest_of(source, settings.max_length)
    return dataclasses.replace(settings, layers=layers, max_length=longest)


def _shape(combine: str, layers: int, width: int) -> tuple[int, ...]:
    """The shape of the features of a unit."""
    shapes = {Combination.SEPARATE: (layers, width), Combination.CONCAT: (layers * width,)}
    return shapes.get(Combination(combine), (width,))
