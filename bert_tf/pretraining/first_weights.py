"""Initial weights of a pre-training run: those of another model, or sinusoids for positions."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_tf import weights
from bert_tf.models import configs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.training import checkpoints, run_folder
from bert_tf.training.checkpoints import Checkpoints, find_damage, is_checkpoint
from bert_tf.weights import own
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer

# Keys of a configuration in which the model and the run may differ; the last one follows from the
# examples.
_FREE = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "pooler_dropout", "head_dropout"),
    *("initializer_range", "sampled_softmax", "max_sequence_length", "causal", "generator_size"),
)
# Settings of a tokenizer that change no text of a corpus: the space around texts.
_OF_INPUTS = ("strip",)


def initialize(
    model: PretrainingObjective,
    checkpoints: Checkpoints,
    tokenizer: Tokenizer,
    examples: str,
    path: str,
) -> None:
    """Initializes a model from a checkpoint folder, or from a model in any format.

    Args:
      model: the model to initialize.
      checkpoints: checkpoints of the run.
      tokenizer: tokenizer of the examples.
      examples: folder of the examples, for errors.
      path: path of the checkpoint or the model.

    Raises:
      InputError: the weights are damaged, of another shape, or of another tokenizer.
    """
    unfinished = _unfinished_run(path)
    if unfinished is not None:
        if unfinished:
            theirs = unfinished["vocabulary_sha256"], unfinished["tokenizer"]
            check_tokenizer(*theirs, tokenizer, path, examples)
            _check_same_model(model.config, configs.of_dict(unfinished["config"], path), path)
        checkpoints.restore_weights(path)
        return
    bundle = weights.read(path)
    check_tokenizer(*bundle.stated_tokenizer(), tokenizer, path, examples)
    _check_same_model(model.config, bundle.config, path)
    missing = weights.assign(model, bundle.weights, path)
    if missing:
        logging.warning("%s: lacks %s, which get new weights.", path, ", ".join(missing))


def check_tokenizer(
    vocabulary_sha256: str | None,
    settings: Mapping[str, Any] | None,
    tokenizer: Tokenizer,
    path: str,
    examples: str,
) -> None:
    """Raises InputError if a model was trained on texts of another tokenizer than the examples'.

    Args:
      vocabulary_sha256: that of the model; None: unknown.
      settings: those of its tokenizer; None: unknown.
      tokenizer: tokenizer of the examples.
      path: the model.
      examples: folder of the examples.
    """
    if vocabulary_sha256 not in (None, tokenizer.vocabulary.sha256):
        raise InputError(
            f"{path}: has another vocabulary than the examples in {examples}; write them with that "
            "of the model."
        )
    if settings is None:
        return
    for name, theirs in tokenizer.vocabulary.complete(settings).items():
        ours = tokenizer.all_settings[name]
        if theirs != ours and name not in _OF_INPUTS:
            raise InputError(
                f"{path}: its tokenizer has {name}={theirs}, but the examples in {examples} were "
                f"written with {ours}; write them with the tokenizer of the model."
            )


def read_config(path: str) -> EncoderConfig | None:
    """The configuration of a model or checkpoint; None if a checkpoint is without its run."""
    unfinished = _unfinished_run(path)
    if unfinished is None:
        return weights.read(path).config
    return configs.of_dict(unfinished["config"], path) if unfinished else None


def checksums(path: str) -> dict[str, str]:
    """The SHA-256 of the weights of a model, or of a checkpoint whose run may not have ended."""
    if _unfinished_run(path) is None:
        return {"weights": weights.read(path).sha256()}
    if damage := find_damage(path):
        raise InputError(f"{damage}.")
    return {"weights": checkpoints.checksum(checkpoints.read_model(path))}


def _unfinished_run(path: str) -> dict[str, Any] | None:
    """The identity of the run that a checkpoint is of, if it has not ended; None for models.

    It is empty for a checkpoint without its run.
    """
    if not is_checkpoint(path) or own.find_folder(path):
        return None
    return run_folder.begun(os.path.dirname(os.path.dirname(files.absolute(path)))) or {}


def place_sinusoids(model: PretrainingObjective) -> None:
    """Initializes the position embeddings of a model with sinusoids.

    Raises:
      InputError: it has no position embeddings.
    """
    if not isinstance(model.config, BertConfig) or model.config.rope_theta:
        raise InputError(
            "--sinusoidal_positions: a model of model_type "
            f"{model.config.model_type!r} has no position embeddings; leave it out."
        )
    tables = [model.encoder.position_embeddings]
    if model.config.num_decoder_layers:
        tables.append(model.encoder.embeddings.decoder.position)
    for table in tables:
        positions, width = table.shape
        table.assign(sinusoids(positions, width, model.config.initializer_range))


def sinusoids(positions: int, width: int, deviation: float) -> np.ndarray:
    """Position embeddings of sines and cosines (Vaswani et al. 2017, section 3.5).

    Args:
      positions: number of rows.
      width: number of columns.
      deviation: root mean square of the values.

    Returns:
      float32 [positions, width]: pairs of a sine and its cosine, with increasing wavelengths.
    """
    exponents = 2 * np.arange((width + 1) // 2) / width
    angles = np.arange(positions)[:, np.newaxis] * 10_000.0**-exponents
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(positions, -1)[:, :width]
    return (np.sqrt(2) * deviation * waves).astype(np.float32)


def _check_same_model(ours: EncoderConfig, theirs: EncoderConfig, path: str) -> None:
    """Raises InputError where two configurations differ in what they compute, except dropout."""
    names = ["model_type"]
    if type(theirs) is type(ours):
        names += [field.name for field in dataclasses.fields(theirs)]  # type: ignore[arg-type]
    for name in names:
        mine, other = getattr(ours, name), getattr(theirs, name)
        if name not in _FREE and mine != other:
            raise InputError(
                f"{path}: {name} is {other}, but {mine} in the run; use --model with "
                "the bert_config.json of the model (bert-tf convert writes one)."
            )
