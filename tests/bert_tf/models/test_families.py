"""Named sizes of BERT's relatives: numbers of weights as published or counted in transformers."""

import math

import numpy as np
import pytest

from bert_tf.models import encoders
from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import parameter_shapes
from pipelines.common.errors import InputError

# Weights of the encoder without its pooler; of the pooler, if it is part of it; with heads.
SIZES = [
    ("base", 108_891_648, ("encoder/pooler",), 109_482_240),  # "110M"
    ("large", 334_092_288, ("encoder/pooler",), 335_141_888),  # "340M"
    ("roberta-base", 124_055_040, (), 124_055_040),
    ("roberta-large", 354_310_144, (), 354_310_144),
    ("distilbert-base", 66_362_880, ("masked_lm",), 66_985_530),
    ("mpnet-base", 108_895_872, ("masked_lm",), 109_518_527),
    ("nomic_bert-base", 136_731_648, ("masked_lm",), 137_354_304),
    ("modernbert-base", 149_014_272, ("masked_lm",), 149_655_232),
    ("modernbert-large", 394_781_696, ("masked_lm",), 395_881_664),
    ("albert-base", 11_092_992, ("encoder/pooler", "masked_lm", "sentence_order"), 11_813_810),
    ("albert-large", 16_634_368, ("encoder/pooler", "masked_lm", "sentence_order"), 17_847_474),
    ("albert-xlarge", 54_528_512, ("encoder/pooler", "masked_lm", "sentence_order"), 59_021_490),
    ("albert-xxlarge", 205_814_272, ("encoder/pooler", "masked_lm", "sentence_order"), 223_158_450),
    ("bart-base", 139_420_416, (), 139_420_416),
    ("bart-large", 406_291_456, (), 406_291_456),
    ("electra-small", 13_483_008, ("replaced_token",), 13_549_057),
    ("electra-base", 108_891_648, ("replaced_token",), 109_483_009),
    ("electra-large", 334_092_288, ("replaced_token",), 335_142_913),
]


@pytest.mark.parametrize(("name", "encoder", "parts", "total"), SIZES)
def test_numbers_of_weights(name, encoder, parts, total):
    shapes = parameter_shapes(BertConfig.named(name))
    of = {path: math.prod(shape) for path, shape in shapes.items()}
    bare = {p: n for p, n in of.items() if p.startswith("encoder/") and "/pooler/" not in p}
    assert sum(bare.values()) == encoder
    assert encoder + sum(n for p, n in of.items() if p.startswith(parts)) == total


@pytest.mark.parametrize(
    ("name", "width", "heads", "total"),
    [("electra-base", 256, 4, 33_740_602), ("electra-large", 256, 4, 51_295_290)],
)
def test_generators(name, width, heads, total):
    config = BertConfig.named(name).generator
    assert (config.hidden_size, config.num_attention_heads) == (width, heads)
    assert config.intermediate_size == 4 * width and config.generator is None
    shapes = parameter_shapes(config)
    counted = {p: math.prod(s) for p, s in shapes.items() if "/pooler/" not in p}
    assert total == sum(n for p, n in counted.items() if p.startswith(("encoder/", "masked_lm")))


def test_every_family_has_the_sizes_of_bert():
    for family in ("roberta", "mpnet", "nomic_bert", "distilbert", "albert", "electra", "bart"):
        config = BertConfig.named(f"{family}-tiny", vocab_size=100)
        assert (config.num_hidden_layers, config.hidden_size) == (2, 128)
        assert encoders.unallocated(config).parameters > 0


def test_an_unknown_family_is_named():
    with pytest.raises(InputError, match=r"'deberta-base' is unknown; use debug, tiny.*electra-"):
        BertConfig.named("deberta-base")


@pytest.mark.parametrize("family", ["roberta", "electra", "bart"])
def test_a_dropout_rate_replaces_all_of_a_family(family):
    config = BertConfig.named(f"{family}-tiny", vocab_size=50)
    assert config.pooler_dropout == 0.1
    for rate in (0.0, 0.3):
        changed = config.with_dropout(rate)
        assert (changed.hidden_dropout_prob, changed.pooler_dropout) == (rate, rate)
    assert BertConfig.named("tiny", vocab_size=50).with_dropout(0.3).pooler_dropout == 0
    assert BertConfig.named("roberta-tiny").with_dropout(0).with_dropout(0.3).pooler_dropout == 0.3


def test_gpt2_begins_with_smaller_output_projections():
    """By the root of the number of residual layers, which are two for each block."""
    encoder = encoders.make(BertConfig.named("gpt2-tiny", vocab_size=30, num_hidden_layers=8))
    block = encoder.blocks[0]
    for layer, deviation in (
        (block.attention.qkv, 0.02),
        (block.attention.output_dense, 0.02 / 4),
        (block.feed_forward.intermediate, 0.02),
        (block.feed_forward.output_dense, 0.02 / 4),
    ):
        spread = np.std(layer.kernel.numpy())
        # A normal distribution truncated at two deviations has 0.88 of its deviation.
        assert spread == pytest.approx(0.88 * deviation, rel=0.05)
