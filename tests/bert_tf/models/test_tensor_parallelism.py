"""Layers in parts give what they give as a whole."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.layers import tensor_parallelism
from bert_tf.models.layers.tensor_parallelism import Cut
from tests.bert_tf.helpers import CONFIG

_CONFIG = BertConfig.from_dict(
    CONFIG.to_dict() | {"hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 2}
)
_IDS = np.arange(14, dtype=np.int32).reshape(2, 7)


def _encoder(dtype="float32"):
    found = BertEncoder(_CONFIG, dtype=dtype)
    found.build()
    rng = np.random.default_rng(0)
    for variable in found.trainable_variables:
        variable.assign(rng.normal(0, 0.2, variable.shape))
    return found


def _traced(encoder, parts):
    def function(ids):
        with fused_ops.inference(), tensor_parallelism.in_parts(Cut(parts)):
            found = encoder(ids)
            pooled = encoder.pooled(ids)
        return found["sequence_output"], found["attention_probs"], pooled

    return tf.function(function).get_concrete_function(tf.TensorSpec([None, None], tf.int32))


def _products(function):
    return sum(op.type == "MatMul" for op in function.graph.get_operations())


@pytest.mark.parametrize(
    ("wanted", "heads", "rest"), [(1, 1, 1), (2, 2, 2), (4, 3, 4), (6, 6, 4), (8, 6, 8)]
)
def test_results_are_those_of_the_whole(wanted, heads, rest):
    """There are as many parts as divide the heads, or the width between two maps."""
    encoder = _encoder()
    assert _CONFIG.intermediate_size == 32
    whole, parts = (_traced(encoder, count) for count in (1, wanted))
    layers = _CONFIG.num_hidden_layers
    # Twice all layers, the pooler and the segments.
    assert _products(whole) == 2 * (4 * layers + 2)
    assert _products(parts) == 2 * (2 * layers * (heads + rest) + 2)
    for found, exact in zip(
        tf.nest.flatten(parts(_IDS)), tf.nest.flatten(whole(_IDS)), strict=True
    ):
        np.testing.assert_allclose(found, exact, atol=2e-6)


def test_in_bfloat16_parts_are_bfloat16():
    encoder = _encoder("mixed_bfloat16")
    parts = _traced(encoder, 2)
    kernels = [each for each in parts.captured_inputs if each.dtype == tf.bfloat16]
    assert len(kernels) == 12 * _CONFIG.num_hidden_layers
    (found, *_), (exact, *_) = (function(_IDS) for function in (parts, _traced(encoder, 1)))
    np.testing.assert_allclose(tf.cast(found, tf.float32), tf.cast(exact, tf.float32), atol=0.1)


def test_a_block_that_several_layers_use_is_cut_once():
    block = _encoder().blocks[0]

    def function(x, bias):
        with fused_ops.inference(), tensor_parallelism.in_parts(Cut(2)):
            for _ in range(3):
                x, _ = block(x, bias)
        return x

    specs = tf.TensorSpec([None, 48]), tf.TensorSpec([1, 1, 1, None])
    traced = tf.function(function).get_concrete_function(*specs)
    constants = [each for each in traced.captured_inputs if each.dtype == tf.float32]
    assert len(constants) == 12  # two maps, each two kernels and a bias, in two parts


def test_all_that_is_traced_shares_the_parts():
    encoder, cut = _encoder(), Cut(2)

    def function(ids):
        with fused_ops.inference(), tensor_parallelism.in_parts(cut):
            return encoder(ids)["sequence_output"]

    spec = tf.TensorSpec([None, None], tf.int32)
    one, other = (
        {id(each) for each in tf.function(function).get_concrete_function(spec).captured_inputs}
        for _ in range(2)
    )
    assert len(one & other) >= 12 * _CONFIG.num_hidden_layers


def test_kernels_with_lora_and_in_int8_stay_whole():
    block = _encoder().blocks[0]
    block.feed_forward.intermediate.enable_lora(2)
    block.attention.output_dense.quantize("int8")
    for first, second, units in (
        (block.attention.qkv, block.attention.output_dense, 6),
        (block.feed_forward.intermediate, block.feed_forward.output_dense, 32),
    ):
        with tensor_parallelism.in_parts(Cut(2)):
            assert tensor_parallelism.parts(first, second, units, tf.float32) == []
