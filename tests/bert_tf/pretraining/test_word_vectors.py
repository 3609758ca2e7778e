"""Word vectors from counts of neighbours."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from bert_tf.pretraining import word_vectors
from pipelines.pretraining import example_folder, example_reader
from pipelines.tokenizers import registry


@pytest.fixture
def examples(tfrecords):
    folder = str(tfrecords)
    manifest = example_folder.read_manifest(folder)
    vocabulary = example_folder.read_vocabulary(folder)
    tokenizer = registry.make(vocabulary, manifest["tokenizer"], folder)
    return example_reader.open_examples(folder), tokenizer


def test_neighbours_are_those_of_the_texts_before_masking(examples, monkeypatch):
    files, tokenizer = examples
    # A divisor, so that the endless order of training gives each example once.
    divisor = next(size for size in range(500, 0, -1) if files.total % size == 0)
    monkeypatch.setattr(word_vectors, "_TOKENS", divisor * files.max_seq_length)
    found = word_vectors.count_neighbours(files, tokenizer, seed=1)
    expected = np.zeros(found.shape)
    for batch in example_reader.evaluation_batches(files, 7).as_numpy_iterator():
        for row, ids in enumerate(batch["input_word_ids"]):
            tokens = list(ids)
            for slot, weight in enumerate(batch["masked_lm_weights"][row]):
                if weight:
                    position = batch["masked_lm_positions"][row, slot]
                    tokens[position] = batch["masked_lm_ids"][row, slot]
            tokens = tokens[: batch["input_mask"][row].sum()]
            for left, right in itertools.pairwise(tokens):
                if not {left, right} & set(tokenizer.special_ids):
                    expected[left, right] += 1
    assert expected.sum() > 1000
    np.testing.assert_array_equal(found.toarray(), expected)


def test_tokens_of_noised_texts_are_those_of_the_original():
    batch = {
        "input_word_ids": np.array([[1, 2, 4, 5, 0]]),
        "input_mask": np.array([[1, 1, 1, 1, 0]]),
        "target_word_ids": np.array([[1, 2, 3, 4, 5, 0]]),
        "target_mask": np.array([[1, 1, 1, 1, 1, 0]]),
    }
    assert example_reader.original_tokens(batch).tolist() == [[1, 2, 3, 4, 5, -1]]


def test_factors_give_back_the_positive_mutual_information():
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, (12, 12)) * rng.integers(0, 2, (12, 12))
    counts[:, 5] = counts[5] = 0  # a token without neighbours
    contexts = counts.sum(0) ** 0.75 / (counts.sum(0) ** 0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(counts / counts.sum(1, keepdims=True) / contexts)
    expected = np.where(counts > 0, np.maximum(expected, 0), 0)
    found = word_vectors._positive_information(sparse.csr_matrix(counts))
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)
    both = np.hstack(
        [expected, word_vectors._positive_information(sparse.csr_matrix(counts.T)).toarray()]
    )
    vectors = word_vectors.factorize(sparse.csr_matrix(counts), 12)
    assert np.abs(vectors[5]).max() < 1e-5
    # vectors = U sqrt(S), so their products are those of U S U^T, the root of both @ both^T.
    products = vectors @ vectors.T
    np.testing.assert_allclose(products @ products, both @ both.T, rtol=1e-4, atol=1e-4)


def test_tokens_in_the_same_places_have_near_vectors():
    """Two cities follow "in" and two names precede "said"; which of the two is chance."""
    words = ["in", "paris", "rome", "anna", "otto", "said", "we", "met"]
    rng = np.random.default_rng(0)
    counts = np.zeros((8, 8))
    for _ in range(500):
        city, name = rng.choice(["paris", "rome"]), rng.choice(["anna", "otto"])
        for text in (f"we met in {city} we", f"we met {name} said we"):
            ids = [words.index(word) for word in text.split()]
            np.add.at(counts, (ids[:-1], ids[1:]), 1)
    vectors = word_vectors.factorize(sparse.csr_matrix(counts), 4)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    assert alike[1, 2] > 0.95 and alike[3, 4] > 0.95
    assert alike[1:3, 3:5].max() < 0.5
