"""Small data that the tests make themselves."""

import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

from pipelines import corpus, example_writer, examples, vocabulary, word_counts

NOUNS = [
    "model",
    "layer",
    "token",
    "mask",
    "sentence",
    "vector",
    "kernel",
    "bias",
    "head",
    "shard",
    "record",
    "step",
]
VERBS = ["reads", "writes", "trains", "masks", "shuffles", "encodes", "predicts", "stores"]
ADJECTIVES = ["small", "large", "random", "hidden", "whole", "short", "deep"]


def make_documents(count: int, seed: int = 0) -> list[list[str]]:
    """Documents of sentences of a small grammar; each keeps to a few nouns of its own."""
    rng = random.Random(seed)
    documents = []
    for _ in range(count):
        nouns = rng.sample(NOUNS, 4)
        documents.append(
            [
                f"The {rng.choice(ADJECTIVES)} {rng.choice(nouns)} {rng.choice(VERBS)} "
                f"every {rng.choice(nouns)} of the {rng.choice(nouns)}."
                for _ in range(rng.randint(4, 20))
            ]
        )
    return documents


def write_documents(path, documents: list[list[str]]) -> str:
    """Writes documents in the reference format."""
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n", "utf-8")
    return str(path)


@pytest.fixture(scope="session")
def corpus_path(tmp_path_factory) -> str:
    """A corpus of 300 documents."""
    return write_documents(tmp_path_factory.mktemp("corpus") / "corpus.txt", make_documents(300))


@pytest.fixture(scope="session")
def vocab_path(tmp_path_factory, corpus_path) -> str:
    """An uncased vocabulary of 160 tokens, some of them pieces."""
    words = word_counts.count_words(
        corpus.open_corpus(corpus_path),
        corpus.ReadOptions(),
        lower_case=True,
        strip_accents=None,
        sample_bytes=1 << 30,
        seed=0,
    )
    path = str(tmp_path_factory.mktemp("vocab") / "vocab.txt")
    vocabulary.save(vocabulary.learn(words, 100), path)
    return path


@pytest.fixture(scope="session")
def tfrecords(tmp_path_factory, corpus_path, vocab_path) -> str:
    """Examples of length 32, some held out."""
    output = str(tmp_path_factory.mktemp("tfrecords") / "pretraining")
    settings = examples.ExampleSettings(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=3, held_out_fraction=0.1
    )
    request = example_writer.Request(corpus_path, vocab_path, output, settings)
    example_writer.write(request, worker_count=1)
    return output
