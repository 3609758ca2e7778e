"""Embeddings: losses, retrieval, and files of texts that are alike."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks
from bert_tf.tasks.embedding import losses, retrieval
from bert_tf.tasks.embedding.task import TextVectors
from pipelines.common.errors import InputError
from pipelines.labelled import embedding_files
from pipelines.labelled.schema import EmbeddingExample
from pipelines.labelled.source import Source
from tests import peers

RNG = np.random.default_rng(1)
VECTORS = RNG.normal(size=(6, 3, 8)).astype(np.float32)
ALL = np.ones(6, np.float32)
DIFFERENT = tf.reshape(tf.range(18), [6, 3])


def normalized(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_ranking_is_a_softmax_over_all_texts_of_the_batch():
    found = losses.ranking(tf.constant(VECTORS), DIFFERENT, tf.constant(ALL)).numpy()
    unit = normalized(VECTORS)
    others = np.concatenate([unit[:, 1], unit[:, 2]])
    logits = 20 * unit[:, 0] @ others.T
    wanted = np.log(np.exp(logits).sum(-1)) - logits[np.arange(6), np.arange(6)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    # Rows 0 and 2 have the same second text, 3 and 4 the same first one; the third text of row 1 is
    # the second of row 5, and the second of row 4 the first of row 1.
    ids = DIFFERENT.numpy()
    ids[2, 1], ids[4, 0], ids[1, 2], ids[4, 1] = ids[0, 1], ids[3, 0], ids[5, 1], ids[1, 0]
    found = losses.ranking(tf.constant(VECTORS), tf.constant(ids), tf.constant(ALL)).numpy()
    logits[[0, 2, 3, 4, 5, 1], [2, 0, 4, 3, 6 + 1, 4]] = -np.inf
    wanted = np.log(np.exp(logits).sum(-1)) - logits[np.arange(6), np.arange(6)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("loss", ["ranking", "triplet"])
def test_rows_that_fill_up_a_batch_change_nothing(loss):
    def of(vectors, present):
        ids = np.array([0, 1, 0, 1, 1, 0]) if loss == "triplet" else DIFFERENT.numpy()
        ids = np.concatenate([ids, np.zeros((len(vectors) - 6, *ids.shape[1:]), ids.dtype)])
        return getattr(losses, loss)(tf.constant(vectors), ids, tf.constant(present)).numpy()[:6]

    filled = np.concatenate([VECTORS, np.zeros((2, 3, 8), np.float32)])
    present = np.concatenate([ALL, np.zeros(2, np.float32)])
    np.testing.assert_allclose(of(filled, present), of(VECTORS, ALL), rtol=1e-5)


def test_triplets_are_the_hardest_ones():
    classes = np.array([0, 1, 0, 1, 1, 0])
    points = VECTORS[:, 0]
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    same = classes[:, None] == classes
    hardest = np.where(same, distances, 0).max(-1) - np.where(same, np.inf, distances).min(-1)
    found = losses.triplet(tf.constant(VECTORS), tf.constant(classes), tf.constant(ALL))
    np.testing.assert_allclose(found, np.log1p(np.exp(hardest)), rtol=1e-4)


@pytest.mark.parametrize("normalize", [True, False])
def test_distances_are_those_of_the_vectors_that_the_model_makes(normalize):
    """A model that normalizes its vectors is trained on these."""
    examples = [EmbeddingExample(str(n), "", (str(n),), label) for n, label in enumerate("ababba")]
    task = dataclasses.replace(tasks.make("embedding").fit(examples), normalize=normalize)
    classes = tf.constant([0, 1, 0, 1, 1, 0])
    batch = {"labels": classes, "weights": tf.constant(ALL)}
    points = normalized(VECTORS[:, :1]) if normalize else VECTORS[:, :1]
    wanted = losses.triplet(tf.constant(points), classes, tf.constant(ALL))
    np.testing.assert_allclose(task.losses(tf.constant(VECTORS[:, :1]), batch), wanted, rtol=1e-5)


@pytest.mark.parametrize("texts", [("one", "two"), ("one",)])
def test_texts_that_have_no_other_to_be_found_among_are_reported(texts):
    examples = [EmbeddingExample("1", "pairs.tsv: line 1", texts, None)] * 3
    with pytest.raises(InputError, match="pairs.tsv: every row has the text '(one|two)'; each"):
        tasks.make("embedding").fit(examples)
    with_negative = [EmbeddingExample("1", "pairs.tsv: line 1", ("one", "two", "three"), None)] * 3
    assert tasks.make("embedding").fit(with_negative).least_rows == 1


def test_similarity_is_the_squared_error_of_the_cosine():
    wanted = np.linspace(0, 1, 6, dtype=np.float32)
    cosines = (normalized(VECTORS[:, 0]) * normalized(VECTORS[:, 1])).sum(-1)
    found = losses.similarity(tf.constant(VECTORS), tf.constant(wanted))
    np.testing.assert_allclose(found, (cosines - wanted) ** 2, rtol=1e-4)


def of_scores(*scores):
    return [
        EmbeddingExample(str(i), f"x.tsv: line {i + 2}", (f"a {i}", f"b {i}"), score)
        for i, score in enumerate(scores)
    ]


def test_similarities_are_learned_as_they_are_given():
    examples = of_scores("0.25", "-0.5", "1")
    task = tasks.make("embedding").fit(examples)
    assert task._targets(examples).tolist() == [0.25, -0.5, 1.0]
    with pytest.raises(InputError, match=r"line 3: the similarity 3\.8 is not from -1 to 1.* 5"):
        task.fit(of_scores("0", "3.8"))
    with pytest.raises(InputError, match=r"line 2: the similarity 4 is"):
        task.check(of_scores("4"))


@pytest.mark.parametrize("form", ["pairs", "similarities", "classes"])
def test_the_loss_of_several_dimensions_is_the_sum(form):
    task = tasks.make("embedding", dimensions=(4, 2, 8)).restore(
        tasks.make("embedding").describe() | {"form": form, "dimensions": [4, 2, 8]}
    )
    labels = {
        "pairs": DIFFERENT,
        "similarities": tf.linspace(0.0, 1.0, 6),
        "classes": tf.constant([0, 1, 1, 2, 0, 2]),
    }[form]
    batch = {"labels": labels, "weights": tf.ones(6)}
    loss = {
        "pairs": losses.ranking,
        "similarities": lambda x, y, _: losses.similarity(x, y),
        "classes": losses.triplet,
    }[form]
    cut = [tf.constant(normalized(VECTORS[..., :n])) for n in (2, 4, 8)]
    expected = sum(loss(vectors, labels, batch["weights"]) for vectors in cut)
    np.testing.assert_allclose(task.losses(tf.constant(VECTORS), batch), expected, rtol=1e-5)


def test_retrieval_of_known_ranks():
    texts = np.eye(4, dtype=np.float32)
    queries = np.array([[1, 0, 0, 0], [0.5, 0.4, 0.3, 0]], np.float32)
    found = retrieval.scores(queries, texts, [[0], [1, 2]], [0, -1])
    ideal = 1 + 1 / np.log2(3)
    assert found["ndcg_10"] == pytest.approx((1 + (1 / np.log2(3) + 0.5) / ideal) / 2)
    assert found["recall_1"] == 0.5 and found["recall_10"] == 1
    assert found["mrr_10"] == pytest.approx((1 + 0.5) / 2)


def test_a_text_does_not_find_itself():
    task = tasks.make("embedding").restore(tasks.make("embedding").describe() | {"form": "pairs"})
    near = np.array([[1, 0, 0.1, 0], [1, 0, -0.1, 0], [0, 1, 0.1, 0], [0, 1, -0.1, 0]], np.float32)
    pairs = [(0, 1), (1, 0), (2, 3), (3, 2)]
    examples = [EmbeddingExample("x", "x", tuple("abcd"[i] for i in pair), "") for pair in pairs]
    predictions = [TextVectors(normalized(near[[*pair]])) for pair in pairs]
    assert task.metrics(examples, predictions)["recall_1"] == 1


def read(tmp_path, name, content, labelled=True):
    path = tmp_path / name
    path.write_text(content, "utf-8")
    return [(e.texts, e.label) for e in embedding_files.read(Source(str(path)), labelled)]


@pytest.mark.parametrize(
    "name,content,wanted",
    [
        ("x.txt", "one\ntwo\n", [(("one",), ""), (("two",), "")]),
        ("x.tsv", "anchor\tpositive\na\tb\n", [(("a", "b"), "")]),
        ("x.csv", "sent0,sent1,hard_neg\na,b,c\n", [(("a", "b"), "")]),
        ("x.csv", "sentence1,sentence2,score\na,b,2.5\n", [(("a", "b"), "2.5")]),
        ("x.csv", "text,label\na,x\nb,y\n", [(("a",), "x"), (("b",), "y")]),
        ("x.jsonl", json.dumps({"query": "a", "pos": "b", "neg": ["c", "d"]}), [(("a", "b", "c"),
         ""), (("a", "b", "d"), "")]),
    ],
)  # fmt: skip
def test_forms_of_files(tmp_path, name, content, wanted):
    assert read(tmp_path, name, content) == wanted


def test_texts_to_predict_have_no_label(tmp_path):
    assert read(tmp_path, "x.txt", "one\n", labelled=False) == [(("one",), None)]


def test_a_pair_with_a_class_is_reported(tmp_path):
    content = "premise\thypothesis\tlabel\na\tb\tentailment\n"
    with pytest.raises(InputError, match="line 2: the label 'entailment' of a pair is not a"):
        read(tmp_path, "x.tsv", content)


# Prints the losses of sentence-transformers for the vectors and labels of a file.
_PEER = """
import json, sys
import numpy as np, torch
from sentence_transformers import losses

data = np.load(sys.argv[1])
columns = [torch.tensor(data["vectors"][:, index]) for index in range(3)]
ranking = losses.MultipleNegativesRankingLoss(None)
similarity = losses.CosineSimilarityLoss(None)
triplet = losses.BatchHardSoftMarginTripletLoss(None)
print(json.dumps([
    float(ranking.compute_loss_from_embeddings(columns, None)),
    float(similarity.compute_loss_from_embeddings(columns[:2], torch.tensor(data["scores"]))),
    float(triplet.compute_loss_from_embeddings(columns[:1], torch.tensor(data["classes"]))),
]))
"""


@pytest.mark.slow
def test_losses_are_those_of_sentence_transformers(tmp_path):
    python = peers.python("sentence-transformers")
    vectors = RNG.normal(size=(64, 3, 32)).astype(np.float32)
    scores, classes = RNG.random(64, np.float32), RNG.integers(0, 5, 64)
    np.savez(tmp_path / "x.npz", vectors=vectors, scores=scores, classes=classes)
    wanted = json.loads(peers.output(python, "-c", _PEER, str(tmp_path / "x.npz")))
    x, there = tf.constant(vectors), tf.ones(64)
    found = [
        losses.ranking(x, tf.reshape(tf.range(192), [64, 3]), there),
        losses.similarity(x, tf.constant(scores)),
        losses.triplet(x, tf.constant(classes), there),
    ]
    np.testing.assert_allclose([np.mean(loss) for loss in found], wanted, rtol=1e-5)
