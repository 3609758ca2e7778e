"""Small data that the tests make themselves."""

import fcntl
import functools
import gc
import os
import pathlib
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import hypothesis
import pytest

from pipelines.common.runners import LocalRunner
from pipelines.corpus import reader
from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers import learning, wordpiece, wordpiece_vocabulary

# Profiles of the property tests: the same few examples each time; or many, others each time, of
# which a failing one is printed and kept in .hypothesis for the next run.
hypothesis.settings.register_profile(
    "tests", max_examples=20, deadline=None, derandomize=True, database=None
)
hypothesis.settings.register_profile(
    "soak",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

NOUNS = "model layer token mask sentence vector kernel bias head shard record step".split()
VERBS = "reads writes trains masks shuffles encodes predicts stores".split()
ADJECTIVES = "small large random hidden whole short deep".split()


# The files that take longest come first, so that no process is left with one of them at the end.
_LONGEST = (
    *("test_lost_workers", "test_resumption", "test_golden", "test_starts", "test_distribution"),
    *("test_engines", "test_portable", "test_wordpiece", "test_pretrain", "test_finetuning_runs"),
    *("test_finetune", "test_signatures", "test_server", "test_export", "test_loop"),
)


def pytest_collection_modifyitems(items):
    """Leaves later cases of `more_cases` to make test-more; sorts by how long files take."""
    seen = set()
    for item in items:
        function = item.nodeid.split("[")[0]
        if function in seen and item.get_closest_marker("more_cases"):
            item.add_marker("more")
        seen.add(function)
    order = {f"{name}.py": index for index, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="module", autouse=True)
def short_collections():
    """Lets the garbage collector pass over what earlier files have left, which is a million objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


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


def made_once(tmp_path_factory, name: str, make) -> str:
    """A folder that all processes of a test run share: the first one that wants it makes it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, finished = root / f"shared-{name}", root / f"shared-{name}.finished"
    with open(root / f"shared-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            folder.mkdir()
            make(str(folder))
            finished.touch()
    return str(folder)


def learn_vocabulary(corpus: str, path: str, tokens: int) -> None:
    """Learns an uncased WordPiece vocabulary of about `tokens` tokens and writes it."""
    words = learning.count_words(
        reader.open_corpus(corpus),
        reader.ReadOptions(),
        functools.partial(wordpiece.split_words, lower_case=True, strip_accents=True),
        sample_bytes=1 << 30,
        seed=0,
    )
    wordpiece_vocabulary.WordPieceVocabulary.learn(words, tokens).write(path)


@pytest.fixture(scope="session")
def corpus_path(tmp_path_factory) -> str:
    """A corpus of 300 documents."""

    def make(folder):
        write_documents(pathlib.Path(folder, "corpus.txt"), make_documents(300))

    return f"{made_once(tmp_path_factory, 'corpus', make)}/corpus.txt"


@pytest.fixture(scope="session")
def vocab_path(tmp_path_factory, corpus_path) -> str:
    """An uncased vocabulary of 160 tokens, some of them pieces."""

    def make(folder):
        learn_vocabulary(corpus_path, f"{folder}/vocab.txt", 100)

    return f"{made_once(tmp_path_factory, 'vocab', make)}/vocab.txt"


@pytest.fixture(scope="session")
def tfrecords(tmp_path_factory, corpus_path, vocab_path) -> str:
    """Examples of length 32, some held out."""
    settings = ExampleSettings(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=3, held_out_fraction=0.1
    )

    def make(folder):
        output = f"{folder}/pretraining"
        request = example_writer.ExampleRequest(corpus_path, vocab_path, output, settings)
        example_writer.write(request, LocalRunner(1))

    return f"{made_once(tmp_path_factory, 'tfrecords', make)}/pretraining"
