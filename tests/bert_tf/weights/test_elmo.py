"""The released format of ELMo: the fixture of its program, and files that do not fit."""

import json
import os
import pathlib
import tracemalloc

import h5py
import numpy as np
import pytest

from bert_tf import weights
from bert_tf.tasks.tagging.serving import cut
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import FeatureSettings
from bert_tf.weights import elmo, formats
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS, WordVocabulary
from tests.bert_tf.models.elmo_models import BATCH, CONFIG, VOCABULARY, make_encoder

_OPTIONS = {
    "lstm": {
        "cell_clip": CONFIG.cell_clip,
        "proj_clip": CONFIG.projection_clip,
        "use_skip_connections": True,
        "n_layers": CONFIG.num_hidden_layers,
        "projection_dim": CONFIG.projection_size,
        "dim": CONFIG.cell_size,
    },
    "char_cnn": {
        "embedding": {"dim": CONFIG.character_size},
        "filters": [list(pair) for pair in CONFIG.filters],
        "n_highway": CONFIG.num_highway_layers,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
    "bidirectional": True,
}


def _names(encoder):
    """Arrays by the names of the format, as its program documents them."""
    part = encoder.embeddings
    found = {"char_embed": part.table, "CNN_proj/W_proj": part.projection.kernel}
    found["CNN_proj/b_proj"] = part.projection.bias
    for index, convolution in enumerate(part.convolutions):
        found[f"CNN/W_cnn_{index}"] = convolution.kernel.numpy()[None]
        found[f"CNN/b_cnn_{index}"] = convolution.bias
    for index, highway in enumerate(part.highways):
        for name, layer in (("carry", highway.gate), ("transform", highway.transform)):
            found[f"CNN_high_{index}/W_{name}"] = layer.kernel
            found[f"CNN_high_{index}/b_{name}"] = layer.bias
    for index, block in enumerate(encoder.blocks):
        for number, lstm in enumerate((block.forward, block.backward)):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
            found |= {f"{cell}/W_0": lstm.kernel, f"{cell}/B": lstm.bias}
            found[f"{cell}/W_P_0"] = lstm.projection_kernel
    return {name: np.asarray(value) for name, value in found.items()}


@pytest.fixture(scope="module")
def encoder():
    """One to be written in the format."""
    return make_encoder()


def _write(folder, encoder, options=_OPTIONS, change=lambda arrays: None):
    arrays = _names(encoder)
    change(arrays)
    with h5py.File(folder / "small_weights.hdf5", "w") as file:
        for name, value in arrays.items():
            file[name] = value
    (folder / "small_options.json").write_text(json.dumps(options))
    return str(folder)


def test_read_by_the_same_door(encoder, tmp_path):
    folder = _write(tmp_path, encoder)
    assert formats.detect(folder) is Format.ELMO
    found = weights.read(f"{folder}/small_weights.hdf5")
    with pytest.raises(InputError, match="--vocab="):
        found.require_vocabulary()
    VOCABULARY.save(folder)
    found = weights.read(folder)
    assert found.vocabulary == VOCABULARY and found.config.residual
    np.testing.assert_array_equal(
        found.encoder()(BATCH)["sequence_output"], encoder(BATCH)["sequence_output"]
    )
    weights.write(found, f"{tmp_path}/ours")
    again = weights.read(f"{tmp_path}/ours")
    assert again.sha256() == found.sha256() and again.config == found.config


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, lambda arrays: arrays.pop("CNN/b_cnn_1"), "lacks the weight CNN/b_cnn_1"),
        ({}, lambda arrays: arrays.update(more=np.zeros(3)), "does not have: more"),
        ({"lstm": {**_OPTIONS["lstm"], "dim": 9}}, lambda arrays: None,
         "the configuration requires"),
        ({"char_cnn": {**_OPTIONS["char_cnn"], "max_characters_per_token": 30}},
         lambda arrays: None, "max_characters_per_token is 30"),
        ({"lstm": {}}, lambda arrays: None, "options.json"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(encoder, tmp_path, options, change, message):
    folder = _write(tmp_path, encoder, {**_OPTIONS, **options}, change)
    with pytest.raises(InputError, match=message):
        weights.read(folder)


def test_damaged_and_several_files(encoder, tmp_path):
    folder = _write(tmp_path, encoder)
    path = tmp_path / "small_weights.hdf5"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match="small_weights.hdf5: is damaged"):
        weights.read(folder)
    with pytest.raises(InputError, match="small_options.json, small_weights.hdf5"):
        weights.read(f"{folder}/more.hdf5")
    (tmp_path / "other_weights.hdf5").write_bytes(b"")
    with pytest.raises(InputError, match="other_weights.hdf5 and small_weights.hdf5"):
        weights.read(folder)


_BIAS = "CNN/b_cnn_1"


def _elsewhere(file, secret):
    file.create_dataset(_BIAS, (3,), "f4", external=[(str(secret), 0, 12)])


def _virtual(file, secret):
    layout = h5py.VirtualLayout((3,), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "x", (3,))
    file.create_virtual_dataset(_BIAS, layout)


def _linked(file, secret):
    file[_BIAS] = h5py.ExternalLink(str(secret), "/x")


def _large(file, secret):
    file.create_dataset(_BIAS, (1 << 28,), "f4", chunks=(1 << 20,))


def _large_and_unused(file, secret):
    file[_BIAS] = np.zeros(3, "f4")
    file.create_dataset("more", (1 << 28,), "f4", chunks=(1 << 20,))


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (_elsewhere, f"{_BIAS} is kept in another file"),
        (_virtual, f"{_BIAS} is kept in another file"),
        (_linked, f"lacks the weight {_BIAS}"),
        (_large, rf"{_BIAS} has the shape \[268435456\]"),
        (_large_and_unused, r"does not have: more|has the shape"),
    ],
)
def test_other_files_and_claims_of_size_are_not_read(encoder, tmp_path, put, message):
    """Paths and sizes in a file are whatever its maker wrote there."""
    secret = tmp_path / "secret"
    with h5py.File(secret, "w") as file:
        file["x"] = np.ones(3, "f4")
    folder = _write(tmp_path, encoder, change=lambda arrays: arrays.pop(_BIAS))
    with h5py.File(f"{folder}/small_weights.hdf5", "a") as file:
        put(file, secret)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message):
            weights.read(folder)
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


def test_words_of_a_vocabulary_are_never_split(encoder, tmp_path):
    """Features of given words, and their tags, are of one token each."""
    words = ["The", "U.S.", "isn't", "the", "model", "."]
    vocabulary = WordVocabulary((*SPECIAL_TOKENS, *words))
    folder = _write(tmp_path, encoder)
    vocabulary.save(folder)
    ours = weights.read(folder)
    weights.write(ours, f"{tmp_path}/ours")
    ids, mask = _inputs(vocabulary, [words])
    outputs = ours.encoder()({"input_word_ids": ids, "input_mask": mask})["sequence_output"]
    extract = FeatureExtractor(f"{tmp_path}/ours", FeatureSettings(unit="word"))
    (found,) = extract.of_words([words])
    assert found.units.tokens == words
    np.testing.assert_allclose(found.values[:, 0], outputs[0, 1:-1], atol=1e-6)
    runs = cut(ours.tokenizer(), words, np.zeros(len(words), np.int64), 1, 20)
    assert runs.packed.word_ids.to_list() == ids.tolist()
    assert runs.position.numpy().tolist() == [1, 2, 3, 4, 5, 6]


@pytest.fixture(scope="module")
def fixture():
    """The small model of the format's own program: documents, and vectors of each sentence.

    Vectors are the highest layer's, [direction, words, width].
    """
    folder = pathlib.Path(os.environ.get("DATA_ROOT", "/nowhere"), "elmo_fixture")
    if not folder.is_dir():
        pytest.skip("set DATA_ROOT to a folder that has elmo_fixture")
    documents = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    documents = [[sentence.split() for sentence in document] for document in documents]
    vectors = []
    for number, document in enumerate(documents):
        with h5py.File(folder / f"lm_embeddings_{number}.hdf5") as file:
            vectors.append([file[str(index)][()] for index in range(len(document))])
    words = sorted({word for document in documents for sentence in document for word in sentence})
    vocabulary = WordVocabulary((*SPECIAL_TOKENS, *words))
    encoder = elmo.with_words(weights.read(str(folder)), vocabulary).encoder()
    return encoder, vocabulary, documents, vectors


def _inputs(vocabulary, sentences):
    """Ids and mask of words, looked up one by one."""
    ids = {word: index for index, word in enumerate(vocabulary.tokens)}
    rows = [[2, *(ids[word] for word in sentence), 3] for sentence in sentences]
    longest = max(map(len, rows))
    packed = np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)
    return packed, (packed > 0).astype(np.int32)


def test_first_sentences_are_those_of_the_fixture(fixture):
    encoder, vocabulary, documents, vectors = fixture
    ids, mask = _inputs(vocabulary, [document[0] for document in documents])
    outputs = encoder({"input_word_ids": ids, "input_mask": mask})
    found = np.stack(np.split(outputs["sequence_output"], 2, -1), 1)
    for row, expected in enumerate(vectors):
        np.testing.assert_allclose(found[row, :, 1 : mask[row].sum() - 1], expected[0], atol=1e-6)


def test_words_of_the_fixture_are_its_words(fixture):
    _, vocabulary, documents, _ = fixture
    tokenizer = registry.make(vocabulary)
    for sentence in (sentence for document in documents for sentence in document):
        ids = [[vocabulary.tokens.index(word)] for word in sentence]
        assert tokenizer.tokenize_words(sentence).to_list() == ids
