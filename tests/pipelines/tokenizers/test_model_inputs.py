"""Tokenizers as Keras users call them: texts to the model's inputs, and ids to texts."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests import tokenizers
from tests.pipelines.tokenizers import byte_bpe_reference

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d", "hel", "##lo", ",")


@pytest.fixture(scope="module")
def wordpiece():
    return tokenizers.wordpiece(TOKENS)


@pytest.fixture(scope="module")
def byte_bpe():
    return ByteBPETokenizer(byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400))


@pytest.fixture(params=["wordpiece", "byte_bpe"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def _lists(inputs):
    assert tuple(inputs) == MODEL_INPUTS
    assert all(value.dtype == tf.int32 for value in inputs.values())
    return [value.numpy().tolist() for value in inputs.values()]


def test_texts_are_packed_as_bert_has_them(wordpiece):
    ids, mask, types = _lists(wordpiece(["a b", "Hello, cd"]))
    assert ids == [[2, 5, 6, 3, 0, 0, 0], [2, 9, 10, 11, 7, 8, 3]]
    assert mask == [[1, 1, 1, 1, 0, 0, 0], [1] * 7]
    assert types == [[0] * 7] * 2


@pytest.mark.more_cases
def test_functions_tokenize_alike_and_are_traced_once(tokenizer):
    texts = tf.constant(["a  b", "", "hello, c"])
    functions = tokenizer.functions
    for name in functions._fields:
        function = getattr(functions, name)

        @tf.function
        def graph(texts, function=function):
            return function(texts), function(texts + " a")

        found, _ = graph(texts)
        wanted = getattr(tokenizer, name)(texts)
        for a, b in zip(tf.nest.flatten(found, True), tf.nest.flatten(wanted, True), strict=True):
            np.testing.assert_array_equal(a, b)
        graph(texts[:2])
        assert function.experimental_get_tracing_count() == 1
    assert tokenizer.functions is functions


def test_pairs_are_packed_as_bert_has_them(wordpiece):
    ids, mask, types = _lists(wordpiece(["a", "b b b"], ["c", "a"]))
    assert ids == [[2, 5, 3, 7, 3, 0, 0], [2, 6, 6, 6, 3, 5, 3]]
    assert mask == [[1, 1, 1, 1, 1, 0, 0], [1] * 7]
    assert types == [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1]]


def test_pairs_are_packed_as_roberta_has_them(byte_bpe):
    first, second = byte_bpe.tokenize(["hello"])[0], byte_bpe.tokenize(["you"])[0]
    ids, mask, types = _lists(byte_bpe(["hello", ""], ["you", ""]))
    assert ids[0] == [0, *first.numpy(), 2, 2, *second.numpy(), 2]
    assert ids[1] == [0, 2, 2, 2] + [1] * (len(ids[0]) - 4)
    assert mask[1] == [1] * 4 + [0] * (len(ids[0]) - 4)
    assert types == [[0] * len(ids[0])] * 2


def test_the_longer_text_is_cut_first(wordpiece):
    ids, _, _ = _lists(wordpiece(["a b c a b c", "a"], ["b a", "b c a b c a"], max_seq_length=8))
    assert ids == [[2, 5, 6, 7, 3, 6, 5, 3], [2, 5, 3, 6, 7, 5, 6, 3]]
    ids, _, _ = _lists(wordpiece(["a b c a b c", "a"], max_seq_length=4))
    assert ids == [[2, 5, 6, 3], [2, 5, 3, 0]]


def test_sequences_are_padded_to_a_fixed_length(tokenizer):
    short = tokenizer(["a"], max_seq_length=9)
    fixed = tokenizer(["a"], max_seq_length=9, fixed_length=True)
    length = short["input_mask"].shape[1]
    assert length < 9
    for name, value in fixed.items():
        assert value.shape == (1, 9)
        np.testing.assert_array_equal(value[:, :length], short[name])
    assert fixed["input_word_ids"].numpy()[0, length:].tolist() == [tokenizer.pad_id] * (9 - length)


def test_nothing_is_cut_where_no_length_is_given(tokenizer):
    words = "a b " * 700
    assert tokenizer([words])["input_word_ids"].shape[1] > 1400
    assert tokenizer([words], [words])["input_word_ids"].shape[1] > 2800


@pytest.mark.parametrize(
    "texts", [("a b", "c"), np.array(["a b", "c"]), np.array(["a b", "c"], object), [b"a b", b"c"]]
)
def test_texts_may_be_any_batch_of_strings(wordpiece, texts):
    np.testing.assert_array_equal(
        wordpiece(texts)["input_word_ids"], wordpiece(["a b", "c"])["input_word_ids"]
    )


def test_no_texts_are_an_empty_batch(tokenizer):
    for inputs in (tokenizer([]), tokenizer([], [], max_seq_length=7)):
        assert all(value.shape == (0, 1) for value in inputs.values())


@pytest.mark.more_cases
def test_datasets_are_mapped(tokenizer):
    texts, pairs = ["a b c", "b", "hello", "c a"], ["c", "a b", "", "b b b"]
    wanted = tokenizer(texts, pairs, max_seq_length=9, fixed_length=True)
    dataset = tf.data.Dataset.from_tensor_slices((texts, pairs, [0, 1, 0, 1])).batch(4)
    dataset = dataset.map(lambda a, b, label: (tokenizer(a, b, 9, fixed_length=True), label))
    assert {tuple(value.shape) for value in dataset.element_spec[0].values()} == {(None, 9)}
    ((inputs, labels),) = dataset
    for name, value in wanted.items():
        np.testing.assert_array_equal(inputs[name], value)
    assert labels.numpy().tolist() == [0, 1, 0, 1]


def test_what_is_no_batch_of_texts_is_told(tokenizer):
    message = "texts must be a batch of strings, such as"
    with pytest.raises(InputError, match=f"{message}.*; put the one text in a list"):
        tokenizer("a text")
    for texts in ([1, 2], [["a"], ["b"]], [None], ["\ud800"], tf.constant("a")):
        with pytest.raises(InputError, match=message):
            tokenizer(texts)
    with pytest.raises(InputError, match="pairs must be a batch of strings"):
        tokenizer(["a"], "b")
    with pytest.raises(InputError, match="2 texts have 1 pairs; give each text one"):
        tokenizer(["a", "b"], ["c"])
    with pytest.raises(InputError, match="max_seq_length is 2; it must be 3 or more"):
        tokenizer(["a"], max_seq_length=2)
    with pytest.raises(InputError, match="fixed_length pads to max_seq_length; give that, too"):
        tokenizer(["a"], fixed_length=True)


def test_ids_are_texts_again(wordpiece):
    inputs = wordpiece(["Hello, cd a", "z b"], ["a", "b"])
    ids = inputs["input_word_ids"]
    texts = wordpiece.decode(ids)
    assert texts == ["hello , cd a a", "b b"]
    assert wordpiece.decode(ids.numpy()) == wordpiece.decode(ids.numpy().tolist()) == texts
    assert wordpiece.decode(ids, skip_special_tokens=False) == [
        "[CLS] hello , cd a [SEP] a [SEP]",
        "[CLS] [UNK] b [SEP] b [SEP] [PAD] [PAD] [PAD] [PAD]",
    ]
    assert wordpiece.decode(wordpiece.tokenize(["a", "", "b c"])) == ["a", "", "b c"]
    assert wordpiece.decode([[5], [], [6, 7]]) == ["a", "", "b c"]


def test_byte_bpe_gives_back_every_text(byte_bpe):
    texts = [
        *byte_bpe_reference.TRICKY,
        "  Zürich 中国 \n naïve ☃ 👩‍👩‍👧 ",
        *byte_bpe_reference.random_texts(200),
    ]
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in texts]
    assert byte_bpe.decode(byte_bpe(texts)["input_word_ids"]) == texts
    (whole,) = byte_bpe.decode(byte_bpe(["a☃"])["input_word_ids"], skip_special_tokens=False)
    assert whole == "<s>a☃</s>"


def test_ids_that_are_none_are_told(tokenizer):
    for ids in (3, [3], [["a"]], [[0.5]], [[[1]]]):
        with pytest.raises(InputError, match=r"ids must be a batch of sequences of whole numbers"):
            tokenizer.decode(ids)
    size = len(tokenizer.vocabulary)
    for wrong in (size, -1):
        with pytest.raises(InputError, match=f"ids must be from 0 to {size - 1}"):
            tokenizer.decode([[0, wrong]])
