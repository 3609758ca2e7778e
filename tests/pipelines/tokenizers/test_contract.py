"""What every tokenizer keeps to: one test body, for which each brings its vocabulary."""

import collections
import random

import pytest
import tensorflow as tf

from pipelines.tokenizers import registry
from pipelines.tokenizers.registry import KINDS

TEXTS = [
    "the lazy dog", "  The LAZY dog's,  tail\n", "", " ", "über Ängste — naïve", "日本語 text",
    "x\u0301y", "1999, 2000 and 3,000,", "[MASK] <mask> <s> [CLS] </s> <unk> <pad>",
    "\U0001f600 ok",
]  # fmt: skip
# Bytes that are not UTF-8, and texts that would join to a character, a space or a contraction.
BYTES = [b"a\xffb", b"\xe4\xb8", b"\xad", b"it", b"'", b"s", b" ", b" x", b"\xf0\x9f"]
_WORDS = "the lazy dog tail over jumps quick brown 1999, 2000 and text ok it's über naïve".split()


_SIZES = {"byte_bpe": 300, "bpe": 120}  # of the vocabularies; 60 for the others


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    """A tokenizer of each kind, with a vocabulary learned of a few words."""
    counts = collections.Counter({word.encode(): 9 - i % 5 for i, word in enumerate(_WORDS)})
    kind = KINDS[request.param].vocabulary
    return registry.make(kind.learn(counts, _SIZES.get(request.param, 60)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_counts_give_the_same_vocabulary_in_any_order(kind):
    words = _WORDS + [f"word{i % 37}" for i in range(99)] + [f"thing{i % 11}" for i in range(99)]
    learned = []
    for seed in range(3):
        random.Random(seed).shuffle(words)
        counts = collections.Counter(map(str.encode, words))
        learned.append(KINDS[kind].vocabulary.learn(counts, _SIZES.get(kind, 60)))
    assert learned[0] == learned[1] == learned[2]


def _lists(values):
    return [value.to_list() for value in (values if isinstance(values, tuple) else [values])]


def test_the_files_hold_vocabulary_and_settings(tokenizer, tmp_path):
    vocabulary = tokenizer.vocabulary
    names = vocabulary.save(str(tmp_path))
    assert names == vocabulary.files and set(names) <= set(registry.all_files())
    found = registry.find(str(tmp_path))
    assert found == vocabulary and found.sha256 == vocabulary.sha256
    again = registry.make(found, tokenizer.settings)
    assert again.settings == tokenizer.settings
    assert again.tokenize(TEXTS).to_list() == tokenizer.tokenize(TEXTS).to_list()


def test_special_tokens_have_ids_and_never_come_from_text(tokenizer):
    assert len(set(tokenizer.special_ids)) == 5
    others = set(tokenizer.special_ids) - {tokenizer.unknown_id}
    found = {index for row in tokenizer.tokenize(TEXTS).to_list() for index in row}
    assert not found & others
    assert len(tokenizer.begins_word) == len(tokenizer.vocabulary)


def test_texts_of_a_batch_do_not_affect_each_other(tokenizer):
    texts = [*(text.encode() for text in TEXTS), *BYTES]
    alone = [_lists(tokenizer.tokenize_with_offsets([text])) for text in texts]
    together = _lists(tokenizer.tokenize_with_offsets(texts))
    assert [[column[0] for column in each] for each in alone] == [
        list(row) for row in zip(*together, strict=True)
    ]


def test_offsets_are_whole_characters_in_the_order_of_the_text(tokenizer):
    ids, starts, ends = _lists(tokenizer.tokenize_with_offsets(TEXTS))
    assert ids == tokenizer.tokenize(TEXTS).to_list()
    for text, first, last in zip(TEXTS, starts, ends, strict=True):
        data = text.encode()
        assert first == sorted(first) and last == sorted(last)
        for start, end in zip(first, last, strict=True):
            assert 0 <= start <= end <= len(data)
            data[start:end].decode()  # raises where a character is cut


def test_pieces_by_word_are_those_of_the_words(tokenizer):
    texts = ["the lazy dog", "jumps over it", "It ( rained ) well - known ."]
    pieces = tokenizer.tokenize_by_word(
        [text.replace("( ", "(").replace(" )", ")") for text in texts]
    )
    for text, ids, begins in zip(texts, pieces.ids.to_list(), pieces.begins.to_list(), strict=True):
        assert sum(begins) == len(text.split()) and begins[0]
        words = tokenizer.tokenize_words(text.split()).to_list()
        assert ids == [index for word in words for index in word]


def test_plain_texts_have_the_same_ids_without_tensorflow(tokenizer):
    for text, ids in zip(TEXTS, tokenizer.tokenize(TEXTS).to_list(), strict=True):
        assert tokenizer.plain_ids(text) in (None, ids), text


@pytest.mark.more_cases
def test_a_saved_model_gives_the_same(tokenizer, tmp_path):
    module = tf.Module()
    module.tokenizer = tokenizer
    names = ("tokenize", "tokenize_words", "tokenize_with_offsets", "tokenize_by_word")
    for name in names:
        spec = [tf.TensorSpec([None], tf.string)]
        setattr(module, name, tf.function(getattr(tokenizer, name), spec, autograph=False))
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for texts in ([], ["", ""], [*TEXTS, *BYTES]):
        batch = tf.constant(texts, tf.string)
        for name in names:
            expected = _flat(getattr(tokenizer, name)(batch))
            assert _flat(getattr(loaded, name)(batch)) == expected, name


def _flat(values):
    values = values if isinstance(values, list | tuple) else [values]
    return [(value.dtype, value.to_list()) for value in values]
