"""Corpora of many files of sections, which are merged: the same bytes, at a cost that is linear."""

import glob
import itertools
import os

import numpy as np
import pytest

from pipelines.common import files
from pipelines.common.runners import LocalRunner
from pipelines.pretraining import example_writer, section_files, token_store
from pipelines.pretraining.settings import ExampleSettings
from pipelines.pretraining.sharding import UNFINISHED
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import cut_finely, digests

HERE = LocalRunner(1)
SETTINGS = ExampleSettings(
    max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, held_out_fraction=0.1
)


@pytest.fixture(autouse=True)
def many_files(monkeypatch):
    cut_finely(monkeypatch)


@pytest.fixture
def wanted(tmp_path, vocab_path):
    corpus = write_documents(tmp_path / "corpus.txt", make_documents(300))

    def request(name):
        return example_writer.ExampleRequest(corpus, vocab_path, f"{tmp_path}/{name}", SETTINGS)

    return request


def _stopped(monkeypatch, request, place, name, after):
    """Writes examples until a function has been called some times."""
    original, calls = getattr(place, name), []

    def counted(*arguments, **options):
        calls.append(arguments)
        if len(calls) > after:
            raise KeyError("stopped")
        return original(*arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyError, match="stopped"):
        patch.setattr(place, name, counted)
        example_writer.write(request, HERE)


@pytest.mark.parametrize(
    ("place", "name", "after"),
    [
        (section_files.TokenStore, "merge", 3),
        (section_files.TokenStore, "merge", 11),  # on the second level
        (section_files.TokenStore, "is_whole", 3),
        (token_store, "save", 1),  # when all inputs of the first level are removed
        (example_writer, "plan_shards", 0),
        (example_writer, "write_shard", 2),
    ],
)
def test_stopped_merging_goes_on(wanted, monkeypatch, place, name, after):
    example_writer.write(wanted("whole"), HERE)
    monkeypatch.setattr(token_store, "MAX_FILES", 3)
    monkeypatch.setattr(section_files, "_SLICE_UNITS", 1000)
    monkeypatch.setattr(section_files, "_BUCKET_UNITS", 100)
    _stopped(monkeypatch, wanted("merged"), place, name, after)
    monkeypatch.setattr(example_writer, "_tokenize", None)  # it has been done
    example_writer.write(wanted("merged"), HERE)
    whole, merged = (digests(wanted(name).output) for name in ("whole", "merged"))
    assert merged == whole and len(whole) > 5


def test_inputs_are_left_until_they_are_merged(wanted, monkeypatch):
    """Removing them is the last thing, and done again if it was not finished."""
    monkeypatch.setattr(token_store, "MAX_FILES", 3)
    request = wanted("o")
    _stopped(monkeypatch, request, section_files.files.gfile, "remove", 3)
    folder = f"{request.output}/{UNFINISHED}"
    names = {os.path.basename(path) for path in glob.glob(f"{folder}/*.data")}
    assert "00000-0000.merged.data" in names and "00002-0000.data" in names
    assert "00000-0000.data" not in names
    _stopped(monkeypatch, request, example_writer, "plan_shards", 0)
    left = glob.glob(f"{folder}/*.data")
    assert 1 < len(left) <= 3


def test_lost_files_are_tokenized_again(wanted, monkeypatch):
    example_writer.write(wanted("whole"), HERE)
    monkeypatch.setattr(token_store, "MAX_FILES", 3)
    request = wanted("o")
    for call in (4, 20):  # on the first level, and when all is merged
        _stopped(monkeypatch, request, section_files.TokenStore, "is_whole", call)
        for path in glob.glob(f"{request.output}/{UNFINISHED}/*.data")[::2]:
            os.remove(path)
    _stopped(monkeypatch, request, example_writer, "write_shard", 2)
    for path in glob.glob(f"{request.output}/{UNFINISHED}/*.data"):
        os.truncate(path, 10)
    example_writer.write(request, HERE)
    assert digests(request.output) == digests(wanted("whole").output)


def test_two_workers_may_merge_the_same_files(tmp_path, monkeypatch):
    store = section_files.TokenStore(str(tmp_path), 9)
    inputs = [_random_file(store, str(seed), seed) for seed in range(3)]
    original = section_files.TokenStore.write

    def overtaken(self, file, parts):
        monkeypatch.undo()
        assert store.merge(inputs) == file  # and removes the inputs
        original(self, file, parts)

    monkeypatch.setattr(section_files.TokenStore, "write", overtaken)
    merged = store.merge(inputs)
    assert store.is_whole(merged) and len(glob.glob(f"{tmp_path}/*")) == 2
    assert store.merge(inputs) == merged


def _random_file(store, name, seed, sections=50):
    rng = np.random.default_rng(seed)
    rows = np.zeros(sections, section_files.ROW)
    rows["hash"], rows["key"] = rng.integers(0, 2**64, (2, sections), np.uint64, endpoint=False)
    rows["sentences"] = rows["tokens"] = 1
    rows["first"] = True
    found = section_files.sorted_sections(
        rows, np.ones(sections), rng.integers(0, 9, sections), store.dtype
    )
    file = section_files.SectionFile(name=name, sections=sections, units=len(found.units))
    store.write(file, [found])
    return file


@pytest.mark.parametrize("vocab_size", [9, 1 << 17])
def test_any_interval_is_found(tmp_path, monkeypatch, vocab_size):
    """For hashes at the ends of the range and of buckets, and documents of all sizes."""
    monkeypatch.setattr(section_files, "_BUCKET_UNITS", 16)
    rng = np.random.default_rng(1)
    edges = [0, 1, 2**60 - 1, 2**60, 2**63 - 1, 2**63, 2**64 - 1]
    rows = np.zeros(300, section_files.ROW)
    rows["hash"] = [*edges, *rng.integers(0, 2**64, 293, np.uint64, endpoint=False)]
    rows["key"] = rng.permutation(300)
    rows["sentences"] = rng.integers(1, 4, 300)
    lengths = rng.integers(1, 9, rows["sentences"].sum())
    starts = np.cumsum([0, *rows["sentences"]])
    rows["tokens"] = [lengths[a:b].sum() for a, b in itertools.pairwise(starts)]
    ids = rng.integers(0, vocab_size, lengths.sum())
    expected, position = {}, 0
    for row, first, end in zip(rows, starts, starts[1:], strict=False):
        text = ids[position : position + row["tokens"]]
        expected[int(row["hash"])] = (int(row["key"]), lengths[first:end].tolist(), text.tolist())
        position += row["tokens"]
    store = section_files.TokenStore(str(tmp_path), vocab_size)
    sections = section_files.sorted_sections(rows, lengths, ids, store.dtype)
    file = section_files.SectionFile(name="f", sections=300, units=len(sections.units))
    store.write(file, [sections])
    store = section_files.TokenStore(str(tmp_path), vocab_size, (file,))
    bounds = sorted({*edges, *(edge + 1 for edge in edges), 2**62, 2**62 + 2**61})
    for low in bounds:
        for high in (high for high in bounds if high > low):
            found = store.read(low, high, 200, below=True)
            inside = [expected[h] for h in sorted(expected) if low <= h < high]
            inside = [section for section in inside if section[0] < 200]
            assert found.document_keys.tolist() == [key for key, _, _ in inside]
            assert np.diff(found.sentence_starts).tolist() == [n for _, ns, _ in inside for n in ns]
            assert np.diff(found.document_starts).tolist() == [len(ns) for _, ns, _ in inside]
            assert found.ids.tolist() == [i for _, _, text in inside for i in text]


def test_files_opened_are_linear(tmp_path, vocab_path, monkeypatch):
    monkeypatch.setattr(token_store, "MAX_FILES", 8)
    opened = []
    for module, name in ((files, "open_binary"), (files, "write_aside")):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, _f=original, **k: opened.append(a[0]) or _f(*a, **k)
        )
    counts = []
    for size in (250, 1000):
        corpus = write_documents(tmp_path / f"{size}.txt", make_documents(size))
        opened.clear()
        output = f"{tmp_path}/{size}"
        example_writer.write(
            example_writer.ExampleRequest(corpus, vocab_path, output, SETTINGS), HERE
        )
        counts.append(len(opened))
    assert any(".merged.merged" in path for path in opened)
    assert counts[1] < 4.8 * counts[0]
