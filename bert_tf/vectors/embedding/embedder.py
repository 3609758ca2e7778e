"""An encoder that makes a vector of each text."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export.sources import Source
from bert_tf.vectors.embedding.settings import EmbeddingSettings
from bert_tf.vectors.encoding import model as encoding
from bert_tf.vectors.encoding.sequences import Sequences
from bert_tf.vectors.encoding.settings import Pooling
from pipelines.labelled import bucketing
from pipelines.tokenizers import packing

SHORTEST = 1e-12  # lengths of vectors below this count as this


class Embedded(NamedTuple):
    """Vectors of texts.

    Attributes:
      vectors: float32 [texts, width].
      lengths: int64 [texts], the tokens that each text has, also those beyond `max_length`.
    """

    vectors: np.ndarray
    lengths: np.ndarray


class Embedder:
    """Makes vectors of texts with the encoder of a model, fine-tuned or not.

    >>> embedder = Embedder("savedmodels/pretrained", EmbeddingSettings(normalize=True))
    >>> embedder(["It rained.", "Rain fell."]).shape
    (2, 256)

    Args:
      model: its path, in any format that `bert_tf.load` reads; or what was read of it
        (`encoding.model.read_model`).
      settings: how; those of `--help` are the defaults.

    Attributes:
      settings: with numbers in place of what was left to the model.
      max_length: tokens of a text at the most.
      width: numbers of a vector.

    Raises:
      InputError: the model cannot be read, or lacks what the settings ask for.
    """

    def __init__(self, model: str | Source, settings: EmbeddingSettings | None = None):
        settings = settings or EmbeddingSettings()
        settings.check()
        source = model if isinstance(model, Source) else encoding.read_model(model)
        self.settings = _settled(settings, source)
        self.max_length = encoding.longest_of(source, self.settings.max_length)
        self.width = source.bundle.config.hidden_size * len(self.settings.layers)
        self._model = encoding.checksums_of(source)
        self._tokenizer = source.bundle.tokenizer()
        self._encoder = encoding.make_encoder(source, settings.precision)
        signature = [tf.TensorSpec([None, None], tf.int32)] * 3
        self._run = tf.function(self._vectors, autograph=False, input_signature=signature)

    def identity(self) -> dict[str, Any]:
        """What vectors follow from beside the texts, as JSON values: the model and the settings."""
        return {"model": self._model, "settings": self.settings.describe(), "width": self.width}

    def __call__(self, texts: Sequence[str], second: Sequence[str] | None = None) -> np.ndarray:
        """The vectors of texts, float32 [texts, width]; of pairs, with the second text of each."""
        return self.embed(texts, second).vectors

    def embed(
        self,
        texts: Sequence[str],
        second: Sequence[str] | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> Embedded:
        """Embeds texts, or pairs of texts; long ones are cut.

        Args:
          texts: of one row each.
          second: as many, to be packed behind them; None: there is one text in a row.
          progress: is told how many texts were done, after each batch.

        Raises:
          InputError: the model has no second segment.
        """
        vectors = np.empty([len(texts), self.width], np.float32)
        if not len(texts):
            return Embedded(vectors, np.zeros([0], np.int64))
        if second is not None:
            segments = self._tokenizer.vocabulary.types(2)
            self._encoder.config.check_segments(segments, "the text")
        packed, lengths = packing.pack_texts(self._tokenizer, texts, second, self.max_length)
        sequences = Sequences.of(packed, self._tokenizer.pad_id)
        for rows in bucketing.batches_by_tokens(sequences.lengths, self.settings.batch_tokens):
            vectors[rows] = self._run(*sequences.batch(rows)).numpy()
            if progress:
                progress(len(rows))
        return Embedded(vectors, lengths.numpy())

    def _vectors(self, ids: tf.Tensor, mask: tf.Tensor, types: tf.Tensor) -> tf.Tensor:
        """Vectors float32 [batch, width] of encoder inputs, int32 [batch, length] each."""
        layers, pooled = encoding.outputs_of(self._encoder, ids, mask, types)
        if self.settings.pooling == Pooling.POOLER:
            found = tf.cast(pooled, tf.float32)
        else:
            pool = encoding.OVER_TOKENS[Pooling(self.settings.pooling)]
            found = tf.concat([pool(layers[layer], mask) for layer in self.settings.layers], 1)
        if self.settings.normalize:
            found /= tf.maximum(tf.norm(found, axis=1, keepdims=True), SHORTEST)
        return found


def _settled(settings: EmbeddingSettings, source: Source) -> EmbeddingSettings:
    """The settings with what the model decides.

    Raises:
      InputError: it has no such layer or positions, or no pooler.
    """
    layers = encoding.layer_numbers(source, settings.layers, "layer")
    longest = encoding.longest_of(source, settings.max_length)
    if settings.pooling == Pooling.POOLER:
        encoding.check_pooler(source, layers, "layer")
    return dataclasses.replace(settings, layers=layers, max_length=longest)
