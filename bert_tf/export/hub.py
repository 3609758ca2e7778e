"""Reusable SavedModels for TF Hub: an encoder, and its preprocessor.

Both follow the common text API of TF Hub: hub.load and hub.KerasLayer find the names, sub-objects
and traces that they expect, and do not need this program.
"""

from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import weights
from bert_tf.export.module import quiet
from bert_tf.export.sources import ModelSource
from bert_tf.models import encoders, fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import TokenPrediction
from bert_tf.tasks.signatures import Tensors
from bert_tf.weights import own
from bert_tf.weights.bundle import MASKED_LM, POOLER
from pipelines.common import files, manifest
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.vocabulary import Vocabulary

# Like tf.Module, but with `trainable_variables` that can be set.
_Trackable = tf.__internal__.tracking.AutoTrackable
_DEFAULT_LENGTH = 128
_SETTINGS = {"lower_case": "do_lower_case"}  # names of tokenizer settings in the common API


def export(source: ModelSource, folder: str) -> tuple[str, str]:
    """Writes <folder>/encoder and <folder>/preprocess.

    Args:
      source: a pre-trained or fine-tuned model.
      folder: of both; it appears when it is complete.

    Returns:
      The two folders.

    Raises:
      InputError: the folder exists, or the disk is full.
    """
    length = min(_DEFAULT_LENGTH, source.bundle.config.max_seq_length)
    with files.folder_aside(folder) as partial:
        source.bundle.require_vocabulary().save(partial)
        source.bundle.config.save(f"{partial}/{own.CONFIG}")
        modules = {
            "encoder": encoder_module(source, partial),
            "preprocess": preprocess_module(source.bundle.tokenizer(), partial, length),
        }
        for name, module in modules.items():
            with quiet():
                tf.saved_model.save(module, f"{partial}/{name}")
            seal = f"{partial}/{name}/{manifest.CHECKSUMS}"
            manifest.write_sealed(seal, {}, ("saved_model.pb", "assets", "variables"))
    return f"{folder}/encoder", f"{folder}/preprocess"


def encoder_module(source: ModelSource, folder: str) -> Any:
    """The encoder: called with the inputs by name, and `training`.

    It returns `pooled_output` and `default` [batch, hidden_size], `sequence_output`
    [batch, length, hidden_size] and `encoder_outputs`, one of that shape for each layer; float32.
    If the model has a masked LM head, `mlm` also takes `masked_lm_positions` int32
    [batch, predictions], and also returns `mlm_logits` float32 [batch, predictions, vocab_size].

    Args:
      source: the model.
      folder: with its vocabulary and its configuration, which become the assets `vocab_file` (and
        so on) and `config_file`.
    """
    bundle = source.bundle
    model: TokenPrediction | None = None
    if bundle.has(MASKED_LM):
        assert isinstance(bundle.config, BertConfig)  # no other has this head
        model = TokenPrediction(bundle.config)
    encoder = model.encoder if model else encoders.make(bundle.config, name="encoder")
    weights.assign(model or encoder, bundle.weights, source.folder)
    if bundle.config.pooler_act and not bundle.has(POOLER):
        logging.warning("%s has no pooler: pooled_output has random weights.", source.folder)
    encoder.pooler.trainable = True

    def encode(inputs: Tensors, training: bool = False) -> dict[str, Any]:
        with fused_ops.inference(not training):
            outputs = encoder(inputs, training=training)
        names = ("pooled_output", "sequence_output", "encoder_outputs")
        return {"default": outputs["pooled_output"], **{name: outputs[name] for name in names}}

    def guess(inputs: Tensors, training: bool = False) -> dict[str, Any]:
        assert model is not None  # else nothing calls it
        outputs = encode({name: inputs[name] for name in packing.MODEL_INPUTS}, training)
        positions = inputs["masked_lm_positions"]
        rows = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
        with fused_ops.inference(not training):
            logits = model.token_logits(tf.reshape(rows, [-1, bundle.config.hidden_size]))
        shape = tf.concat([tf.shape(positions), [bundle.config.vocab_size]], 0)
        return outputs | {"mlm_logits": tf.reshape(logits, shape)}

    inputs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in packing.MODEL_INPUTS}
    root = _callable(encode, inputs, encoder)
    _add_vocabulary(root, bundle.require_vocabulary(), folder)
    root.config_file = tf.saved_model.Asset(f"{folder}/{own.CONFIG}")
    for name, value in bundle.resolved_settings().items():
        setattr(root, _SETTINGS.get(name, name), tf.Variable(value, trainable=False))
    if model:
        positions = tf.TensorSpec([None, None], tf.int32, "masked_lm_positions")
        root.mlm = _callable(guess, inputs | {"masked_lm_positions": positions}, model)
    return root


def _callable(function: Any, inputs: dict[str, tf.TensorSpec], model: Any) -> Any:
    """An object that is called with inputs and `training`, with the model's variables."""
    root = _Trackable()
    root.__call__ = tf.function(function, autograph=False)
    for training in (False, True):
        root.__call__.get_concrete_function(inputs, training=training)
    root.variables = [variable.value for variable in model.variables]
    root.trainable_variables = [variable for variable in root.variables if variable.trainable]
    root.regularization_losses = []
    return root


def preprocess_module(tokenizer: Tokenizer, folder: str, default_length: int) -> Any:
    """The preprocessor: called with string [batch] texts, it returns the encoder's inputs.

    `tokenize` returns ragged int32 [batch, (tokens)]; `bert_pack_inputs` takes a list of one or two
    of these (or of [batch, (words), (tokens)]) and `seq_length`. `tokenize.get_special_tokens_dict`
    returns the ids of special tokens.

    Args:
      tokenizer: of the model.
      folder: with its vocabulary, which becomes an asset.
      default_length: of a sequence in tokens.
    """

    def pack(segments: list[tf.RaggedTensor], seq_length: Any = default_length) -> Tensors:
        flat = [s.merge_dims(1, 2) if s.ragged_rank == 2 else s for s in segments]
        second = flat[1] if len(flat) > 1 else None
        packed = packing.pack(tokenizer, flat[0], second, seq_length)
        return packing.padded(tokenizer, packed, tf.cast(seq_length, tf.int32))

    special = {
        "vocab_size": len(tokenizer.vocabulary),
        "padding_id": tokenizer.pad_id,
        "start_of_sequence_id": tokenizer.start_id,
        "end_of_segment_id": tokenizer.separator_id,
        "mask_id": tokenizer.mask_id,
    }
    root = _Trackable()
    root.tokenize = _Trackable()
    root.tokenize.__call__ = tokenizer.functions.tokenize
    root.tokenize.get_special_tokens_dict = tf.function(
        lambda: {name: tf.constant(value) for name, value in special.items()}, []
    )
    root.bert_pack_inputs = _Trackable()
    root.bert_pack_inputs.__call__ = tf.function(pack, autograph=False)
    length = tf.TensorSpec([], tf.int32, "seq_length")
    for count in (1, 2):
        for rank in (1, 2):
            ragged = tf.RaggedTensorSpec([None] * (rank + 1), tf.int32, rank, tf.int64)
            root.bert_pack_inputs.__call__.get_concrete_function([ragged] * count)
            root.bert_pack_inputs.__call__.get_concrete_function([ragged] * count, length)
    root.__call__ = tf.function(
        lambda sentences: pack([tokenizer.functions.tokenize(sentences)]),
        [tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    root.tokenizer = tokenizer
    _add_vocabulary(root, tokenizer.vocabulary, folder)
    return root


def _add_vocabulary(root: Any, vocabulary: Vocabulary, folder: str) -> None:
    """Adds the files of a vocabulary as assets: vocab.txt as `vocab_file`, and so on."""
    for name in vocabulary.files:
        setattr(root, f"{name.partition('.')[0]}_file", tf.saved_model.Asset(f"{folder}/{name}"))
