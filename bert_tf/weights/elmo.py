"""The released ELMo (Peters et al. 2018): *options.json, and *.hdf5 with the weights.

It contains both directions without the softmax. It has no vocabulary, as it represents words by
their characters; any vocabulary can be added (words.txt in the folder, or --vocab of `bert-tf
convert`).
"""

import dataclasses
from typing import NotRequired, TypedDict

import numpy as np

from bert_tf.models.elmo.word_embeddings import character_table
from bert_tf.models.elmo_config import CHARACTERS, ElmoConfig
from bert_tf.weights import hdf5
from bert_tf.weights.bundle import BIDIRECTIONAL_LM, Bundle
from bert_tf.weights.table import Table
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import Vocabulary
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS

OPTIONS = "options.json"  # ends of the file names
WEIGHTS = ".hdf5"
_WORDS = "encoder/embeddings/word_characters"


class _Lstm(TypedDict):
    dim: int
    projection_dim: int
    n_layers: int
    cell_clip: NotRequired[float | None]
    proj_clip: NotRequired[float | None]
    use_skip_connections: NotRequired[bool]


class _CharacterEmbedding(TypedDict):
    dim: int


class _CharacterCnn(TypedDict):
    embedding: _CharacterEmbedding
    filters: list[tuple[int, int]]
    n_highway: NotRequired[int]
    activation: NotRequired[str]
    max_characters_per_token: int


class _Options(TypedDict):
    """The options that are used; a file also has those of training."""

    lstm: _Lstm
    char_cnn: _CharacterCnn


def find(path: str) -> tuple[str, str] | None:
    """The paths of options and weights in a folder, or None; an InputError if it has several."""
    if not files.gfile.isdir(path):
        return None
    names = files.names_in(path)
    options = [name for name in names if name.endswith(OPTIONS)]
    found = [name for name in names if name.endswith(WEIGHTS)]
    if not options or not found:
        return None
    weights = [name for name in found if "weights" in name] or found
    for kind in (options, weights):
        if len(kind) > 1:
            raise InputError(f"{path}: has {' and '.join(kind)}; keep the files of one ELMo only.")
    return f"{path}/{options[0]}", f"{path}/{weights[0]}"


def read(path: str) -> Bundle:
    """Reads a folder with options, weights, and optionally a vocabulary of words.

    Raises:
      InputError: A file is damaged, a weight does not match, or the vocabulary is of another kind.
    """
    found = find(path)
    assert found is not None  # the format was detected from it
    options, weights = found
    config = _config(json_files.read(options, _Options), options)
    with hdf5.opened(weights) as stored:
        arrays = _table(config).read(stored, config, weights)
    none = {_WORDS: np.zeros([config.vocab_size, CHARACTERS], np.int32)}
    bundle = Bundle(config, arrays | none, place=path)
    vocabulary = registry.find(path)
    if vocabulary is None:
        return bundle
    bundle = with_words(bundle, vocabulary)
    return dataclasses.replace(bundle, tokenizer_settings=registry.read_settings(path))


def with_words(model: Bundle, vocabulary: Vocabulary) -> Bundle:
    """A copy of an ELMo with another vocabulary; an InputError if it is not one of words.

    The softmax is kept if the predicted words are the same.
    """
    config = model.config
    assert isinstance(config, ElmoConfig)
    config.check_vocabulary(vocabulary.kind, model.place)
    predicted = config.predicted_words
    known = model.vocabulary is not None and (
        model.vocabulary.tokens[:predicted] == vocabulary.tokens[:predicted]
    )
    kept = {
        name: value
        for name, value in model.weights.items()
        if known or not name.startswith(BIDIRECTIONAL_LM)
    }
    config = dataclasses.replace(
        config, vocab_size=len(vocabulary), softmax_size=predicted if known else None
    )
    return dataclasses.replace(
        model,
        config=config,
        vocabulary=vocabulary,
        weights=kept | {_WORDS: character_table(vocabulary)},
    )


def _config(options: _Options, place: str) -> ElmoConfig:
    lstm, cnn = options["lstm"], options["char_cnn"]
    if cnn["max_characters_per_token"] != CHARACTERS:
        raise InputError(
            f"{place}: max_characters_per_token is {cnn['max_characters_per_token']}; only "
            f"{CHARACTERS} is supported."
        )
    values = {
        "vocab_size": len(SPECIAL_TOKENS),
        "character_size": cnn["embedding"]["dim"],
        "filters": cnn["filters"],
        "char_act": cnn.get("activation", "relu"),
        "num_highway_layers": cnn.get("n_highway", 0),
        "num_hidden_layers": lstm["n_layers"],
        "cell_size": lstm["dim"],
        "projection_size": lstm["projection_dim"],
        "cell_clip": lstm.get("cell_clip"),
        "projection_clip": lstm.get("proj_clip"),
        "residual": lstm.get("use_skip_connections", False),
    }
    return ElmoConfig.from_dict(values, place)


def _table(config: ElmoConfig) -> Table:
    """The names of the format for a configuration."""
    embeddings = "encoder/embeddings"
    names = {
        f"{embeddings}/character_embeddings": "char_embed",
        f"{embeddings}/projection/kernel": "CNN_proj/W_proj",
        f"{embeddings}/projection/bias": "CNN_proj/b_proj",
    }
    for index in range(len(config.filters)):
        ours = f"{embeddings}/convolution_{index}"
        names |= {f"{ours}/kernel": f"CNN/W_cnn_{index}", f"{ours}/bias": f"CNN/b_cnn_{index}"}
    for index in range(config.num_highway_layers):
        # Their "carry" gate is the weight of the transform.
        for ours, theirs in (("gate", "carry"), ("transform", "transform")):
            for part, letter in (("kernel", "W"), ("bias", "b")):
                name = f"{embeddings}/highway_{index}/{ours}/{part}"
                names[name] = f"CNN_high_{index}/{letter}_{theirs}"
    for number, direction in enumerate(("forward", "backward")):
        cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{{i}}/LSTMCell"
        names[f"encoder/block_{{i}}/{direction}"] = cell
    renamed = {"kernel": "W_0", "bias": "B", "projection": "W_P_0"}
    return Table(names, renamed, reshaped=True)
