"""Prompts, `truncate_dim` and the similarity of models of sentence-transformers."""

import json
import os

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.export import saved_model, sources
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.answers import RequestLimits
from bert_tf.serving.server.faults import RefusalError
from bert_tf.serving.server.openai import EmbeddingsRequest
from bert_tf.vectors import neighbours
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from tests.bert_tf import labelled_data
from tests.bert_tf.vectors.encoded import TEXTS, make, write_vectors
from tests.bert_tf.vectors.sentence_models import DENSE, PROMPTED, change, write_pairs


@pytest.mark.more
def test_prompts_begin_texts(sentence_model):
    plain = make(sentence_model())
    folder = sentence_model(others=PROMPTED)
    for prompt, text in ((None, "naïve: "), ("query", "query: "), ("none", "")):
        embedder = make(folder, prompt=prompt)
        np.testing.assert_array_equal(embedder(TEXTS), plain([text + each for each in TEXTS]))
        assert embedder.settings.prefix == text
    pairs = make(folder)(["a"], ["the mask"])
    np.testing.assert_array_equal(pairs, plain(["naïve: a"], ["the mask"]))
    np.testing.assert_array_equal(make(folder, pooling="mean")(TEXTS), plain(TEXTS))
    with pytest.raises(InputError, match="--prompt=doc: .* has the prompts query, passage, none"):
        make(folder, prompt="doc")
    change(f"{folder}/1_Pooling/config.json", include_prompt=False)
    with pytest.raises(InputError, match="include_prompt is false; tokens of prompts"):
        make(folder)


@pytest.mark.more
def test_queries_may_have_another_prompt_than_vectors(sentence_model, tmp_path):
    folder, output = sentence_model(others=PROMPTED), f"{tmp_path}/vectors.npy"
    write_vectors(folder, TEXTS[:3], output)
    asked = [TextExample("", "", "short")]
    rows = make(sentence_model())
    vectors = rows([f"naïve: {text}" for text in TEXTS[:3]])
    for prompt, text in ((None, "naïve: short"), ("query", "query: short"), ("none", "short")):
        (found,) = neighbours.find(folder, output, asked, 3, prompt=prompt)
        (query,) = rows([text])
        cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        near = {int(each.id): each.similarity for each in found.found}
        np.testing.assert_allclose([near[row] for row in range(3)], cosines, atol=1e-5)
    with pytest.raises(InputError, match="--prompt=doc: "):
        next(neighbours.find(folder, output, asked, 3, prompt="doc"))


@pytest.mark.more
def test_a_default_prompt_is_part_of_the_signature(sentence_model, tmp_path):
    folder = sentence_model(others=PROMPTED | {"default_prompt_name": "query"})
    saved_model.export(sources.find([f"embedding={folder}"]), f"{tmp_path}/export")
    predictor = Predictor(f"{tmp_path}/export", engine="tensorflow")
    texts = [*TEXTS, "naïve"]  # not only those that are tokenized without TensorFlow
    found = predictor("embedding", text=texts)["embedding"]
    np.testing.assert_allclose(found, make(folder)(texts), atol=1e-5)
    found = predictor("embedding_unprompted", text=texts)["embedding"]
    np.testing.assert_allclose(found, make(folder, prompt="none")(texts), atol=1e-5)
    assert predictor.task().request_signature == "embedding_unprompted"
    manifest = predictor.manifest
    predictor.close()

    def parsed(**body):
        encoded, limits = (
            json.dumps({"input": TEXTS[:2], **body}).encode(),
            RequestLimits(8, 1000, 1, 1),
        )
        request = EmbeddingsRequest(encoded, limits, lambda _: ("bert", manifest))
        return request.parse().signature, request.inputs(["text"])["text"]

    assert parsed() == ("embedding", TEXTS[:2])
    prompted = [f"naïve: {text}" for text in TEXTS[:2]]
    assert parsed(prompt_name="passage") == ("embedding_unprompted", prompted)
    with pytest.raises(RefusalError, match="'x'; the prompts of this model are query, passage"):
        parsed(prompt_name="x")


@pytest.mark.more
def test_training_adds_no_prompt_and_keeps_them(sentence_model, tmp_path):
    folder = sentence_model(others=PROMPTED)
    plain, output = (
        labelled_data.tune(place, path, "embedding", write_pairs, epochs=1.0, batch_size=4)[1]
        for place, path in ((tmp_path / "a", sentence_model(length=48)), (tmp_path / "b", folder))
        if place.mkdir() is None
    )
    prompted = make(output)
    assert prompted.settings.prefix == "naïve: "
    np.testing.assert_array_equal(make(output, prompt="none")(TEXTS), make(plain)(TEXTS))
    weights.write(weights.read(output), f"{tmp_path}/back", Format.HUGGINGFACE)
    os.remove(f"{tmp_path}/back/tasks.json")
    np.testing.assert_array_equal(make(f"{tmp_path}/back")(TEXTS), prompted(TEXTS))


@pytest.mark.more_cases
@pytest.mark.parametrize("modules", [("Transformer", "Pooling", "Normalize"), DENSE], ids=len)
def test_vectors_are_cut_before_they_are_normalized(sentence_model, modules, tmp_path):
    folder = sentence_model(modules=modules, others={"truncate_dim": 5})
    wanted = make(folder, truncate_dim=12, normalize=False)(TEXTS)[:, :5]
    if "Normalize" in modules:
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    embedder = make(folder)
    assert embedder.width == 5
    np.testing.assert_allclose(embedder(TEXTS), wanted, atol=1e-6)
    assert make(folder, truncate_dim=2)(TEXTS).shape[1] == 2
    assert make(folder, pooling="mean").width == 32
    with pytest.raises(InputError, match="--truncate_dim=33: vectors of .* have (32|12) dim"):
        make(folder, truncate_dim=33)
    saved_model.export(sources.find([f"embedding={folder}"]), f"{tmp_path}/export")
    predictor = Predictor(f"{tmp_path}/export", engine="tensorflow")
    np.testing.assert_allclose(predictor(text=TEXTS)["embedding"], wanted, atol=1e-5)
    predictor.close()
    weights.write(weights.read(folder), f"{tmp_path}/back", Format.HUGGINGFACE)
    os.remove(f"{tmp_path}/back/tasks.json")
    np.testing.assert_array_equal(make(f"{tmp_path}/back")(TEXTS), embedder(TEXTS))


@pytest.mark.more_cases
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("indexed", [False, True])
def test_vectors_are_compared_as_the_model_states(sentence_model, similarity, indexed, tmp_path):
    folder = sentence_model(others={"similarity_fn_name": similarity})
    output = f"{tmp_path}/vectors.npy"
    write_vectors(folder, TEXTS, output)
    asked = [TextExample("", "", "short")]
    (found,) = neighbours.find(folder, output, asked, len(TEXTS), indexed)
    vectors, (query,) = make(folder)(TEXTS), make(folder)(["short"])
    wanted = vectors @ query
    if similarity == "cosine":
        wanted /= np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    ids = [int(near.id) for near in found.found]
    assert sorted(ids) == list(range(len(TEXTS)))
    # Equal vectors, of the empty texts, are in the order that rounding gives them.
    np.testing.assert_allclose(wanted[ids], -np.sort(-wanted), rtol=1e-5)
    np.testing.assert_allclose([near.similarity for near in found.found], wanted[ids], rtol=1e-5)
    weights.write(weights.read(folder), f"{tmp_path}/back", Format.HUGGINGFACE)
    os.remove(f"{tmp_path}/back/tasks.json")
    assert make(f"{tmp_path}/back").settings.similarity == similarity
