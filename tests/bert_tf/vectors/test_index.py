"""The index of a file of vectors, against the exhaustive search."""

import os
import shutil
import sys

import numpy as np
import pytest

from bert_tf.vectors import neighbours
from bert_tf.vectors.index import VectorIndex
from bert_tf.vectors.vector_file import VectorFile
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from tests import commands
from tests.bert_tf.vectors.encoded import write_vectors

WORDS = "a the small deep model kernel mask shard every token loss layer".split()
ROWS = 1500


def _texts(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(count)]


@pytest.fixture
def vectors(folders, tmp_path):
    """A file of vectors."""
    write_vectors(folders["pretrained"], _texts(0, ROWS), f"{tmp_path}/v.npy")
    return f"{tmp_path}/v.npy"


def test_most_neighbours_are_found(folders, vectors):
    queries = [TextExample(str(n), "", text) for n, text in enumerate(_texts(1, 40))]
    found, wanted = (
        list(neighbours.find(folders["pretrained"], vectors, queries, 10, indexed))
        for indexed in (True, False)
    )
    shared = 0
    for one, other in zip(found, wanted, strict=True):
        known = {near.id: near for near in other.found}
        assert one.query is other.query
        assert one.found == sorted(one.found, key=lambda near: -near.similarity)
        for near in one.found:
            if near.id in known:
                shared += 1
                assert near.texts == known[near.id].texts
                assert near.similarity == pytest.approx(known[near.id].similarity, abs=1e-5)
    assert shared > 0.5 * 400  # a row in 16 is compared; of unrelated vectors it would be 25


@pytest.mark.more
def test_an_index_of_other_vectors_is_made_again(folders, vectors, tmp_path):
    """As many of the same width, or fewer, with the note of the right one."""
    text = _texts(0, ROWS)[700]
    query = [TextExample("1", "", text)]
    for seed, count in ((5, ROWS), (6, 100)):
        (before,) = neighbours.find(folders["pretrained"], vectors, query, 3, True)
        other = f"{tmp_path}/{count}.npy"
        write_vectors(folders["pretrained"], _texts(seed, count), other)
        list(neighbours.find(folders["pretrained"], other, query, 3, True))
        shutil.copy(f"{other}.faiss", f"{vectors}.faiss")
        (found,) = neighbours.find(folders["pretrained"], vectors, query, 3, True)
        assert found.found == before.found and found.found[0].texts == (text,)


def test_a_text_finds_itself(folders, vectors):
    text = _texts(0, ROWS)[700]
    (found,) = neighbours.find(
        folders["pretrained"], vectors, [TextExample("1", "", text)], 3, True
    )
    assert found.found[0].texts == (text,)
    assert found.found[0].similarity == pytest.approx(1, abs=1e-5)


def test_it_is_made_once_and_again_for_other_vectors(folders, vectors, tmp_path):
    VectorIndex(VectorFile(vectors))
    made = (tmp_path / "v.npy.faiss").stat().st_mtime_ns
    VectorIndex(VectorFile(vectors))
    assert (tmp_path / "v.npy.faiss").stat().st_mtime_ns == made
    for path in tmp_path.glob("v.npy*"):
        if "faiss" not in path.name:
            path.unlink()
    write_vectors(folders["pretrained"], ["one mask", "the mask"], vectors)
    # The file has fewer rows than are asked for.
    rows, similarities = VectorIndex(VectorFile(vectors)).search(np.ones([1, 32], np.float32), 3)
    assert sorted(rows[0].tolist()) == [-1, 0, 1]
    assert np.isfinite(similarities[0, :2]).all()


def test_cells_without_rows_hide_no_neighbours(folders, tmp_path):
    """Of many copies of a few texts, most cells are empty."""
    path = f"{tmp_path}/v.npy"
    write_vectors(folders["pretrained"], ["the mask", "a kernel", "the model"] * 3000, path)
    index = VectorIndex(VectorFile(path))
    queries = np.random.default_rng(0).normal(size=[50, 32]).astype(np.float32)
    rows, similarities = index.search(queries, 4000)
    assert (rows >= 0).all()
    assert (np.diff(similarities) <= 1e-6).all()


def test_a_damaged_index_is_reported(vectors):
    VectorIndex(VectorFile(vectors))
    os.truncate(f"{vectors}.faiss", 100_000)
    with pytest.raises(InputError, match=r"v\.npy\.faiss: cannot be .* read .* made again"):
        VectorIndex(VectorFile(vectors))


def test_a_missing_package_is_reported(folders, vectors, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"faiss is not installed.*bert-tf\[index\]"):
        VectorIndex(VectorFile(vectors))


def test_the_command_searches_the_index(folders, vectors):
    text = _texts(0, ROWS)[700]
    done = commands.done(
        "neighbours", f"--model={folders['pretrained']}", f"--vectors={vectors}",
        f"--query={text}", "--count=2", "--index",
    )  # fmt: skip
    assert "made once, of 1500 vectors" in done.stderr
    assert done.stdout.splitlines()[1].split(maxsplit=2)[1] == "1.0000"
