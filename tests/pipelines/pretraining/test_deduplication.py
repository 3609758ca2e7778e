"""`--deduplicate`: a repeated document changes nothing but the counts."""

import dataclasses
import random

import pytest

from pipelines.common.errors import InputError
from pipelines.common.runners import LocalRunner
from pipelines.corpus import reader
from pipelines.pretraining import example_writer, section_files
from pipelines.pretraining.settings import ExampleSettings
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import cut_finely, digests

HERE = LocalRunner(1)
SETTINGS = ExampleSettings(
    max_seq_length=32,
    max_predictions_per_seq=5,
    dupe_factor=1,
    held_out_fraction=0.1,
    deduplicate=True,
)


@pytest.fixture(autouse=True)
def many_files(monkeypatch):
    cut_finely(monkeypatch, shard_tokens=1000, shard_sections=10)
    monkeypatch.setattr(example_writer, "_UNITS_PER_PART", 1000)
    monkeypatch.setattr(section_files, "_SLICE_UNITS", 300)


@pytest.fixture
def write(tmp_path, vocab_path):
    """Writes the examples of documents; returns the manifest, and the checksum of each file."""

    def written(name, documents, **changes):
        corpus = write_documents(tmp_path / f"{name}.txt", documents)
        settings = dataclasses.replace(SETTINGS, **changes)
        request = example_writer.ExampleRequest(corpus, vocab_path, f"{tmp_path}/{name}", settings)
        manifest = example_writer.write(request, HERE)
        return manifest, digests(tmp_path / name, "*.tfrecord")

    return written


def _repeated(documents):
    """The documents in another order, a third of them twice and one often, also in a row."""
    found = [*documents, *documents[::3], *documents[:1] * 50]
    random.Random(1).shuffle(found)
    return [*documents[1:2], *found]


def test_the_examples_are_those_of_the_distinct_documents(write):
    documents = make_documents(90)
    distinct, expected = write("distinct", documents)
    repeated, found = write("repeated", _repeated(documents))
    assert len(expected) > 4 and found == expected
    assert repeated["text"]["documents"] == 90 + 30 + 50 + 1
    assert repeated["text"]["duplicate_documents"] == 81
    assert distinct["text"]["duplicate_documents"] == 0
    for name in ("sentences", "tokens"):
        text = repeated["text"]
        assert text[name] - text[f"duplicate_{name}"] == distinct["text"][name]
    assert repeated["text"]["held_out_documents"] == 9


def test_without_the_flag_every_document_counts(write):
    documents = make_documents(90)
    manifest, found = write("all", _repeated(documents), deduplicate=False)
    assert "duplicate_documents" not in manifest["text"]
    assert manifest["text"]["held_out_documents"] == 17
    assert found != write("distinct", documents)[1]


def test_documents_that_differ_in_one_sentence_or_its_end_are_kept(write):
    documents = make_documents(40)
    longer = [[*document, "The token reads."] for document in documents]
    joined = [[" ".join(document)] for document in documents]
    manifest, _ = write("near", documents + longer + joined)
    assert manifest["text"]["duplicate_documents"] == 0


def test_long_documents_are_compared_in_all_their_sections(monkeypatch, write):
    """One document repeats a section of its own, and one has the end of another."""
    monkeypatch.setattr(reader, "SECTION_CHARACTERS", 60)
    documents = [document * 3 for document in make_documents(60)]
    ends = [[f"It begins with {i}, and {i} tokens.", *d] for i, d in enumerate(documents[:5])]
    distinct, expected = write("distinct", documents + ends)
    assert distinct["text"]["duplicate_documents"] == 0
    assert distinct["text"]["duplicate_tokens"] == 0
    assert write("repeated", _repeated(documents + ends))[1] == expected


@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_run_is_resumed(monkeypatch, write, after):
    documents = _repeated(make_documents(90))
    _, expected = write("whole", documents)
    original, calls = section_files.TokenStore.write, []

    def stopping(self, file, parts):
        calls.append(file["name"])
        if sum(name.startswith("distinct") for name in calls) > after:
            raise KeyError("stopped")
        original(self, file, parts)

    with monkeypatch.context() as patch, pytest.raises(KeyError, match="stopped"):
        patch.setattr(section_files.TokenStore, "write", stopping)
        write("stopped", documents)
    assert write("stopped", documents)[1] == expected


def test_a_corpus_of_one_repeated_document_is_one_document(write):
    with pytest.raises(InputError, match="the corpus is one document"):
        write("one", make_documents(1) * 50)


def test_copies_are_not_in_memory_together(monkeypatch, write):
    """A file has each text once, however often it comes."""
    sizes = []
    original = section_files._joined

    def joined(parts):
        found = original(parts)
        sizes.append(len(found.units))
        return found

    monkeypatch.setattr(section_files, "_joined", joined)
    monkeypatch.setattr(
        example_writer, "plan_corpus", lambda found: reader.plan_ranges(found, range_bytes=1 << 20)
    )
    documents = make_documents(60)
    _, expected = write("distinct", documents)
    once = max(sizes)
    _, found = write("often", documents + documents[:1] * 3000)
    assert found == expected and max(sizes) < 4 * once


def test_pages_of_one_sentence_count_once_in_warnings(write, caplog):
    manifest, _ = write("pages", [*make_documents(60), *[["The token is not found."]] * 200])
    assert manifest["text"]["duplicate_one_sentence_documents"] == 199
    assert not [each for each in caplog.messages if "have one sentence" in each]


def test_a_corpus_without_text_is_reported(write):
    with pytest.raises(InputError, match="the corpus has no text"):
        write("empty", [["\u200b"]])
