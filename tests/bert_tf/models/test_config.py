"""Configurations."""

import json

import pytest

from bert_tf.models import configs
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from pipelines.common.errors import InputError


def test_round_trip(tmp_path):
    config = BertConfig.named("mini", vocab_size=1000)
    config.save(str(tmp_path / "bert_config.json"))
    assert configs.load(str(tmp_path / "bert_config.json")) == config


def test_released_configurations_load():
    released = {
        "attention_probs_dropout_prob": 0.1, "directionality": "bidi", "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
        "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12,
        "num_hidden_layers": 12, "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
        "is_decoder": False, "position_embedding_type": "absolute", "pruned_heads": {},
        "type_vocab_size": 2, "vocab_size": 21128,
    }  # fmt: skip
    assert BertConfig.from_dict(released) == BertConfig(vocab_size=21128)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_sise": 3}, "unknown key 'hidden_sise'"),
        ({"position_embedding_type": "relative_key"}, "is 'relative_key'; only 'absolute' is supp"),
        ({"is_decoder": True}, "is_decoder is True; only False is supported"),
        ({"hidden_size": 10, "num_attention_heads": 3}, "not a multiple"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is unknown"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"type_vocab_size": -1}, "type_vocab_size is -1; it must be a whole number from 0 to 2,"),
        ({"embedding_size": 0}, "embedding_size is 0"),
        ({"position_offset": 512}, "position_offset 512 leaves none of the 512 max_position"),
        ({"shared_layers": 1}, "shared_layers is 1; it must be true or false"),
        ({"embedding_norm": None}, "embedding_norm is None; it must be true or false"),
        ({"pooler_act": "swish"}, "pooler_act 'swish' is unknown"),
        ({"pooler_dropout": 1}, "pooler_dropout is 1; it must be from 0 to below 1"),
        ({"pooler_act": None, "pooler_dropout": 0.1}, "there is no pooler"),
        ({"model_type": "xlnet"}, "model_type 'xlnet' is unknown; use one of bert, roberta"),
    ],
)
def test_mistakes_are_named(tmp_path, values, message):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"bert_config.json: .*{message}"):
        configs.load(str(path))
    with pytest.raises(InputError, match="model 'huge' is unknown; use debug, tiny"):
        BertConfig.named("huge")
    with pytest.raises(InputError, match=r"is an ELMo, not a BERT; use ElmoConfig\.named"):
        BertConfig.named("elmo-tiny")


def test_options_are_written_where_they_are_not_as_in_bert(tmp_path):
    assert BertConfig().options == {} and len(BertConfig().to_dict()) == 12
    options = {
        "causal": True, "model_type": "roberta", "embedding_size": 8, "embedding_norm": False,
        "position_offset": 2, "shared_layers": True, "pooler_act": None,
    }  # fmt: skip
    config = BertConfig(**options)
    assert config.options == options
    config.save(str(tmp_path / "bert_config.json"))
    assert configs.load(str(tmp_path / "bert_config.json")) == config


def test_segments_need_types_to_tell_them_apart_unless_there_are_none():
    with pytest.raises(InputError, match="here: has sequences of 2 segments"):
        BertConfig(type_vocab_size=1).check_segments(2, "here")
    BertConfig(type_vocab_size=0).check_segments(2, "here")
    BertConfig.named("roberta-base").check_segments(1, "here")


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
    told = BertEncoder.unallocated(config).parameters
    assert model.encoder.count_params() == _parameters(config, heads=False) == told
    assert model.count_params() == _parameters(config, heads=True)
