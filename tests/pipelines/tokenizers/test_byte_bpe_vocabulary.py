"""Byte-level BPE vocabularies: their files, learning, and what is refused."""

import collections
import json

import pytest
import tokenizers

from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_vocabulary as vocabulary
from pipelines.tokenizers.bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from tests.pipelines.tokenizers import byte_bpe_reference


@pytest.fixture(scope="module")
def learned():
    return byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)


def test_saved_files_are_those_of_hugging_face(learned, tmp_path):
    learned.save(str(tmp_path))
    names = [str(tmp_path / name) for name in ("vocab.json", "merges.txt")]
    reference = tokenizers.ByteLevelBPETokenizer(*names)
    byte_bpe_reference.check(ByteBPETokenizer(learned), reference, byte_bpe_reference.CORPUS)
    (tmp_path / "theirs").mkdir()
    reference.save_model(str(tmp_path / "theirs"))
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "theirs" / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
@pytest.mark.parametrize("header", ["#version: 0.2\n", ""])
def test_loading_gives_what_was_saved(learned, tmp_path, names, header):
    tokens, merges = learned.tokens, learned.merges
    lines = "\n".join(map(" ".join, merges))
    for prefix in ("", "roberta-base-"):
        ids = {token: index for index, token in reversed(list(enumerate(tokens)))}
        (tmp_path / f"{prefix}{names[0]}").write_text(json.dumps(ids))
        (tmp_path / f"{prefix}{names[1]}").write_text(header + lines, "utf-8")
        assert ByteBPEVocabulary.load(str(tmp_path / f"{prefix}{names[0]}")) == learned
    assert ByteBPEVocabulary.load(f"{tmp_path}/") == learned


def _small(more=(), letters=vocabulary.BYTE_LETTERS) -> list[str]:
    return [*vocabulary.SPECIAL_TOKENS, *letters, *more]


@pytest.mark.parametrize(
    ("tokens", "merges", "message"),
    [
        (vocabulary.BYTE_LETTERS, [], "lacks <pad>, <unk>, <s>, </s>, <mask>; .*GPT-2's has"),
        (_small()[1:], [], "lacks <s>;"),
        (_small(letters=vocabulary.BYTE_LETTERS[1:]), [], "lacks 1 of the 256 letters .*Ā"),
        (_small(["a"]), [], "'a' occurs twice"),
        (_small([""]), [], "id 261 has an empty token"),
        (_small(["abc"]), [("ab", "c")], r"merge 1 \(ab c\): no merge before it makes 'ab'"),
        (_small(), [("a", "b")], r"merge 1 \(a b\): the vocabulary lacks 'ab'"),
        (_small(["ab"]), [("a", "b"), ("a", "b")], "merge 2 .*: a merge before it makes 'ab', too"),
        (
            _small(["ab", "bc", "abc"]),
            [("a", "b"), ("b", "c"), ("a", "bc")],
            r"merge 3 \(a bc\): the merges make ab c of 'abc'",
        ),
        (_small(["<s"]), [("<", "s"), ("<s", ">")], "'<s>' is a special token"),
    ],
)
def test_an_unusable_vocabulary_is_refused(tokens, merges, message):
    with pytest.raises(InputError, match=message):
        ByteBPETokenizer(ByteBPEVocabulary(tuple(tokens), tuple(merges)))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "no BPE vocabulary; it is a folder with vocab.json and merges.txt or"),
        ({"vocab.json": b"{}"}, "merges.txt: no such file"),
        ({"encoder.json": b"{}"}, "vocab.bpe: no such file"),
        ({"vocab.json": b'["a"]'}, "vocab.json: expected object"),
        ({"vocab.json": b'{"a": 0, "b": 2}'}, "'b' has the id 2 instead of 1"),
        ({"vocab.json": b'{"a": 0, "b": 0}'}, "'b' has the id 0 instead of 1"),
        ({"vocab.json": b"{}", "merges.txt": b"a b\na\n"}, "merges.txt: line 2 is not two parts"),
        ({"vocab.json": b"{}", "merges.txt": b"a \xff\n"}, "merges.txt: byte 2 is not UTF-8"),
        ({"vocab.json": b"{}", "merges.txt": b""}, "vocab.json: lacks <pad>"),
    ],
)
def test_unusable_files_are_refused(written, message, tmp_path):
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        ByteBPEVocabulary.load(str(tmp_path))


def test_learning(learned):
    tokens, merges = learned.tokens, learned.merges
    assert tokens[:4] == ("<s>", "<pad>", "</s>", "<unk>") and tokens[-1] == "<mask>"
    assert sorted(tokens[4:260]) == sorted(vocabulary.BYTE_LETTERS)
    assert list(tokens[260:-1]) == [left + right for left, right in merges]
    assert len(tokens) == 400


def test_learning_ends_when_no_pair_occurs_twice():
    learned = ByteBPEVocabulary.learn(collections.Counter({b"ab": 2, b"cd": 1}), 1000)
    tokens, merges = learned.tokens, learned.merges
    assert merges == (("a", "b"),)
    assert len(tokens) == 262


@pytest.mark.parametrize(
    ("words", "size", "message"),
    [({}, 300, "no words"), ({b"a": 1}, 260, "no room .* raise the size to 261")],
)
def test_learning_in_vain_is_refused(words, size, message):
    with pytest.raises(InputError, match=message):
        ByteBPEVocabulary.learn(collections.Counter(words), size)


def test_settings_that_change_text_are_refused():
    with pytest.raises(
        InputError, match="--kind=byte_bpe: a tokenizer of kind byte_bpe does not change text"
    ):
        ByteBPEVocabulary.learning_settings({"lower_case": True})
