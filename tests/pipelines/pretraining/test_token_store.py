"""The token store: tokens of a document's sentences are those of its text."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from pipelines.common import checksums
from pipelines.corpus import reader
from pipelines.pretraining import section_files, token_store
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers import byte_bpe_words, learning
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from tests.pipelines.tokenizers import byte_bpe_reference

TEXTS = [
    "It rained all day. We stayed at home.",
    "It rained.  We stayed; they'd stayed!\n\nA new paragraph. It's short.\nA line\n\n\nThe end.",
    "One sentence",
    "Windows wrote this. And this.\r\n\r\nAnd this.",
    f"{'This line is long enough. ' * 3}The next\nline goes on. Then it ends.",
    "오늘은 좋다. 내일도 좋다! 정말?",
]


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


def _tokens(ranges, tokenizer, folder):
    """The ids of each document, by the order in the corpus."""
    store = section_files.TokenStore(str(folder), len(tokenizer.vocabulary))
    written = []
    for number, part in enumerate(ranges):
        summary = token_store.tokenize_range(
            store, number, part, reader.ReadOptions(), tokenizer, ExampleSettings()
        )
        written += summary["files"]
    store = dataclasses.replace(store, files=tuple(written))
    found = store.read(0, checksums.HASH_RANGE, checksums.HASH_RANGE, below=True)
    bounds = found.sentence_starts[found.document_starts]
    return sorted(found.ids[a:b].tolist() for a, b in itertools.pairwise(bounds))


@pytest.mark.parametrize("add_prefix_space", [False, True])
@pytest.mark.parametrize("range_bytes", [60, 1 << 20])
def test_byte_bpe_of_json_lines_is_that_of_the_texts(
    tmp_path, learned, add_prefix_space, range_bytes
):
    tokenizer = ByteBPETokenizer(learned, add_prefix_space=add_prefix_space)
    ranges = reader.plan_ranges(_corpus(tmp_path, "jsonl"), range_bytes)
    assert (len(ranges) > 3) == (range_bytes == 60)
    found = _tokens(ranges, tokenizer, tmp_path / "store")
    assert found == sorted(tokenizer.tokenize(TEXTS).to_list())


def test_byte_bpe_of_prose_is_that_of_the_texts_without_the_layout_of_lines(tmp_path, learned):
    tokenizer = ByteBPETokenizer(learned)
    found = _tokens(
        reader.plan_ranges(_corpus(tmp_path, "prose"), 1 << 20), tokenizer, tmp_path / "store"
    )
    texts = [text.replace("\r\n", "\n").replace("next\nline", "next line") for text in TEXTS]
    texts = [text.replace("\n\n\n", "\n\n") for text in texts]
    assert found == sorted(tokenizer.tokenize(texts).to_list())


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
