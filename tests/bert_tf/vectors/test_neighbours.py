"""The nearest neighbours of texts, against all similarities at once."""

import json

import numpy as np
import pytest

from bert_tf.vectors import neighbours
from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from tests import commands
from tests.bert_tf.vectors.encoded import write_vectors

TEXTS = ["the small model", "a deep kernel", "the mask", "a deep kernel", "", "every shard"]


@pytest.mark.parametrize("count", [1, 4, 100])
@pytest.mark.parametrize("sizes", [(50,), (1, 30, 19), (10,) * 5])
def test_blocks_are_searched_like_the_whole(count, sizes):
    rng = np.random.default_rng(0)
    vectors = rng.integers(-2, 3, (50, 3)).astype(np.float32)  # with many that are as near
    vectors[7] = 0
    queries = rng.normal(0, 1, (6, 3)).astype(np.float32)
    queries[2], queries[3] = 0, vectors[11]
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
    cosines = queries @ vectors.T / lengths
    cosines /= np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-12)
    blocks = np.split(vectors, np.cumsum(sizes)[:-1])
    rows, found = neighbours.search(blocks, queries, count)
    wanted = -np.sort(-cosines, axis=1)[:, :count]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, rows, 1), found, atol=1e-6)
    # Those that are as near come in their order.
    assert rows[2].tolist() == list(range(min(count, 50)))
    assert all(len(set(row)) == min(count, 50) for row in rows.tolist())
    once, _ = neighbours.search([vectors], queries, count)
    assert {tuple(vectors[row]) for row in rows[3][:1]} == {
        tuple(vectors[row]) for row in once[3][:1]
    }


@pytest.fixture(scope="module")
def vectors(folders, tmp_path_factory):
    """Vectors of `TEXTS`, as a file and as a folder."""
    folder = tmp_path_factory.mktemp("vectors")
    found = {name: f"{folder}/{name}" for name in ("v.npy", "v")}
    settings = {"pooling": "max", "layers": (1, 2), "max_seq_length": 9}
    for output in found.values():
        write_vectors(folders["pretrained"], TEXTS, output, **settings)
    return found


@pytest.mark.parametrize("name", ["v.npy", "v"])
def test_a_text_is_its_own_nearest_neighbour(folders, vectors, name):
    queries = [TextExample("1", "", "a deep kernel"), TextExample("2", "", "every shard")]
    first, second = neighbours.find(folders["pretrained"], vectors[name], queries, 3)
    assert [(near.id, near.texts) for near in first.found[:2]] == [
        ("1", ("a deep kernel",)), ("3", ("a deep kernel",)),
    ]  # fmt: skip
    assert first.found[0].similarity == pytest.approx(1, abs=1e-5)
    assert second.query is queries[1] and second.found[0].id == "5"
    embedder = Embedder(
        folders["pretrained"], EmbeddingSettings(pooling="max", layers=(1, 2), max_seq_length=9)
    )
    made = embedder([*TEXTS, "every shard"])
    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    wanted = sorted((unit[:-1] @ unit[-1]).tolist(), reverse=True)[:3]
    np.testing.assert_allclose([near.similarity for near in second.found], wanted, atol=1e-5)


def test_queries_may_be_texts_and_pairs(folders, vectors):
    queries = [TextExample("1", "", "a deep kernel"), TextExample("2", "", "every", "shard")]
    found = list(neighbours.find(folders["pretrained"], vectors["v.npy"], queries, 1))
    (alone,) = neighbours.find(folders["pretrained"], vectors["v.npy"], queries[1:], 1)
    assert found[0].found[0].texts == ("a deep kernel",)
    assert found[1].found[0].id == alone.found[0].id


def test_another_model_is_reported(folders, vectors):
    queries = [TextExample("1", "", "x")]
    with pytest.raises(InputError, match=r"its vectors are of another model than .*/joint; name"):
        list(neighbours.find(folders["mood"], vectors["v.npy"], queries, 3))


def _flags(folders, vectors, *others):
    return (
        "neighbours", f"--model={folders['pretrained']}", f"--vectors={vectors['v.npy']}", *others,
    )  # fmt: skip


def test_neighbours_are_printed(folders, vectors):
    queries = ("--query=a deep kernel", "--query=every shard")
    lines = commands.done(*_flags(folders, vectors, *queries, "--count=2")).stdout.splitlines()
    assert lines[0] == "a deep kernel" and lines[3] == "every shard" and len(lines) == 6
    assert lines[1].split(maxsplit=3) == ["1", "1.0000", "1", "a deep kernel"]
    assert lines[2].split(maxsplit=3) == ["2", "1.0000", "3", "a deep kernel"]
    assert lines[4].split(maxsplit=3) == ["1", "1.0000", "5", "every shard"]


def test_neighbours_of_a_file_are_printed_as_json(folders, vectors, tmp_path):
    (tmp_path / "q.csv").write_text("n,ask\n1,the mask\n2,every shard\n")
    flags = (f"--queries={tmp_path}/q.csv", "--columns=text=ask", "--json", "--count=1")
    lines = commands.done(*_flags(folders, vectors, *flags)).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["query"] for one in found] == [{"text": "the mask"}, {"text": "every shard"}]
    (near,) = found[0]["neighbours"]
    assert near == {
        "rank": 1,
        "similarity": pytest.approx(1, abs=1e-5),
        "id": "2",
        "text": "the mask",
    }


def test_a_query_is_needed_and_the_files_that_embed_wrote(folders, vectors, tmp_path):
    flags = _flags(folders, vectors)
    assert "name either one or more texts with --query, or a file" in commands.error(*flags)
    both = commands.error(*flags, "--query=x", "--queries=y")
    assert "name either one or more texts" in both
    gone = commands.error(*flags[:2], f"--vectors={tmp_path}/gone.npy", "--query=x")
    assert (
        "gone.npy.json: no such file, which belongs to the vectors; name a file or folder" in gone
    )
    assert "--count" in commands.error(*flags, "--query=x", "--count=0")
