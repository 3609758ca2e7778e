"""The models that vectors are made with."""

import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import tensorflow as tf
from absl import logging

from bert_tf import tasks, weights
from bert_tf.export import saved_model, sources
from bert_tf.export.sources import ModelSource
from bert_tf.models import activations, encoders
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.head_config import Pooling
from bert_tf.tasks import embedding
from bert_tf.vectors.settings import FeatureSettings, Unit
from bert_tf.weights.bundle import HEADS, POOLER, Bundle
from bert_tf.weights.huggingface import sentence_transformers
from pipelines.common.errors import InputError

if TYPE_CHECKING:
    from bert_tf.tasks.embedding.task import Embedding

SettingsT = TypeVar("SettingsT", bound=FeatureSettings)


def read(path: str | os.PathLike[str]) -> ModelSource:
    """Reads a model, in any format that `bert_tf.load` reads.

    Raises:
      InputError: the model cannot be read or has no vocabulary, or it is an export, which only
        answers its signatures.
    """
    path = os.fspath(path)
    if saved_model.is_export(path):
        raise InputError(
            f"{path}: is an export. Name the folder of the model that it was made of; or ask one "
            "of its signatures (bert-tf ask)."
        )
    return sources.read(path)


def checksums(source: ModelSource) -> dict[str, str]:
    """Checksums of what makes vectors: encoder, tokenizer, dense layer; in any format the same."""
    found = {"encoder_sha256": source.encoder_key(), "tokenizer_sha256": source.tokenizer_key()}
    for task in source.bundle.tasks:
        if task["shape"] == embedding.SHAPE.name and tasks.load(task).units:
            found["dense_sha256"] = source.bundle.head_sha256(task["name"])
    return found


def encoder(source: ModelSource, dtype: str) -> Encoder:
    """The encoder of a model, with its weights.

    Raises:
      InputError: a weight is missing.
    """
    made = encoders.make(source.bundle.config, name="encoder", dtype=dtype)
    missing = weights.assign(made, source.bundle.weights, source.folder)
    lacking = [name for name in missing if not name.startswith(POOLER)]
    if lacking:
        raise InputError(f"{source.folder}: lacks the weight {lacking[0]}.")
    return made


def dense(source: ModelSource) -> Callable[[tf.Tensor], tf.Tensor]:
    """The dense layer of a model that was trained to make vectors.

    It maps float32 [batch, hidden_size] to [batch, width].
    """
    task = _trained_task(source.bundle)
    assert task is not None  # which the settings are of
    weights_of = source.bundle.weights
    kernel, bias = (weights_of[f"{HEADS}{task.name}/{part}"] for part in ("kernel", "bias"))
    activation = activations.function(task.head.dense_act)
    return lambda vectors: activation(tf.matmul(vectors, kernel) + bias)


def complete(source: ModelSource, settings: SettingsT) -> SettingsT:
    """The settings with a pooling: the chosen one, or else all as the model was trained.

    Raises:
      InputError: the model is of sentence-transformers, and makes vectors in a way that is not
        supported.
    """
    trained = None
    if settings.pooling is None and settings.unit == Unit.TEXT:
        trained = _trained_task(source.bundle)
    if settings.prefix is None:
        default = trained.prefix if trained else ""
        prefix = default if settings.prompt is None else prompt(source, settings.prompt)
        settings = dataclasses.replace(settings, prefix=prefix)
    if trained is None:
        return dataclasses.replace(
            settings, pooling=settings.pooling or Pooling.MEAN, normalize=bool(settings.normalize)
        )
    normalize = trained.normalize if settings.normalize is None else settings.normalize
    found = dataclasses.replace(
        settings,
        pooling=trained.head.pooling,
        dense=trained.units,
        truncate_dim=settings.truncate_dim or trained.truncate_dim,
        similarity=trained.similarity,
        normalize=normalize,
        max_seq_length=settings.max_seq_length or trained.max_seq_length,
    )
    found.check()
    return found


def prompt(source: ModelSource, name: str) -> str:
    """A prompt of a model; an InputError if the model does not have it."""
    trained = _trained_task(source.bundle)
    prompts = trained.prompts if trained else {}
    if name not in prompts:
        raise InputError(
            f"--prompt={name}: {source.folder} has the prompts {', '.join(prompts) or '(none)'}."
        )
    return prompts[name]


def _trained_task(bundle: Bundle) -> "Embedding | None":
    """The task of making vectors that a model was trained for, if any."""
    known = next((t for t in bundle.tasks if t["shape"] == embedding.SHAPE.name), None)
    try:
        known = known or sentence_transformers.read(bundle)
        if known and tasks.load(known).units and not bundle.has(f"{HEADS}{known['name']}/"):
            raise InputError(f"{bundle.place}: is read for another task, without its Dense.")
    except InputError as error:
        remedy = "Choose --pooling to embed with the encoder alone."
        raise InputError(f"{error} {remedy}") from error
    return cast("Embedding", tasks.load(known, bundle.config.max_seq_length)) if known else None


def max_seq_length(source: ModelSource, settings: FeatureSettings) -> int:
    """Maximum length of a sequence in tokens: the chosen one, or else that of the model.

    Raises:
      InputError: the model takes fewer tokens than were chosen.
    """
    chosen, most = settings.max_seq_length, source.bundle.config.max_seq_length
    if (chosen or 0) > most:
        raise InputError(f"--max_seq_length={chosen}: {source.folder} takes at most {most} tokens.")
    if chosen is None:
        stated = sentence_transformers.max_seq_length(source.bundle.place, most)
        if stated < most:
            logging.warning(
                "%s: its tokenizer says that texts have at most %d tokens, which other programs "
                "follow; here they have up to %d. For the same vectors, give --max_seq_length=%d.",
                *(source.folder, stated, most, stated),
            )
    return chosen or most


def layers(source: ModelSource, settings: FeatureSettings) -> tuple[int, ...]:
    """The numbers of the chosen layers, from 0, the embeddings.

    Raises:
      InputError: the model has no such layer; or the pooler was chosen, and was not trained or is
        not of that layer.
    """
    config = source.bundle.config
    count = config.num_hidden_layers
    chosen = range(count + 1) if settings.layers is None else settings.layers
    for layer in chosen:
        if not -count - 1 <= layer <= count:
            raise InputError(
                f"--layers={layer}: {source.folder} has no such layer; they are 1 to {count}, or "
                f"-{count} to -1, and 0 for the embeddings."
            )
    numbers = tuple(layer % (count + 1) for layer in chosen)
    given = settings.layer_weights
    if given is not None and len(given) != len(numbers):
        raise InputError(
            f"--layer_weights: {len(given)} weights for {len(numbers)} layers; give one for each."
        )
    if settings.dense and numbers != (count,):
        raise InputError(
            f"--layers: the dense layer of {source.folder} is that of the last layer; leave "
            "--layers out, or choose --pooling to embed with the encoder alone."
        )
    if settings.unit != Unit.TEXT or settings.pooling != Pooling.POOLER:
        return numbers
    if numbers != (count,):
        raise InputError("--pooling=pooler is of the last layer; leave --layers out.")
    if config.pooler_act is None or not source.has_pooler:
        raise InputError(
            f"{source.folder}: has no trained pooler; use --pooling=mean, or --pooling=cls."
        )
    return numbers
