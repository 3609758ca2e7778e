"""Configurations."""

import json

import pytest

from bert_tf.models.config import SIZES, BertConfig
from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from pipelines.common.errors import InputError


def test_round_trip(tmp_path):
    config = BertConfig.named("mini", vocab_size=1000)
    config.save(str(tmp_path / "bert_config.json"))
    assert BertConfig.load(str(tmp_path / "bert_config.json")) == config


def test_released_configurations_load():
    released = {
        "attention_probs_dropout_prob": 0.1, "directionality": "bidi", "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
        "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12,
        "num_hidden_layers": 12, "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
        "type_vocab_size": 2, "vocab_size": 21128,
    }  # fmt: skip
    assert BertConfig.from_dict(released) == BertConfig(vocab_size=21128)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_sise": 3}, "unknown key 'hidden_sise'"),
        ({"hidden_size": 10, "num_attention_heads": 3}, "not a multiple"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is unknown"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ],
)
def test_mistakes_are_named(tmp_path, values, message):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"bert_config.json: .*{message}"):
        BertConfig.load(str(path))
    with pytest.raises(InputError, match="model 'huge' is unknown; use tiny"):
        BertConfig.named("huge")


def _parameters(config: BertConfig, heads: bool) -> int:
    """Counted by hand from the shapes in the paper."""
    h, i = config.hidden_size, config.intermediate_size
    embeddings = (config.vocab_size + config.max_position_embeddings + 2) * h + 2 * h
    block = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 4 * h
    encoder = embeddings + config.num_hidden_layers * block + h * h + h
    return encoder + (h * h + 3 * h + config.vocab_size + 2 * h + 2 if heads else 0)


@pytest.mark.parametrize("name", ["tiny", "mini", "small"])
def test_parameters_are_those_of_the_shapes(name):
    config = BertConfig.named(name, vocab_size=997)
    model = MaskedLMNextSentence(config)
    assert model.encoder.count_params() == _parameters(config, heads=False) == config.parameters
    assert model.count_params() == _parameters(config, heads=True)


def test_base_and_large_have_the_published_sizes():
    base, large = BertConfig.named("base"), BertConfig.named("large")
    assert base == BertConfig()
    assert _parameters(base, heads=False) == 109_482_240  # "110M"
    assert _parameters(large, heads=False) == 335_141_888  # "340M"
    assert (large.num_hidden_layers, large.hidden_size, large.num_attention_heads) == (24, 1024, 16)
    assert SIZES["tiny"] == (2, 128)
