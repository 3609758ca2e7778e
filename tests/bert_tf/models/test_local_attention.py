"""Attention to neighbours only, in blocks, against attention with a mask over all pairs."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import BertConfig, BertEncoder
from bert_tf.inspection import attention
from bert_tf.models.layers import SelfAttention
from bert_tf.models.layers.attention import attention_bias
from bert_tf.models.layers.token_rows import MASKED, Queries
from bert_tf.tasks.numbered import TokenSequence
from pipelines.common.errors import InputError

WIDTH, HEADS = 8, 2


def layers(window):
    """The same layer with and without a window."""
    config = dataclasses.replace(
        BertConfig.named("modernbert-debug", vocab_size=50, hidden_size=WIDTH),
        **{"num_attention_heads": HEADS, "initializer_range": 0.5, "local_attention": 2 * window},
        **{"rope_theta": 100.0, "local_rope_theta": None},
    )
    found = [SelfAttention(config, index) for index in (1, 0)]
    for layer in found:
        layer.build()
    found[1].set_weights(found[0].get_weights())
    return found


def inputs(length, rows=2):
    x = tf.random.stateless_normal([rows * length, WIDTH], [1, length])
    lengths = np.array([[length], [max(1, length - 3)]])[:rows]
    return x, tf.constant(np.arange(length) < lengths, tf.int32)


def band(mask, window):
    """The mask bias over all pairs."""
    place = np.arange(mask.shape[1])
    near = abs(place - place[:, None]) <= window
    return attention_bias(mask, False) + np.where(near, 0, MASKED).astype(np.float32)


@pytest.mark.parametrize("window", [1, 3, 64])
@pytest.mark.parametrize("length", [1, 3, 64, 65, 200])
def test_blocks_give_what_a_mask_gives(window, length):
    local, full = layers(window)
    x, mask = inputs(length)
    real = tf.reshape(mask, [-1]) > 0

    def run(layer, bias):
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = tf.boolean_mask(layer(x, bias)[0], real)
            loss = tf.reduce_sum(found * tf.random.stateless_normal(tf.shape(found), [2, 3]))
        return [found, tape.gradient(loss, x)]

    wanted = run(full, band(mask, window))
    bias = attention_bias(mask, False)
    ways = [run(local, bias), tf.function(run)(local, bias)]
    spec = tf.function(
        lambda x, bias: local(x, bias)[0],
        input_signature=[tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None, 1, 1, None])],
    )
    ways.append([tf.boolean_mask(spec(x, bias), real)])
    for found in ways:
        for one, other in zip(found, wanted, strict=False):
            np.testing.assert_allclose(one, other, atol=1e-5)
    every = tf.reshape(full(x, band(mask, window))[0], [2, length, WIDTH])
    for places in ([], [length - 1, 0, length // 2]):
        queries = Queries(tf.constant([places, places], tf.int32, [2, len(places)]))
        chosen = tf.reshape(local(x, bias, queries=queries)[0], [2, -1, WIDTH])
        np.testing.assert_allclose(chosen, tf.gather(every, [0, *places], axis=1), atol=1e-5)


@pytest.mark.parametrize("place", [0, 63, 64, 130, 199])
def test_the_window_of_128_is_64_on_each_side(place):
    config = BertConfig.named("modernbert-debug", vocab_size=50)
    layer = BertEncoder(config).blocks[1].attention
    assert (layer.window, layer.rope_theta) == (64, 10_000.0)
    assert BertEncoder(config).blocks[3].attention.window is None
    x, mask = tf.random.stateless_normal([200, config.hidden_size], [1, 1]), tf.ones([1, 200])
    other = tf.tensor_scatter_nd_update(x, [[place]], x[:1] + 1)
    bias = attention_bias(mask, False)
    before, after = (layer(value, bias)[0].numpy() for value in (x, other))
    changed = np.flatnonzero(np.abs(before - after).max(1) > 1e-7)
    np.testing.assert_array_equal(changed, np.arange(max(0, place - 64), min(200, place + 65)))


def test_memory_and_products_grow_with_the_length():
    local, full = layers(16)

    def elements(layer, length):
        """The elements of all tensors of a forward and a backward pass."""

        @tf.function
        def run(x, bias):
            with tf.GradientTape() as tape:
                tape.watch(x)
                total = tf.reduce_sum(layer(x, bias)[0])
            return tape.gradient(total, x)

        traced = run.get_concrete_function(
            tf.TensorSpec([length, WIDTH]), tf.TensorSpec([1, 1, 1, length])
        )
        shapes = [value.shape for op in traced.graph.get_operations() for value in op.outputs]
        assert all(shape.is_fully_defined() for shape in shapes)
        return sum(math.prod(shape) for shape in shapes)

    assert elements(local, 4096) / elements(local, 1024) < 4.1
    assert elements(full, 1024) / elements(full, 256) > 10
    assert local.flops(4096) < 4.1 * local.flops(1024)
    assert local.flops(20) == full.flops(20)


def test_attention_of_local_layers_is_shown_as_that_of_others():
    config = dataclasses.replace(
        BertConfig.named("modernbert-debug", vocab_size=50), local_attention=4
    )
    encoder = BertEncoder(config)
    ids = np.arange(11, dtype=np.int32)
    sequence = TokenSequence(ids, *[np.zeros(11, np.int32)] * 6, 11)
    found = attention.of_encoder(encoder, sequence)
    assert found.shape == (4, 1, 11, 11)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    far = abs(np.arange(11) - np.arange(11)[:, None]) > 2
    assert (found[1:3, :, far] == 0).all() and (found[[0, 3]][:, :, far] > 0).all()
    assert (found[1:3, :, ~far] > 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"local_attention": 5, "global_every": 2}, "local_attention is 5; it must be even"),
        ({"local_attention": 4, "shared_layers": True}, "does not go with shared_layers"),
        ({"global_every": 2}, "need a local_attention"),
        ({"rope_theta": 10.0, "causal": True}, "rope_theta does not go with causal"),
        ({"rope_theta": 10.0, "position_offset": 2}, "rope_theta does not go with position_offset"),
        ({"rope_theta": 10.0, "num_attention_heads": 256}, "heads of an odd width"),
        ({"relative_positions": True, "generator_size": 0.5}, "does not go with generator_size"),
        ({"local_rope_theta": 9.0, "local_attention": 4}, "local_rope_theta needs a rope_theta"),
    ],
)
def test_what_does_not_go_together_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        BertConfig(**changes)
