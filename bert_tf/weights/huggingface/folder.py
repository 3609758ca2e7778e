"""Folders of Hugging Face transformers: config.json, model.safetensors, and a tokenizer."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import safetensors.numpy
from absl import logging

from bert_tf import tasks
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.tasks import embedding
from bert_tf.weights import own
from bert_tf.weights.bundle import MASKED_LM, POOLER, Bundle, check_shape, parameter_shapes
from bert_tf.weights.huggingface import config as configs
from bert_tf.weights.huggingface import generation, sentence_transformers, tokenizers, weight_files
from bert_tf.weights.huggingface.config import CONFIG
from bert_tf.weights.huggingface.family import Architecture, Family, stated_class
from bert_tf.weights.huggingface.weight_files import WEIGHTS
from bert_tf.weights.table import StoredArray, Table
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers.bpe_vocabulary import ADDED, BPEVocabulary
from pipelines.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from bert_tf.tasks.embedding.task import Embedding

# Buffers, and the pooler in files of classes that replace it by another layer.
_IGNORED = (
    r"(.*\.)?position_ids|.*\.pooler\.dense\.(weight|bias)"
    r"|.*\bh\.\d+\.attn\.(masked_)?bias|.*(en|de)coder\.version"
)
_WORDS = "encoder/embeddings/word_embeddings"
_DENSE = Table(
    {"heads/{head}": "linear"},
    {"kernel": "weight"},
    separator=".",
    transposed=lambda ours: ours.endswith("/kernel"),
)


def _table(family: Family, architecture: Architecture, prefix: str) -> Table:
    names = {
        **family.names,
        **architecture.names,
        "encoder/pooler": architecture.pooler,
        **({"heads/{head}": architecture.head} if architecture.head else {}),
    }
    return Table(
        {ours: theirs.replace("{prefix}", prefix) for ours, theirs in names.items()},
        {"kernel": "weight", "gamma": "weight", "beta": "bias"},
        separator=".",
        transposed=lambda ours: ours.endswith("/kernel") and ours.startswith(family.transposed),
        ignored=_IGNORED,
    )


def read(path: str) -> Bundle:
    """Reads a folder, and the description of its task that we may have written there.

    Raises:
      InputError: A file or a weight is missing, does not match, or is pickled.
    """
    name = f"{path}/{CONFIG}"
    values = json_files.read(name, dict[str, Any])
    family, config = configs.read_config(values, name)
    weights = _modernize(weight_files.read(path), path)
    prefix = family.prefix if any(name.startswith(family.prefix) for name in weights) else ""
    weights = _untie(weights, family, prefix, path)
    task, units = configs.read_task(values, weights, family, config.max_seq_length, path)
    task = _described(task, path) if task else next(iter(own.tasks_without_head(path)), None)
    architecture = family.architecture(values)
    if architecture.head and not architecture.biased:
        weights[f"{architecture.head}.bias"] = np.zeros(units, np.float32)
    if architecture.zeros and np.asarray(weights.pop(architecture.zeros, 0)).any():
        raise InputError(
            f"{path}: {architecture.zeros} is not zero; {family.title}'s output has no bias."
        )
    table = _table(family, architecture, prefix)
    _check_sizes(config, table, weights, path)
    heads = [(task["name"], units)] if task and units else []
    found = table.read(weights, config, path, heads, _class_remedy(values, family, architecture))
    for group in architecture.needs:
        if not any(ours.startswith(group) for ours in found):
            if family.prefix and not prefix:
                # Names of a model without heads: sentence-transformers kept the class of the model
                # that it began with (all-mpnet-base-v2).
                logging.warning("%s: lacks the heads of %s.", path, architecture.name)
                break
            ours = [name for name in parameter_shapes(config) if name.startswith(group)]
            raise InputError(
                f"{path}: lacks the weights of {group[:-1]}; the class {architecture.name} "
                "requires them: "
                f"{', '.join(theirs for name in ours for theirs in table.theirs(name))}."
            )
    if any(ours.startswith(MASKED_LM) for ours in found):
        configs.check_head(config, family, name)
    if "pool_first" in family.options and any(ours.startswith(POOLER) for ours in found):
        config = dataclasses.replace(config, pool_first=config.causal)
    vocabulary, settings = tokenizers.read(family.tokenizer, path, config)
    _check_token_ids(values, family, vocabulary, name)
    if family.model_type == "bart" and vocabulary and len(vocabulary) == config.vocab_size + 1:
        # Models that were fine-tuned by fairseq lack a row for the last token, <mask>.
        found[_WORDS] = np.concatenate([found[_WORDS], found[_WORDS].mean(0, keepdims=True)])
        config = dataclasses.replace(config, vocab_size=len(vocabulary))
    if isinstance(vocabulary, BPEVocabulary) and len(vocabulary) > config.vocab_size:
        if task:
            raise InputError(
                f"{path}: its vocabulary lacks {', '.join(ADDED)}, of which inputs of tasks here "
                "consist; read the pre-trained model, and fine-tune that."
            )
        config = _add_rows(config, found, len(vocabulary), path)
    if task and task["shape"] == embedding.SHAPE.name:
        found |= _read_dense(task, config, path)
    model = Bundle(config, found, vocabulary, settings, (task,) if task else (), path)
    if model.generates:
        generation.report(values, path, bool(config.num_decoder_layers))
    return _with_pooling(sentence_transformers.with_stripping(model))


def _check_sizes(
    config: BertConfig, table: Table, weights: Mapping[str, StoredArray], path: str
) -> None:
    """Compares the largest sizes of a configuration with the file, before they are allocated."""
    expected: dict[str, tuple[int, ...]] = {_WORDS: (config.vocab_size, config.embedding_width)}
    decoder = config.num_decoder_layers
    for kind, count in (("block", config.num_blocks - decoder), ("decoder_block", decoder)):
        if count:
            expected[f"encoder/{kind}_{count - 1}/output_norm/gamma"] = (config.hidden_size,)
    for ours, shape in expected.items():
        (name,) = table.theirs(ours)
        if name not in weights:
            raise InputError(f"{path}: lacks the weight {name}.")
        check_shape(name, weights[name], shape, path)


def _check_token_ids(
    values: Mapping[str, Any], family: Family, vocabulary: Vocabulary | None, name: str
) -> None:
    """Compares ids of tokens that a generating family needs with its tokenizer.

    Without a tokenizer they must be the usual ones, as nothing here keeps others.
    """
    for key, usual in family.defaults.items():
        if key not in family.token_keys or (vocabulary and key == "pad_token_id"):
            continue
        expected = vocabulary.id_of(family.token_keys[key]) if vocabulary else usual
        stated = values.get(key, usual)
        if stated != expected and (stated, usual) != (None, None):
            role = family.token_keys[key]
            reason = f"the tokenizer's {role} token is {expected}"
            if not vocabulary:
                reason = f"without a tokenizer only {expected} can be read; copy its files there"
            raise InputError(f"{name}: {key} is {stated!r}, but {reason}.")


def _class_remedy(values: dict[str, Any], family: Family, architecture: Architecture) -> str:
    """What to tell of a config.json that names no known class, for which the encoder is read."""
    stated = stated_class(values)
    if architecture.name == stated:
        return ""
    known = ", ".join(item.name for item in (*family.pretraining, *family.tasks.values()))
    return f" In {CONFIG}, architectures names {stated or 'no class'}; known are {known}."


def _with_pooling(model: Bundle) -> Bundle:
    """The model with the task of making vectors, if it is of sentence-transformers.

    Raises:
      InputError: Our description of this task, and that of sentence-transformers, differ.
    """
    if model.tasks and tasks.load(model.task()).own_head:
        sentence_transformers.check_pairs(model)
    try:
        theirs = sentence_transformers.read(model)
    except InputError as error:
        if not model.tasks:
            logging.warning("%s The encoder alone is read.", error)
        return model
    if theirs is None or (model.tasks and model.task()["shape"] != theirs["shape"]):
        return model
    if not model.tasks:
        dense = _read_dense(theirs, model.config, model.place)
        return dataclasses.replace(model, tasks=(theirs,), weights=model.weights | dense)
    ours, other = (
        cast("Embedding", tasks.load(task, model.config.max_seq_length))
        for task in (model.task(), theirs)
    )
    fields = ("max_seq_length", *ours.vector_fields)
    if any(getattr(ours, field) != getattr(other, field) for field in fields):
        raise InputError(
            f"{model.place}: {own.TASKS} and the files of sentence-transformers make different "
            f"vectors; remove {own.TASKS} if the model was trained on with another program."
        )
    return model


def _read_dense(task: Mapping[str, Any], config: EncoderConfig, path: str) -> dict[str, np.ndarray]:
    """The weights of the module Dense of a model of vectors; empty if its task has none."""
    units = tasks.load(task).units
    if not units:
        return {}
    place, biased = sentence_transformers.dense_folder(path)
    weights = weight_files.read(place)
    if not biased:
        weights |= {"linear.bias": np.zeros(units, np.float32)}
    return _DENSE.read(weights, config, place, [(task["name"], units)])


def _add_rows(
    config: BertConfig, weights: dict[str, np.ndarray], tokens: int, path: str
) -> BertConfig:
    """Appends embeddings for the special tokens of fine-tuning, which a pre-trained GPT lacks.

    They are the mean of all others with noise of a fixed seed. OpenAI's program has the noise
    alone, and such tokens may be more probable than those that were trained. Returns the changed
    configuration.
    """
    missing = tokens - config.vocab_size
    logging.info(
        "%s: %d special tokens (%s) get new embeddings; fine-tuning trains them.",
        path,
        missing,
        ", ".join(ADDED[-missing:]),
    )
    words = weights[_WORDS]
    noise = np.random.default_rng(0).standard_normal((missing, config.hidden_size), np.float32)
    rows = words.mean(0) + config.initializer_range * noise
    weights[_WORDS] = np.concatenate([words, rows.astype(np.float32)])
    return dataclasses.replace(config, vocab_size=tokens)


def _described(task: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The task as described in our file, if it exists, and otherwise in theirs."""
    ours = own.read_tasks(path)
    if not ours:
        return task
    if [(t["shape"], t["labels"]) for t in ours] != [(task["shape"], task["labels"])]:
        raise InputError(
            f"{path}: {own.TASKS} and {CONFIG} describe different tasks; remove {own.TASKS} if the "
            "model was trained on with another program."
        )
    return ours[0]


def _modernize(weights: Mapping[str, StoredArray], path: str) -> dict[str, StoredArray]:
    """Renames the weights of LayerNorm in files of old versions."""
    found: dict[str, StoredArray] = {}
    for old, value in weights.items():
        name = old.replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        if name != old and name in weights:
            raise InputError(f"{path}: has {old} and {name}, which are one; remove one of them.")
        found[name] = value
    return found


def _untie(
    weights: dict[str, StoredArray], family: Family, prefix: str, path: str
) -> dict[str, StoredArray]:
    """The weights without copies of tied ones; a copy without its original is renamed."""
    for names in family.tied.items():
        copy, original = (name.replace("{prefix}", prefix) for name in names)
        if copy in weights:
            first, second = weights[copy], weights.get(original, weights[copy])
            if not np.array_equal(np.asarray(first), np.asarray(second)):
                raise InputError(
                    f"{path}: {copy} differs from {original}; {family.title}'s output embeddings "
                    "are tied to its input embeddings."
                )
            weights = {original if name == copy else name: v for name, v in weights.items()}
    return weights


def write(model: Bundle, folder: str) -> None:
    """Writes a folder that transformers reads.

    An additional tasks.json contains what its files do not support, such as the length of windows.
    A model of embeddings can also be read by sentence-transformers.

    Raises:
      InputError: The model has several tasks, or the format does not support it.
    """
    family, architecture = write_settings(model, folder)
    names = [model.task()["name"]] if architecture.head else []
    kept = {k: v for k, v in model.weights.items() if not k.startswith(architecture.lacks)}
    bare = architecture == family.pretraining[-1]
    table = _table(family, architecture, "" if bare else family.prefix)
    weights = table.write(kept, model.config, names)
    if not architecture.biased and weights.pop(f"{architecture.head}.bias").any():
        raise InputError(
            f"{model.place}: the head of a {architecture.name} has no bias, but that of "
            f"{names[0]} has one; write it as bert_tf."
        )
    if architecture.zeros:
        weights[architecture.zeros] = np.zeros((1, model.config.vocab_size), np.float32)
    with (
        files.write_aside(f"{folder}/{WEIGHTS}") as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        file.write(safetensors.numpy.save(weights, {"format": "pt"}))


def write_settings(model: Bundle, folder: str) -> tuple[Family, Architecture]:
    """Writes all files but the weights; returns what the model is in transformers.

    Raises:
      InputError: as of `write`.
    """
    family = configs.find_family(model.config.model_type, model.place)
    architecture = configs.architecture_for(model, family)
    config = configs.from_bundle(model, family, architecture)
    if model.vocabulary:
        config |= {key: model.vocabulary.id_of(role) for key, role in family.token_keys.items()}
    if model.vocabulary and model.vocabulary.kind not in (
        *(family.tokenizer, "wordpiece", "sentencepiece"),
    ):
        raise InputError(
            f"{model.place}: a {family.title} of Hugging Face has a vocabulary of "
            f"{family.tokenizer}, but this model has one of {model.vocabulary.kind}; write it as "
            "bert_tf."
        )
    json_files.write(f"{folder}/{CONFIG}", config)
    own.write_tasks(model, folder)
    if model.vocabulary:
        tokenizers.write(model, folder)
    if model.tasks and model.task()["shape"] == embedding.SHAPE.name:
        heads = [model.task()["name"]] if tasks.load(model.task()).units else []
        dense = _DENSE.write(model.weights, model.config, heads)
        if dense and not dense["linear.bias"].any():
            del dense["linear.bias"]
        sentence_transformers.write(model, folder, dense)
    return family, architecture
