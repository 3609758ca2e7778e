"""Checkpoints of google-research/bert: bert_config.json, vocab.txt, bert_model.ckpt.*."""

import re

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.table import Table
from pipelines import files, vocabulary
from pipelines.errors import InputError

CHECKPOINT = "bert_model.ckpt"
_SPAN_HEAD = "cls/squad/output_weights"
_HEAD = "output_weights"
_LAYER = "bert/encoder/layer_{i}"
_NAMES = {
    "encoder/embeddings/word_embeddings": "bert/embeddings/word_embeddings",
    "encoder/embeddings/position_embeddings": "bert/embeddings/position_embeddings",
    "encoder/embeddings/token_type_embeddings": "bert/embeddings/token_type_embeddings",
    "encoder/embeddings/norm/gamma": "bert/embeddings/LayerNorm/gamma",
    "encoder/embeddings/norm/beta": "bert/embeddings/LayerNorm/beta",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}/attention/self/{{part}}/kernel",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}/attention/self/{{part}}/bias",
    "encoder/block_{i}/attention/output/kernel": f"{_LAYER}/attention/output/dense/kernel",
    "encoder/block_{i}/attention/output/bias": f"{_LAYER}/attention/output/dense/bias",
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}/attention/output/LayerNorm/gamma",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}/attention/output/LayerNorm/beta",
    "encoder/block_{i}/feed_forward/intermediate/kernel": f"{_LAYER}/intermediate/dense/kernel",
    "encoder/block_{i}/feed_forward/intermediate/bias": f"{_LAYER}/intermediate/dense/bias",
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}/output/dense/kernel",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}/output/dense/bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}/output/LayerNorm/gamma",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}/output/LayerNorm/beta",
    "encoder/pooler/kernel": "bert/pooler/dense/kernel",
    "encoder/pooler/bias": "bert/pooler/dense/bias",
    "masked_lm/transform/kernel": "cls/predictions/transform/dense/kernel",
    "masked_lm/transform/bias": "cls/predictions/transform/dense/bias",
    "masked_lm/norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
    "masked_lm/norm/beta": "cls/predictions/transform/LayerNorm/beta",
    "masked_lm/output_bias": "cls/predictions/output_bias",
    "next_sentence/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/bias": "cls/seq_relationship/output_bias",
}
# Optimizer slots and the step.
_IGNORED = r".*/adam_[mv]|.*/(lamb|Adam)(_\d)?|global_step|beta[12]_power"


def _table(span: bool) -> Table:
    prefix = "cls/squad/" if span else ""
    heads = {
        "heads/{head}/kernel": f"{prefix}output_weights",
        "heads/{head}/bias": f"{prefix}output_bias",
    }
    return Table(_NAMES | heads, lambda ours: ours.startswith(_OUTPUTS), ignored=_IGNORED)


# Output layers are kept [units, hidden_size].
_OUTPUTS = ("next_sentence/kernel", bundle.HEADS)


def find_checkpoint(path: str) -> str | None:
    """The prefix of the name-based checkpoint that a path names or a folder holds."""
    if files.gfile.exists(f"{path}.index"):
        return path
    if path.endswith(".index"):
        return path.removesuffix(".index")
    found = sorted(files.gfile.glob(f"{path}/*.index"))
    preferred = f"{path}/{CHECKPOINT}.index"
    if preferred in found:
        return preferred.removesuffix(".index")
    newest = tf.train.latest_checkpoint(path) if found else None
    return newest or (found[-1].removesuffix(".index") if found else None)


def read(path: str) -> Bundle:
    """Reads a folder, or the prefix of a checkpoint beside its bert_config.json.

    Raises:
      InputError: a file or a weight is missing, or does not fit.
    """
    prefix = find_checkpoint(path)
    folder = prefix.rsplit("/", 1)[0]
    config = BertConfig.load(f"{folder}/bert_config.json")
    reader = tf.train.load_checkpoint(prefix)
    names = [n for n in reader.get_variable_to_shape_map() if not re.fullmatch(_IGNORED, n)]
    weights = {name: reader.get_tensor(name) for name in names}
    span = _SPAN_HEAD in weights
    head = weights.get(_SPAN_HEAD if span else _HEAD)
    heads, tasks = [], ()
    if head is not None:
        shape = "span" if span else "classification" if len(head) > 1 else "regression"
        heads = [(shape, len(head))]
        labels = [str(i) for i in range(len(head))] if shape == "classification" else []
        tasks = ({"name": shape, "shape": shape, "labels": labels},)
    found = _table(span).read(weights, config, prefix, heads)
    vocab = f"{folder}/vocab.txt"
    tokens = tuple(vocabulary.load(vocab)) if files.gfile.exists(vocab) else None
    return Bundle(config, found, tokens, tasks=tasks)


def write(model: Bundle, folder: str, task: str | None = None) -> None:
    """Writes a folder that google-research/bert reads.

    Args:
      model: what to write.
      folder: where.
      task: whose head to write; None: of the only task, if there is one.

    Raises:
      InputError: the activation is one that the format cannot express.
    """
    if model.config.hidden_act == "gelu_erf":
        raise InputError(
            "google-research/bert computes gelu with tanh only; this model was trained with the "
            "exact one (gelu_erf). Set hidden_act to gelu in the bert_config.json of a copy to "
            "write it all the same; outputs then differ by about 1e-3."
        )
    description = model.task(task) if model.tasks else None
    table = _table(bool(description) and description["shape"] == "span")
    names = [description["name"]] if description else []
    weights = table.write(model.weights, model.config, names)
    model.config.save(f"{folder}/bert_config.json")
    if model.vocabulary:
        vocabulary.save(model.vocabulary, f"{folder}/vocab.txt")
    _save(weights, f"{folder}/{CHECKPOINT}")


def _save(weights: dict[str, np.ndarray], prefix: str) -> None:
    """Writes a name-based checkpoint, which TensorFlow 1 and 2 read."""
    names = sorted(weights)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[weights[name] for name in names],
    )
