"""Pairs of texts in both orders."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import orders
from pipelines.tokenizers import packing, registry
from pipelines.tokenizers.bpe_vocabulary import (
    BYTE_LETTERS,
    END_OF_TEXT,
    BPEVocabulary,
    ByteBPEVocabulary,
)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "gpt2"])
def test_the_other_order_is_that_of_packing_the_second_text_first(vocab_path, kind):
    tokenizer = registry.load_tokenizer(vocab_path)
    if kind != "wordpiece":
        learned = BPEVocabulary.learn(Counter({word.encode(): 9 for word in "abcdef"}), 20)
        gpt2 = ByteBPEVocabulary((*BYTE_LETTERS, END_OF_TEXT), ())
        tokenizer = registry.make({"bpe": learned, "gpt2": gpt2}[kind])
    pairs = [("a b c d", "e"), ("a", "b c d e f"), ("", "a b"), ("a b", ""), ("", "")]

    def inputs(texts):
        first, second = zip(*texts, strict=True)
        return packing.padded(tokenizer, tokenizer.pack_texts(first, second, 20)[0])

    there, back = inputs(pairs), inputs([(b, a) for a, b in pairs])
    found = orders.both(there)
    for name, value in back.items():
        np.testing.assert_array_equal(found[name], tf.concat([there[name], value], 0))


def test_a_single_text_and_empty_rows_stay_as_they_are():
    ids = tf.constant([[2, 7, 8, 3, 0], [0, 0, 0, 0, 0]])
    inputs = {
        "input_word_ids": ids,
        "input_mask": tf.cast(ids > 0, tf.int32),
        "input_type_ids": tf.zeros_like(ids),
    }
    for name, value in orders.both(inputs).items():
        np.testing.assert_array_equal(value, tf.concat([inputs[name]] * 2, 0))
