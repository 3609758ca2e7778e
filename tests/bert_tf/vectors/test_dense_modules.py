"""Modules Dense of sentence-transformers, wherever vectors are made."""

import pathlib

import numpy as np
import pytest
import safetensors.numpy
import scipy.special

from bert_tf import weights
from bert_tf.vectors import neighbours
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from tests.bert_tf import labelled_data
from tests.bert_tf.vectors.encoded import TEXTS, make, write_vectors
from tests.bert_tf.vectors.sentence_models import DENSE, change, write_dense, write_pairs

_ACTIVATIONS = {
    "activation.Tanh": np.tanh,
    "linear.Identity": lambda x: x,
    "activation.ReLU": lambda x: np.maximum(x, 0),
    "activation.GELU": lambda x: x * scipy.special.ndtr(x),
}


@pytest.mark.more_cases
@pytest.mark.parametrize("act", _ACTIVATIONS)
def test_a_dense_layer_follows_the_pooling(sentence_model, act):
    folder = sentence_model(modules=DENSE)
    plain = make(folder, pooling="mean")
    assert plain.width == 32
    for bias in (True, False):
        arrays = write_dense(pathlib.Path(folder, "Dense"), act, bias)
        wanted = plain(TEXTS) @ arrays["linear.weight"].T + arrays.get("linear.bias", 0)
        embedder = make(folder)
        assert embedder.width == 12 and embedder.settings.dense == 12
        np.testing.assert_allclose(embedder(TEXTS), _ACTIVATIONS[act](wanted), atol=1e-5)
    with pytest.raises(InputError, match="--layers: the dense layer .* choose --pooling"):
        make(folder, layers=(-2,))


def test_neighbours_of_vectors_of_a_dense_layer(sentence_model, tmp_path):
    folder, output = sentence_model(modules=DENSE), f"{tmp_path}/vectors.npy"
    write_vectors(folder, TEXTS, output)
    query = [TextExample("", "", TEXTS[1])]
    (found,) = neighbours.find(folder, output, query, 1)
    assert found.found[0].id == "1" and found.found[0].similarity == pytest.approx(1)
    write_dense(pathlib.Path(folder, "Dense"), "linear.Identity")
    with pytest.raises(InputError, match="are of another model"):
        next(neighbours.find(folder, output, query, 1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"in_features": 31}, "in_features is 31, but the encoder's width is 32"),
        ({"out_features": 13}, r"linear.weight has the shape \[12, 32\]; .* \[13, 32\]"),
        ({"use_residual": True}, "use_residual is True; only False is supported"),
        ({"activation_function": "torch.nn.modules.activation.SiLU"}, "SiLU'; known are"),
        ({"module_input_name": "token_embeddings"}, "only 'sentence_embedding' is supported"),
    ],
)
def test_other_dense_layers_are_reported(sentence_model, values, message):
    folder = sentence_model(modules=DENSE)
    change(f"{folder}/Dense/config.json", **values)
    with pytest.raises(InputError, match=message):
        weights.read(folder)
        make(folder)


def test_a_dense_layer_in_a_pickle_is_never_loaded(sentence_model):
    folder = pathlib.Path(sentence_model(modules=DENSE))
    (folder / "Dense/model.safetensors").rename(folder / "Dense/pytorch_model.bin")
    with pytest.raises(InputError, match=r"Dense: has no model.safetensors; .* is a pickle"):
        weights.read(str(folder))


def test_several_dense_layers_are_refused(sentence_model):
    folder = sentence_model(modules=(*DENSE, "Dense"))
    with pytest.raises(
        InputError, match="Pooling, Dense, Dense; .* after them a Dense, a Normalize"
    ):
        make(folder)


@pytest.mark.more
def test_a_dense_layer_is_not_trained_alone(sentence_model, tmp_path):
    folder = sentence_model(modules=DENSE)
    with pytest.raises(InputError, match="--freeze=all: the dense layer of embedding is not"):
        labelled_data.tune(tmp_path, folder, "embedding", write_pairs, freeze="all", batch_size=4)
    (tmp_path / "other").mkdir()
    _, output = labelled_data.tune(
        tmp_path / "other", folder, "embedding", write_pairs, freeze="0", epochs=1.0, batch_size=4
    )
    before, after = (weights.read(place).weights for place in (folder, output))
    name = "heads/embedding/kernel"
    assert np.abs(before[name] - after[name]).max() > 0


@pytest.mark.slow
def test_a_dense_layer_is_trained_further_and_written_back(sentence_model, tmp_path):
    folder = sentence_model(modules=DENSE)
    first = write_dense(pathlib.Path(folder, "Dense"))["linear.weight"].T

    def write_classes(place):
        rows = [[text, text[0]] for text in ("one", "off", "two", "ten")]
        for split in ("train", "dev"):
            labelled_data.write_rows(place / f"{split}.tsv", rows, ["text", "label"])
        return str(place)

    for write in (write_pairs, write_classes):
        where = tmp_path / write.__name__
        where.mkdir()
        _, output = labelled_data.tune(where, folder, "embedding", write, epochs=1.0, batch_size=4)
        trained = weights.read(output)
        kernel = trained.weights["heads/embedding/kernel"]
        assert 0 < np.abs(kernel - first).max() < 0.1
        weights.write(trained, f"{where}/back", Format.HUGGINGFACE)
        arrays = safetensors.numpy.load_file(f"{where}/back/2_Dense/model.safetensors")
        np.testing.assert_array_equal(arrays["linear.weight"], kernel.T)
        np.testing.assert_array_equal(make(f"{where}/back")(TEXTS), make(output)(TEXTS))
