"""First word embeddings from counts of neighbours, so that training need not begin at random ones.

The pointwise mutual information of two tokens says how much more often they are neighbours than
chance would make them. Vectors of skip-grams factorize it (Levy and Goldberg 2014, "Neural word
embedding as implicit matrix factorization"); a singular value decomposition does so in a second.
docs/guides/recipes.md has what they are worth, and what wider neighbourhoods are.
"""

import hashlib

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from bert_tf.objectives.base import PretrainingObjective
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader
from pipelines.pretraining.example_reader import ExampleFiles
from pipelines.tokenizers.base import Tokenizer

_EXAMPLES = 120_000
_TOKENS = 1 << 18  # are counted at a time
# Contexts count by their frequency to this power, so that rare ones weigh less (Levy et al. 2015).
_SMOOTHING = 0.75


def place(
    model: PretrainingObjective, examples: ExampleFiles, tokenizer: Tokenizer, seed: int
) -> str:
    """Initializes the word embeddings of a model; tokens without neighbours keep their random ones.

    Args:
      model: its embeddings get the size that the configuration's `initializer_range` gives.
      examples: of training; the first 120,000 in the order of the run are counted.
      tokenizer: of the examples.
      seed: of the run.

    Returns:
      A checksum of the embeddings, which differ where machines round differently.

    Raises:
      InputError: the model has no word embeddings.
    """
    table = getattr(model.encoder, "word_embeddings", None)
    if table is None:
        raise InputError(
            f"--pmi_embeddings: a model of model_type {model.config.model_type!r} has no word "
            "embeddings; leave it out."
        )
    vectors = factorize(count_neighbours(examples, tokenizer, seed), table.shape[1])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    (known,) = np.nonzero(norms[:, 0] > 1e-6)
    size = model.config.initializer_range * vectors.shape[1] ** 0.5
    values = np.array(table)
    values[known, : vectors.shape[1]] = size * vectors[known] / norms[known]
    table.assign(values)
    return hashlib.sha256(values.tobytes()).hexdigest()


def count_neighbours(examples: ExampleFiles, tokenizer: Tokenizer, seed: int) -> sparse.csr_matrix:
    """How often each token (row) stands before each other one (column) [vocab_size, vocab_size].

    Special tokens are not counted.
    """
    size = len(tokenizer.vocabulary)
    counts = sparse.csr_matrix((size, size))
    size_of_batch = max(1, _TOKENS // examples.max_seq_length)
    batches = -(-min(_EXAMPLES, examples.total) // size_of_batch)  # the last one may repeat some
    reader = example_reader.training_batches(examples, size_of_batch, seed).take(batches)
    for batch in reader.as_numpy_iterator():
        tokens = example_reader.original_tokens(batch)
        pairs = example_reader.neighbours(tokens, tokenizer.special_ids)
        counts += sparse.csr_matrix((np.ones(len(pairs[0])), pairs), counts.shape)
    return counts


def factorize(counts: sparse.csr_matrix, width: int) -> np.ndarray:
    """Vectors of the tokens by what stands before and after them.

    Contexts to the left and to the right are columns of their own: together, as in word2vec, they
    lose the order, and next to each other a model learns more from them (`recipes.md`).

    Args:
      counts: how often a row's token stands before a column's [vocab_size, vocab_size].
      width: number of factors.

    Returns:
      float32 [vocab_size, min(width, vocab_size)]; zeros for tokens without neighbours.
    """
    after, before = _positive_information(counts), _positive_information(counts.T)
    both = sparse.hstack([after, before]).tocsr().astype(np.float32)
    width = min(width, counts.shape[0])
    vectors, values, _ = randomized_svd(both, width, n_iter=2, random_state=0)
    return vectors * np.sqrt(values)


def _positive_information(counts: sparse.spmatrix) -> sparse.csr_matrix:
    """max(0, log(p(token, context) / (p(token) p(context)))) of tokens (rows) and contexts."""
    contexts = np.asarray(counts.sum(0)).ravel() ** _SMOOTHING
    contexts /= max(1.0, contexts.sum())
    tokens = np.asarray(counts.sum(1)).ravel()
    pairs = counts.tocoo()
    information = np.log(pairs.data / (tokens[pairs.row] * contexts[pairs.col]))
    positive = np.maximum(information, 0.0)
    return sparse.csr_matrix((positive, (pairs.row, pairs.col)), counts.shape)
