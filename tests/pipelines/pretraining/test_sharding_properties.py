"""Plans of shards: each document in one, whatever the corpus; and bytes that follow from them."""

import contextlib
import dataclasses
import functools
import itertools
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.common.errors import InputError
from pipelines.common.runners import Runner, Workers
from pipelines.corpus import reader
from pipelines.pretraining import example_writer, section_files, sharding
from pipelines.pretraining.settings import ExampleSettings
from tests import strategies
from tests.conftest import write_documents
from tests.pipelines.pretraining.written import digests

_SIZES = {"_SHARD_TOKENS": 40, "_MIN_SECTIONS_PER_SHARD": 3, "_MIN_DOCUMENTS_TO_HOLD_OUT": 4}


@pytest.fixture(scope="module")
def small_shards():
    with mock.patch.multiple(sharding, **_SIZES):
        yield


@st.composite
def _indexes(draw):
    """Sections of documents, which share a hash and a key, as the token store lists them."""
    documents = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(strategies.seeds()))
    hashes = rng.integers(0, 2**64, documents, np.uint64, endpoint=False)
    if draw(st.booleans()):  # close together, at an end of the range
        hashes = hashes % 1000 + np.uint64(draw(st.sampled_from([0, 2**64 - 1000])))
    keys = rng.permutation(documents).astype(np.uint64)
    of = np.repeat(np.arange(documents), rng.integers(1, 4, documents))
    index = np.zeros(len(of), section_files.ROW)
    index["hash"], index["key"] = hashes[of], keys[of]
    index["sentences"], index["tokens"] = rng.integers(1, 9, (2, len(of)))
    index["first"][np.unique(of, return_index=True)[1]] = True
    return index


def _plan(folder, index, wanted):
    """Plans the sections of an index, which lie in several files."""
    store = section_files.TokenStore(str(folder), 9)
    written = []
    for number, rows in enumerate(np.array_split(index, 3)):
        zeros = [np.zeros(rows[name].sum(), int) for name in ("sentences", "tokens")]
        sections = section_files.sorted_sections(rows, *zeros, store.dtype)
        file = section_files.SectionFile(
            name=str(number), sections=len(rows), units=len(sections.units)
        )
        store.write(file, [sections])
        written.append(file)
    counts = {
        "documents": len(np.unique(index["key"])),
        "sentences": int(index["sentences"].sum()),
        "tokens": int(index["tokens"].sum()),
    }
    store = dataclasses.replace(store, files=tuple(written))
    return sharding.plan_shards(counts, store, wanted, Workers())


@given(index=_indexes(), held_out=st.sampled_from([0.0, 0.1, 0.5, 0.9]))
def test_each_section_is_in_one_shard(small_shards, tmp_path_factory, index, held_out):
    folder = tmp_path_factory.mktemp("store")
    wanted = ExampleSettings(held_out_fraction=held_out)
    try:
        found = _plan(folder, index, wanted)
    except InputError:
        documents = len(np.unique(index["key"]))
        few = documents < (4 if held_out else 2)
        left = documents - (max(2, round(held_out * documents)) if held_out else 0)
        assert few or left < 2 or (len(index) == documents and (index["sentences"] == 1).all())
        return
    again = _plan(folder, index[::-1].copy(), wanted)
    assert again == found
    apart = index["key"] < found.held_out_end
    assert apart.any() == bool(held_out)
    assert len(np.unique(index["key"][apart])) == found.held_out_documents
    assert [shard.index for shard in found.shards] == list(range(len(found.shards)))
    assert len({shard.file for shard in found.shards}) == len(found.shards)
    for is_held_out in (False, True):
        shards = [shard for shard in found.shards if shard.held_out == is_held_out]
        part = index[apart == is_held_out]
        if not len(part):
            assert not shards
            continue
        # Intervals that cover all hashes, side by side.
        assert shards[0].low == 0 and shards[-1].high == 2**64
        assert all(a.high == b.low for a, b in itertools.pairwise(shards))
        for shard in shards:
            inside = [shard.low <= int(value) < shard.high for value in part["hash"]]
            assert len(np.unique(part["key"][inside])) >= 2 or len(shards) == 1


@given(
    documents=st.lists(
        st.lists(
            st.sampled_from(["a b.", "b c d", "a", "c c c c c a", "d é 中 x"]),
            min_size=1,
            max_size=5,
        ),
        min_size=2,
        max_size=24,
    ),
    range_bytes=st.integers(1, 300),
    seed=strategies.seeds(),
)
@settings(max_examples=settings().max_examples // 2)
def test_bytes_depend_on_nothing_but_the_request(
    small_shards, tmp_path_factory, documents, range_bytes, seed
):
    """Not on who writes a shard, in which order, nor on what was there when it was stopped."""
    assume(any(len(document) > 1 for document in documents))
    folder = tmp_path_factory.mktemp("plan")
    corpus = write_documents(folder / "corpus.txt", documents)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] a b c d . é".split()))
    wanted = ExampleSettings(max_seq_length=12, max_predictions_per_seq=3, dupe_factor=2, seed=seed)
    ranges = functools.partial(reader.plan_ranges, range_bytes=range_bytes)
    found = []
    with mock.patch.object(example_writer, "plan_corpus", ranges):
        for name, runner in (("forward", _Forward()), ("backward", _Backward())):
            request = example_writer.ExampleRequest(
                corpus, str(vocabulary), str(folder / name), wanted, "sentences"
            )
            manifest = example_writer.write(request, runner)
            found.append(digests(folder / name))
            shards = manifest["train"]["shards"]
            assert manifest["text"]["documents"] == len(documents)
            for shard in shards:
                records = tf.data.TFRecordDataset(str(folder / name / shard["file"]))
                assert sum(1 for _ in records) == shard["records"]
    assert found[0] == found[1]


class _Forward(Workers, Runner):
    """Runs all in this process, in order."""

    def started(self, place, module):
        return contextlib.nullcontext(self)

    def map(self, function, things, reads_only=False):
        return super().map(function, self.order(things), reads_only)

    def order(self, things):
        return things


class _Backward(_Forward):
    """The last one first, and each twice, as after a stop."""

    def order(self, things):
        return [thing for thing in reversed(things) for _ in range(2)]
