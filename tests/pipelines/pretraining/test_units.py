"""Units of work: what is in them, and that their bytes depend on nothing but the request."""

import contextlib
import itertools
import json
import pickle
from unittest import mock

import msgspec
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.common.runners import Runner, Workers
from pipelines.corpus import reader
from pipelines.pretraining import example_writer, units
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers import byte_bpe_words, learning
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from tests import strategies
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import cut_finely, digests
from tests.pipelines.tokenizers import byte_bpe_reference

TEXTS = [
    "It rained all day. We stayed at home.",
    "It rained.  We stayed; they'd stayed!\n\nA new paragraph. It's short.\nA line\n\n\nThe end.",
    "One sentence",
    "Windows wrote this. And this.\r\n\r\nAnd this.",
    f"{'This line is long enough. ' * 3}The next\nline goes on. Then it ends.",
    "오늘은 좋다. 내일도 좋다! 정말?",
]
SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK]".split()


@pytest.fixture(scope="module")
def learned():
    return byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)


def _corpus(folder, kind):
    """One document a text: a file of JSON Lines, or a file each of prose."""
    if kind == "jsonl":
        lines = [json.dumps({"text": f" {text}\n"}) + "\n" for text in TEXTS]
        (folder / "corpus.jsonl").write_text("".join(lines))
    else:
        for number, text in enumerate(TEXTS):
            (folder / f"{number}.txt").write_bytes(f"{text}\n".encode())
    return reader.open_corpus(f"{folder}/*", kind)


def _parts(monkeypatch, tokenizer, pieces, request=None):
    monkeypatch.setattr(units, "load_tokenizer", lambda *_: tokenizer)
    request = request or example_writer.ExampleRequest("", "", "")
    counts = example_writer.collections.Counter()
    found = list(units._parts(request, units.WorkUnit(0, 1, tuple(pieces)), tokenizer, counts))
    return found, counts


@pytest.mark.parametrize("add_prefix_space", [False, True])
@pytest.mark.parametrize("range_bytes", [60, 1 << 20])
def test_byte_bpe_of_json_lines_is_that_of_the_texts(
    tmp_path, monkeypatch, learned, add_prefix_space, range_bytes
):
    tokenizer = ByteBPETokenizer(learned, add_prefix_space=add_prefix_space)
    pieces = reader.plan_ranges(_corpus(tmp_path, "jsonl"), range_bytes)
    assert (len(pieces) > 3) == (range_bytes == 60)
    (part,), _ = _parts(monkeypatch, tokenizer, pieces)
    assert sorted(d.ids.tolist() for d in part) == sorted(tokenizer.tokenize(TEXTS).to_list())


def test_byte_bpe_of_prose_is_that_of_the_texts_without_the_layout_of_lines(
    tmp_path, monkeypatch, learned
):
    tokenizer = ByteBPETokenizer(learned)
    pieces = reader.plan_ranges(_corpus(tmp_path, "prose"), 1 << 20)
    (part,), _ = _parts(monkeypatch, tokenizer, pieces)
    texts = [text.replace("\r\n", "\n").replace("next\nline", "next line") for text in TEXTS]
    texts = [text.replace("\n\n\n", "\n\n") for text in texts]
    assert sorted(d.ids.tolist() for d in part) == sorted(tokenizer.tokenize(texts).to_list())


def test_byte_bpe_is_learned_of_words_with_the_space_before_them(tmp_path):
    words = learning.count_words(
        _corpus(tmp_path, "jsonl"),
        reader.ReadOptions(),
        byte_bpe_words.split_words,
        sample_bytes=1 << 30,
        seed=0,
    )
    whole = byte_bpe_words.split_words(TEXTS).numpy().tolist()
    assert words == dict(zip(*np.unique(whole, return_counts=True), strict=True))


def test_a_unit_has_documents_from_all_over_the_corpus(tmp_path):
    for name, size in (("a", 9000), ("b", 1000), ("c", 40_000)):
        (tmp_path / f"{name}.txt").write_text("Words of a text.\n\n" * (size // 18))
    corpus = reader.open_corpus(f"{tmp_path}/*.txt", "sentences")
    with mock.patch.multiple(units, _UNIT_BYTES=(5000, 5000), _PIECES=10):
        pieces, count = units.plan(corpus)
    assert count == 9 and len(pieces) == 18 + 2 + 80
    for index in range(count):
        found = pieces[index::count]
        assert 10 <= len(found) <= 12
        places = [9000 * (p.file_index > 0) + 1000 * (p.file_index > 1) + p.start for p in found]
        assert max(np.diff([0, *places, 50_000])) < 2 * 5000


def test_the_number_of_units_follows_from_the_size_of_the_corpus(tmp_path):
    def planned(size, path="a.txt"):
        return units.plan([reader.CorpusFile(path, "sentences", size)])

    assert planned(100_000)[1] == 1
    assert planned(20_000_000)[1] == 9  # of 2 MB
    assert planned(1 << 30)[1] == 64
    pieces, count = planned(10**11)
    assert count == 10**11 // (1 << 25) and len(pieces) == -(-(10**11) // (1 << 20))
    assert planned(10**9, "a.txt.gz")[1] == 1  # it cannot be cut


def test_a_large_compressed_file_is_written_in_parts(tmp_path, monkeypatch, learned):
    """Sections that wait for the next part are in no other; pieces are read in turn."""
    monkeypatch.setattr(units, "_PART_CHARACTERS", 500)
    monkeypatch.setattr(units, "_WAITING", 2)
    monkeypatch.setattr(units, "_BATCH_CHARACTERS", 100)
    for name in "ab":
        write_documents(tmp_path / f"{name}.txt", [[f"Text {name} {i}."] for i in range(200)])
    corpus = reader.open_corpus(f"{tmp_path}/*.txt", "sentences")
    tokenizer = ByteBPETokenizer(learned)
    parts, counts = _parts(monkeypatch, tokenizer, reader.plan_ranges(corpus, 1 << 20))
    assert len(parts) > 4 and counts["documents"] == 400
    read = [[tokenizer.decode([d.ids])[0].split() for d in part] for part in parts]
    names = [int(word[2].strip(".")) for part in read for word in part]
    assert names == [i for i in range(200) for _ in "ab"]
    assert all({word[1] for word in part} == {"a", "b"} for part in read)


@pytest.mark.more
def test_long_documents_make_fewer_units(tmp_path, vocab_path, monkeypatch):
    """A random next sentence must be of another document of its unit."""
    cut_finely(monkeypatch, unit_bytes=500)
    documents = [document * 40 for document in make_documents(8)]
    corpus = write_documents(tmp_path / "c.txt", documents)
    wanted = ExampleSettings(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1)
    pairs, spans = (
        example_writer.write(
            example_writer.ExampleRequest(
                corpus, vocab_path, f"{tmp_path}/{objective}",
                example_writer.dataclasses.replace(wanted, objective=objective),
            ),
            _Backward(),
        )["train"]
        for objective in ("mlm_nsp", "mlm")
    )  # fmt: skip
    counts = [len(list(tmp_path.glob(f"{name}/train-*"))) for name in ("mlm_nsp", "mlm")]
    assert counts == [len(part["shards"]) for part in (pairs, spans)]  # and none is left over
    assert 1 <= counts[0] < counts[1]
    assert 0.4 < pairs["random_next_fraction"] < 0.7


@given(
    documents=st.lists(
        st.lists(
            st.sampled_from(["a b.", "b c d", "a", "c c c c c a", "d é 中 x"]),
            min_size=2,
            max_size=5,
        ),
        min_size=4,
        max_size=24,
        unique_by=tuple,
    ),
    unit_bytes=st.integers(10, 400),
    seed=strategies.seeds(),
)
@settings(max_examples=settings().max_examples // 2)
def test_bytes_depend_on_nothing_but_the_request(tmp_path_factory, documents, unit_bytes, seed):
    """Not on who writes a unit, in which order, nor on what was there when it was stopped."""
    folder = tmp_path_factory.mktemp("plan")
    corpus = write_documents(folder / "corpus.txt", documents)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL, *"a b c d . é".split()]))
    wanted = ExampleSettings(max_seq_length=12, max_predictions_per_seq=3, dupe_factor=2, seed=seed)
    found = []
    with mock.patch.multiple(units, _UNIT_BYTES=(unit_bytes, unit_bytes), _PIECES=3):
        for name, runner in (("forward", _Forward()), ("backward", _Backward())):
            request = example_writer.ExampleRequest(
                corpus, str(vocabulary), str(folder / name), wanted, "sentences"
            )
            manifest = example_writer.write(request, runner)
            found.append(digests(folder / name))
            assert manifest["text"]["documents"] == len(documents)
            for shard in manifest["train"]["shards"]:
                records = tf.data.TFRecordDataset(str(folder / name / shard["file"]))
                assert sum(1 for _ in records) == shard["records"]
    assert found[0] == found[1]


@pytest.mark.parametrize("whole", [False, True])
def test_every_token_of_the_text_is_in_an_example_once(tmp_path, vocab_path, monkeypatch, whole):
    """Whatever the units: of spans, without masks, used once."""
    cut_finely(monkeypatch, 1 << 20 if whole else 3000)
    documents = make_documents(200)
    corpus = write_documents(tmp_path / "c.txt", documents)
    wanted = ExampleSettings(
        objective="left_to_right", max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1,
        held_out_fraction=0.2,
    )  # fmt: skip
    request = example_writer.ExampleRequest(corpus, vocab_path, f"{tmp_path}/o", wanted)
    manifest = example_writer.write(request, _Forward())
    assert (len(manifest["train"]["shards"]) > 3) != whole
    examples = itertools.chain.from_iterable(
        tf.data.TFRecordDataset(sorted(map(str, tmp_path.glob(f"o/{part}-*"))))
        for part in ("train", "held_out")
    )
    counts = np.zeros(1000, int)
    for record in examples:
        ids = tf.train.Example.FromString(record.numpy()).features.feature["input_ids"]
        counts += np.bincount(ids.int64_list.value, minlength=1000)
    tokenizer = units.load_tokenizer(vocab_path, ())
    of_text = [sentence for document in documents for sentence in document]
    expected = np.bincount(tokenizer.tokenize(of_text).flat_values.numpy(), minlength=1000)
    assert (counts[5:] == expected[5:]).all()


class _Forward(Workers, Runner):
    """Runs all in this process, in order."""

    def started(self, place, module):
        return contextlib.nullcontext(self)


class _Backward(_Forward):
    """As a cluster may: the last item first, each twice, and nothing shared but files."""

    def map(self, function, items):
        for item in reversed(items):
            sent = pickle.dumps((function, item))
            for _ in range(2):
                run, copy = pickle.loads(sent)
                result = msgspec.msgpack.encode(run(copy))
                yield item, msgspec.msgpack.decode(result)
