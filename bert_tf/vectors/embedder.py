"""One vector for each text."""

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.export.sources import ModelSource
from bert_tf.vectors import extractor
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import EmbeddingSettings


class Embedder:
    """Makes vectors of texts with the encoder of a model, fine-tuned or not.

    >>> embedder = Embedder("savedmodels/pretrained", EmbeddingSettings(normalize=True))
    >>> embedder(["It rained.", "Rain fell."]).shape
    (2, 256)

    Args:
      model: path of a model, in any format that `bert_tf.load` reads; or the model that
        `vectors.model.read` returned.
      settings: the settings; the defaults are those of `bert-tf embed`.

    Attributes:
      settings: the settings, with numbers in place of what was left to the model.
      extractor: computes the vectors, as features of texts.
      max_length: maximum number of tokens of a text.
      width: size of a vector.

    Raises:
      InputError: the model cannot be read, or lacks what the settings ask for.
    """

    def __init__(self, model: str | ModelSource, settings: EmbeddingSettings | None = None):
        self.extractor = FeatureExtractor(model, settings or EmbeddingSettings())
        self.max_length = self.extractor.max_length
        self.settings = dataclasses.replace(self.extractor.settings, layers=self.extractor.layers)
        (self.width,) = self.extractor.shape

    def identity(self) -> dict[str, Any]:
        """All that decides the vectors, apart from the texts, as JSON values."""
        described = self.settings.describe()
        return {"model": self.extractor.model, "settings": described, "width": self.width}

    def __call__(self, texts: Sequence[str], second: Sequence[str] | None = None) -> np.ndarray:
        """The vectors of texts, float32 [texts, width]; long texts are cut.

        Args:
          texts: the texts.
          second: the second text of each; None: all texts are single.

        Raises:
          InputError: the model has no second segment, or there are not as many second texts.
        """
        examples = extractor.text_examples(texts, second)
        for block in self.extractor.blocks(examples, max_values=sys.maxsize):
            return block.values
        return np.zeros([0, self.width], np.float32)
