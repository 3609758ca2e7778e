"""Vectors of texts, against the encoder's outputs for each text alone."""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.export import sources
from bert_tf.vectors.extractor import Embedder, FeatureExtractor
from bert_tf.vectors.settings import EmbeddingSettings, FeatureSettings, Pooling
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from tests.bert_tf import exported
from tests.bert_tf.helpers import with_one_segment
from tests.bert_tf.vectors import encoded
from tests.bert_tf.vectors.encoded import TEXTS, alone, make

FORMULAS = {
    "mean": lambda layers, pooled: layers[2].mean(0),
    "max": lambda layers, pooled: layers[2].max(0),
    "cls": lambda layers, pooled: layers[2][0],
    "pooler": lambda layers, pooled: pooled,
}


@pytest.mark.more_cases
@pytest.mark.parametrize("pooling", Pooling)
def test_vectors_are_those_of_each_text_alone(folders, pooling):
    bundle = weights.read(folders["pretrained"])
    wanted = np.stack([FORMULAS[pooling](*alone(bundle, text)) for text in TEXTS])
    found = make(folders["pretrained"], pooling=pooling)(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    unit = make(folders["pretrained"], pooling=pooling, normalize=True)(TEXTS)
    np.testing.assert_allclose(
        unit, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-5
    )


@pytest.mark.more_cases
@pytest.mark.parametrize("layers", [(0,), (1,), (-2,), (-3,), (2, 0), (-1, 1, 1)])
def test_layers_are_of_choice_and_stand_side_by_side(folders, layers):
    bundle = weights.read(folders["pretrained"])
    embedder = make(folders["pretrained"], layers=layers)
    rows = []
    for text in TEXTS[:3]:
        outputs, _ = alone(bundle, text)
        rows.append(np.concatenate([outputs[layer].mean(0) for layer in layers]))
    np.testing.assert_allclose(embedder(TEXTS[:3]), rows, atol=1e-5)
    assert embedder.width == 32 * len(layers)
    assert all(0 <= layer <= 2 for layer in embedder.settings.layers)


def test_pairs_are_two_segments(folders):
    bundle = weights.read(folders["same"])
    first, second = ["the layer", "a token", ""], ["a mask", "", "short"]
    wanted = [alone(bundle, *pair)[0][-1].mean(0) for pair in zip(first, second, strict=True)]
    embedder = make(folders["same"])
    np.testing.assert_allclose(embedder(first, second), wanted, atol=1e-5)
    assert np.abs(embedder(first) - wanted).max() > 1e-2


def test_a_fine_tuned_model_embeds_with_its_encoder(folders):
    bundle = weights.read(folders["mood"])
    found = make(folders["mood"])(["the layer"])
    np.testing.assert_allclose(found[0], alone(bundle, "the layer")[0][-1].mean(0), atol=1e-5)


def test_an_export_gives_the_same(folders, predictor):
    texts = [text for text in TEXTS if text]
    answer = predictor("embed", text=texts)
    folder = folders["pretrained"]
    np.testing.assert_allclose(make(folder)(texts), answer["mean_output"], atol=1e-5)
    pooled = make(folder, pooling="pooler")(texts)
    np.testing.assert_allclose(pooled, answer["pooled_output"], atol=1e-5)
    with pytest.raises(InputError, match=r"bert/1: is an export. Name the folder of the model"):
        Embedder(predictor.path)
    with pytest.raises(InputError, match="is an export"):
        Embedder(os.path.dirname(predictor.path))


def test_neighbours_in_a_batch_change_nothing(folders):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["the", "layer", "mask"], rng.integers(0, 60))) for _ in range(80)]
    whole = make(folders["pretrained"])(texts)
    for tokens in (1, 100, 700):
        again = make(folders["pretrained"], batch_tokens=tokens)(texts)
        np.testing.assert_allclose(again, whole, atol=1e-5)
    np.testing.assert_array_equal(make(folders["pretrained"])(texts), whole)


def test_long_texts_are_cut(folders):
    found = make(folders["pretrained"], max_seq_length=8)(["the " * 6, "the " * 7, "the " * 20])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)
    assert make(folders["pretrained"]).max_seq_length == 48


def test_a_text_is_not_a_list_of_characters(folders):
    with pytest.raises(InputError, match="'It rained.': is one text; give a list of texts"):
        Embedder(folders["pretrained"])("It rained.")
    with pytest.raises(InputError, match="a dict of texts by name: give a list of texts"):
        Embedder(folders["pretrained"])({"text": ["It rained."]})
    with pytest.raises(InputError, match="'It rained.': is one text; give its words"):
        FeatureExtractor(folders["pretrained"], FeatureSettings()).of_words(["It rained."])


def test_what_is_not_a_text_is_refused(folders):
    embedder = make(folders["pretrained"])
    for call in (lambda: embedder(["a", None]), lambda: embedder(["a"], [1])):
        with pytest.raises(InputError, match="^(None|1): is not a text; give strings"):
            call()
    with pytest.raises(InputError, match="^1: is not a text"):
        embedder.extractor.of_words([["a", 1]])
    for texts in (tf.constant([["a", "b"]]), tf.constant("a"), np.array([["a"]])):
        with pytest.raises(InputError, match=r"^texts of the shape \(.*\): give a list of texts"):
            embedder(texts)
    with pytest.raises(InputError, match="^5: give a list of texts"):
        embedder(5)
    with pytest.raises(InputError, match="^'cd': is one text"):
        embedder(["a", "b"], "cd")
    with pytest.raises(InputError, match="^1: is not a text"):
        embedder(tf.constant([1, 2]))


@pytest.mark.parametrize("prefix", ["", "it is "])
def test_texts_may_be_of_python_numpy_or_tensorflow(folders, prefix):
    embedder = make(folders["pretrained"])
    settings = embedder.extractor.settings
    embedder.extractor.settings = dataclasses.replace(settings, prefix=prefix)
    wanted = embedder(["a", "b\ufffd"])
    forms = (
        [b"a", tf.constant(b"b\xff")], np.array(["a", "b\ufffd"]), ("a", "b\ud800"),
        tf.constant([b"a", b"b\xff"]), iter(["a", "b\ufffd"]),
    )  # fmt: skip
    for texts in forms:
        np.testing.assert_array_equal(embedder(texts), wanted)
    words = FeatureExtractor(folders["pretrained"], FeatureSettings(unit="word"))
    (row,) = words([b"a b"])
    for sentences in ([[b"a", "b"]], tf.constant([["a", "b"]])):
        (found,) = words.of_words(sentences)
        np.testing.assert_array_equal(found.values, row.values)


def test_no_texts_have_no_vectors(folders):
    assert make(folders["pretrained"])([]).shape == (0, 32)


def test_bfloat16_is_near(folders):
    exact = make(folders["pretrained"], normalize=True)(TEXTS)
    near = make(folders["pretrained"], normalize=True, precision="bfloat16")(TEXTS)
    assert near.dtype == np.float32
    assert 1e-6 < np.abs(near - exact).max() < 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"layers": (3,)},
            "--layers=3: .* has no such layer; they are 1 to 2, or -2 to -1, and 0 for",
        ),
        ({"layers": (1, -4)}, "--layers=-4: .* has no such layer"),
        ({"max_seq_length": 49}, r"--max_seq_length=49: .* takes at most 48 tokens"),
        ({"max_seq_length": 7}, "--max_seq_length=7: it must be a whole number, at least 8"),
        ({"pooling": "pooler", "layers": (1,)}, "--pooling=pooler is of the last layer"),
        ({"batch_tokens": 0}, "--batch_tokens=0: it must be a whole number, at least 1"),
        ({"pooling": "sum"}, "--pooling=sum: it must be one of mean, cls, pooler, max"),
        ({"precision": "float16"}, "--precision=float16: it must be one of float32, bfloat16"),
    ],
)
def test_settings_that_do_not_fit_are_reported(folders, settings, message):
    with pytest.raises(InputError, match=message):
        make(folders["pretrained"], **settings)


def _without(bundle, *groups, **options):
    kept = {k: v for k, v in bundle.weights.items() if not k.startswith(groups)}
    config = dataclasses.replace(bundle.config, **options)
    return dataclasses.replace(bundle, weights=kept, config=config)


@pytest.mark.parametrize(
    ("groups", "options"),
    [
        ((MASKED_LM, NEXT_SENTENCE, POOLER), {}),
        ((NEXT_SENTENCE,), {}),  # masked LM alone trains no pooler
        ((MASKED_LM, NEXT_SENTENCE, POOLER), {"pooler_act": None}),
    ],
)
def test_a_pooler_that_was_not_trained_is_refused(folders, tmp_path, groups, options):
    bundle = _without(weights.read(folders["pretrained"]), *groups, **options)
    weights.write(bundle, f"{tmp_path}/model", Format.BERT_TF)
    with pytest.raises(InputError, match="has no trained pooler; use --pooling=mean"):
        make(f"{tmp_path}/model", pooling="pooler")
    np.testing.assert_allclose(
        make(f"{tmp_path}/model")(TEXTS), make(folders["pretrained"])(TEXTS), atol=1e-6
    )


def test_pairs_need_a_second_segment(vocab_path, tmp_path):
    single = with_one_segment(exported.make_bundle(vocab_path, [], 0))
    weights.write(single, f"{tmp_path}/model", Format.BERT_TF)
    with pytest.raises(InputError, match="sequences of 2 segments, but the model's type_vocab_s"):
        Embedder(f"{tmp_path}/model")(["a"], ["b"])


def test_a_model_is_known_in_every_format(folders, tmp_path):
    bundle = weights.read(folders["pretrained"])
    weights.write(bundle, f"{tmp_path}/hf", Format.HUGGINGFACE)
    one, other = Embedder(folders["pretrained"]), Embedder(f"{tmp_path}/hf")
    assert one.extractor.identity() == other.extractor.identity()
    np.testing.assert_array_equal(one(TEXTS), other(TEXTS))
    json.dumps(one.extractor.identity())
    assert one.extractor.model != Embedder(folders["mood"]).extractor.model


def test_settings_come_back_from_their_description():
    settings = EmbeddingSettings(pooling="max", layers=(1, 2), max_seq_length=9, normalize=True)
    described = json.loads(json.dumps(settings.describe()))
    assert FeatureSettings.described(described).describe() == settings.describe()


@pytest.mark.slow
def test_vectors_are_those_of_transformers(tmp_path):
    """Mean and [CLS] pooling of a released sentence encoder, by the peer's hidden states."""
    folder = encoded.peer_folder()
    texts = ["It rained all day.", "Rain fell.", "A film about a dog, and nothing else.", ""]
    rows = encoded.peer_rows(weights.read(folder).tokenizer(), texts)
    mask, theirs = encoded.peer_outputs(tmp_path, folder, rows)
    states, pooled = theirs["last_hidden_state"], theirs["pooler_output"]
    means = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert np.abs(make(folder, normalize=True)(texts) - unit).max() < 1e-5
    assert np.abs(make(folder, pooling="cls")(texts) - states[:, 0]).max() < 1e-5
    assert np.abs(make(folder, pooling="pooler")(texts) - pooled).max() < 1e-5


def test_a_missing_weight_is_named(folders, monkeypatch):
    source = sources.read(folders["pretrained"])
    lacking = _without(source.bundle, "encoder/block_1/feed_forward/output/bias")
    lacking = dataclasses.replace(source, bundle=lacking)
    monkeypatch.setattr(sources, "read", lambda _: lacking)
    with pytest.raises(InputError, match="lacks the weight encoder/block_1/feed_forward/output/b"):
        Embedder(folders["pretrained"])
