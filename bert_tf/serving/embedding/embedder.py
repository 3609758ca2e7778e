"""An encoder that makes a vector of each text."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from bert_tf import weights
from bert_tf.export import saved_model, sources
from bert_tf.export.sources import Source
from bert_tf.models import encoders, fused_ops, pooling
from bert_tf.models.base_encoder import Encoder
from bert_tf.serving.embedding.settings import EmbeddingSettings, Pooling
from bert_tf.weights.bundle import POOLER
from pipelines.common.errors import InputError
from pipelines.labelled import bucketing
from pipelines.tokenizers import packing

_OVER_TOKENS = {
    Pooling.MEAN: pooling.mean,
    Pooling.MAX: pooling.maximum,
    Pooling.CLS: pooling.first,
}
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
      model: its path, in any format that `bert_tf.load` reads; or what `read_model` read.
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
        source = model if isinstance(model, Source) else read_model(model)
        self.settings = _settled(settings, source)
        self.max_length = self.settings.max_length or source.bundle.config.longest_sequence
        self.width = source.bundle.config.hidden_size * len(self.settings.layers)
        self._model = checksums_of(source)
        self._tokenizer = source.bundle.tokenizer()
        self._encoder = _make_encoder(source, settings.precision)
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
        sequences = _Sequences.of(packed, self._tokenizer.pad_id)
        for rows in bucketing.batches_by_tokens(sequences.lengths, self.settings.batch_tokens):
            vectors[rows] = self._run(*sequences.batch(rows)).numpy()
            if progress:
                progress(len(rows))
        return Embedded(vectors, lengths.numpy())

    def _vectors(self, ids: tf.Tensor, mask: tf.Tensor, types: tf.Tensor) -> tf.Tensor:
        """Vectors float32 [batch, width] of encoder inputs, int32 [batch, length] each."""
        inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
        with fused_ops.inference():
            outputs = self._encoder(inputs, drop_padding=True)
        if self.settings.pooling == Pooling.POOLER:
            found = tf.cast(outputs["pooled_output"], tf.float32)
        else:
            layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
            pool = _OVER_TOKENS[Pooling(self.settings.pooling)]
            found = tf.concat([pool(layers[layer], mask) for layer in self.settings.layers], 1)
        if self.settings.normalize:
            found /= tf.maximum(tf.norm(found, axis=1, keepdims=True), SHORTEST)
        return found


class _Sequences(NamedTuple):
    """Packed sequences, one after the other, as arrays.

    Attributes:
      ids, types: int32, of all tokens.
      starts, lengths: int64 [sequences], where each begins, and how many tokens it has.
      pad_id: what to fill up ids with.
    """

    ids: np.ndarray
    types: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    pad_id: int

    @classmethod
    def of(cls, packed: packing.Packed, pad_id: int) -> Self:
        """The arrays of ragged tensors."""
        ids, types = (part.flat_values.numpy() for part in packed)
        splits = packed.word_ids.row_splits.numpy()
        return cls(ids, types, splits[:-1], np.diff(splits), pad_id)

    def batch(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Padded ids, mask and types of some sequences, int32 [rows, longest] each."""
        lengths = self.lengths[rows][:, None]
        at = np.arange(lengths.max())
        there = at < lengths
        index = np.where(there, self.starts[rows][:, None] + at, 0)
        ids = np.where(there, self.ids[index], np.int32(self.pad_id))
        return ids, there.astype(np.int32), np.where(there, self.types[index], np.int32(0))


def read_model(path: str) -> Source:
    """Reads a model to embed with.

    Raises:
      InputError: it cannot be read, has no vocabulary, or is an export, which fixes what can be
        asked of it.
    """
    if saved_model.is_export(path):
        raise InputError(
            f"{path}: is an export. Name the folder of the model that it was made of; or ask its "
            "signature embed (bert-tf ask)."
        )
    return sources.read(path)


def checksums_of(source: Source) -> dict[str, str]:
    """What tells the encoder and the tokenizer of a model from others, in whatever format."""
    return {
        "encoder_sha256": source.encoder_key(),
        "tokenizer_sha256": source.tokenizer_key(),
    }


def _settled(settings: EmbeddingSettings, source: Source) -> EmbeddingSettings:
    """The settings with what the model decides.

    Raises:
      InputError: it has no such layer or positions, or no pooler.
    """
    config = source.bundle.config
    count, longest = config.num_hidden_layers, config.longest_sequence
    for layer in settings.layers:
        if not -count - 1 <= layer <= count:
            raise InputError(
                f"--layer={layer}: {source.folder} has no such layer; they are 1 to {count}, or "
                f"-{count} to -1, and 0 for the embeddings."
            )
    layers = tuple(layer % (count + 1) for layer in settings.layers)
    if (settings.max_length or 0) > longest:
        raise InputError(
            f"--max_length={settings.max_length}: {source.folder} takes {longest} tokens at the "
            "most."
        )
    if settings.pooling == Pooling.POOLER:
        if layers != (count,):
            raise InputError("--pooling=pooler is of the last layer; leave --layer out.")
        if config.pooler_act is None or not source.has_pooler:
            raise InputError(
                f"{source.folder}: has no pooler that was trained; use --pooling=mean, or cls."
            )
    return dataclasses.replace(settings, layers=layers, max_length=settings.max_length or longest)


def _make_encoder(source: Source, dtype: str) -> Encoder:
    """The encoder with its weights.

    Raises:
      InputError: it lacks one.
    """
    encoder = encoders.make(source.bundle.config, name="encoder", dtype=dtype)
    missing = weights.assign(encoder, source.bundle.weights, source.folder)
    lacking = [name for name in missing if not name.startswith(POOLER)]
    if lacking:
        raise InputError(f"{source.folder}: lacks the weight {lacking[0]}.")
    return encoder
