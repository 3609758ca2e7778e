"""The encoder of a model, ready to compute layers of packed texts."""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf import weights
from bert_tf.export import saved_model, sources
from bert_tf.export.sources import Source
from bert_tf.models import encoders, fused_ops
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.layers import pooling
from bert_tf.vectors.encoding.settings import Pooling
from bert_tf.weights.bundle import POOLER
from pipelines.common.errors import InputError

OVER_TOKENS = {
    Pooling.MEAN: pooling.mean,
    Pooling.MAX: pooling.maximum,
    Pooling.CLS: pooling.first,
}


def read_model(path: str) -> Source:
    """Reads a model to compute with.

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


def layer_numbers(source: Source, layers: Sequence[int], flag: str) -> tuple[int, ...]:
    """The numbers of layers counted from 0, which is the embeddings.

    Args:
      source: the model.
      layers: -1 is its last one.
      flag: that says them, for the error.

    Raises:
      InputError: the model has no such layer.
    """
    count = source.bundle.config.num_hidden_layers
    for layer in layers:
        if not -count - 1 <= layer <= count:
            raise InputError(
                f"--{flag}={layer}: {source.folder} has no such layer; they are 1 to {count}, or "
                f"-{count} to -1, and 0 for the embeddings."
            )
    return tuple(layer % (count + 1) for layer in layers)


def longest_of(source: Source, max_length: int | None) -> int:
    """Tokens of a sequence at the most: as many as were chosen, else as the model takes.

    Raises:
      InputError: it takes fewer.
    """
    longest = source.bundle.config.max_length
    if (max_length or 0) > longest:
        raise InputError(
            f"--max_length={max_length}: {source.folder} takes {longest} tokens at the most."
        )
    return max_length or longest


def check_pooler(source: Source, layers: Sequence[int], flag: str) -> None:
    """Checks that there is a pooler, and that what it is applied to was asked for.

    Args:
      source: the model.
      layers: their numbers, from 0.
      flag: that says them, for the error.

    Raises:
      InputError: there is none that was trained, or another layer was asked for.
    """
    config = source.bundle.config
    if tuple(layers) != (config.num_hidden_layers,):
        raise InputError(f"--pooling=pooler is of the last layer; leave --{flag} out.")
    if config.pooler_act is None or not source.has_pooler:
        raise InputError(
            f"{source.folder}: has no pooler that was trained; use --pooling=mean, or cls."
        )


def make_encoder(source: Source, dtype: str) -> Encoder:
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


def outputs_of(
    encoder: Encoder, ids: tf.Tensor, mask: tf.Tensor, types: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The layers' outputs for a batch, for inference; those at padding mean nothing.

    Args:
      encoder: the encoder.
      ids: int32 [batch, length], as are the others.
      mask: 1 for tokens, 0 for padding.
      types: the segments.

    Returns:
      [batch, length, hidden_size] of each layer, the embeddings first; and the pooler's output,
      [batch, hidden_size].
    """
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
    with fused_ops.inference():
        outputs = encoder(inputs, drop_padding=True)
    return [outputs["embedding_output"], *outputs["encoder_outputs"]], outputs["pooled_output"]
