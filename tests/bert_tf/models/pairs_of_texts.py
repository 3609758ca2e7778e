"""A functional Keras model on pairs of texts, with something to learn."""

import random

import keras
import numpy as np
import tensorflow as tf

from bert_tf import BertConfig, BertEncoder
from tests import tokenizers
from tests.bert_tf.labelled_data import BAD, GOOD, TOKENS, sentence

LENGTH = 24
CONFIG = BertConfig.named(
    "debug", vocab_size=len(TOKENS), max_position_embeddings=LENGTH, initializer_range=0.1
)


def examples(count=192):
    """Pairs of texts, and whether the second one is good; drawn by a seed."""
    rng = random.Random(0)
    second = [rng.choice([GOOD, BAD]) for _ in range(count)]
    texts = [sentence(rng, rng.choice(rng.choice([GOOD, BAD])), 5) for _ in second]
    pairs = [sentence(rng, rng.choice(words), 5) for words in second]
    return texts, pairs, np.array([words is GOOD for words in second], np.int32)


def features():
    """The inputs of all examples, and their labels."""
    texts, pairs, labels = examples()
    return tokenizers.wordpiece(TOKENS)(texts, pairs, LENGTH, fixed_length=True), labels


def dataset():
    """Batches of inputs and labels, the texts tokenized within tf.data."""
    tokenizer = tokenizers.wordpiece(TOKENS)
    return (
        tf.data.Dataset.from_tensor_slices(examples())
        .batch(16, drop_remainder=True)
        .map(lambda a, b, label: (tokenizer(a, b, LENGTH, fixed_length=True), label))
        .cache()
    )


def make_model(dtype="float32"):
    """An encoder of debug size, and a head."""
    inputs = {
        name: keras.Input((LENGTH,), dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    outputs = BertEncoder(CONFIG, dtype=dtype, name="encoder")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(outputs["pooled_output"]))


def fit(model, data=None, epochs=6, **options):
    """Compiles and fits, by default tensors; returns what was noted of each epoch."""
    model.compile(
        keras.optimizers.AdamW(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    given = {"x": data} if data else dict(zip("xy", features(), strict=True))
    return model.fit(**given, batch_size=None if data else 16, epochs=epochs, verbose=0).history
