"""Encoders of all families. A new family is a file and a line in each function here."""

from typing import Any

from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.config import BertConfig
from bert_tf.models.electra import Generator, ReplacedTokenHead
from bert_tf.models.elmo import ElmoEncoder, WordHead
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.encoder_decoder import EncoderDecoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.models.layers import Dense
from bert_tf.models.layers.base import Declared


def _type_of(config: EncoderConfig) -> type[Encoder]:
    if isinstance(config, ElmoConfig):
        return ElmoEncoder
    assert isinstance(config, BertConfig)  # the only other family
    return EncoderDecoder if config.num_decoder_layers else BertEncoder


def make(config: EncoderConfig, **kwargs: Any) -> Encoder:
    """Creates the encoder of a configuration; other arguments as for `BertEncoder`."""
    return _type_of(config)(config, **kwargs)


def unallocated(config: EncoderConfig) -> Encoder:
    """An encoder without variables, which reports `shapes`, `parameters` and `flops`."""
    return _type_of(config).unallocated(config)


def pretraining_parts(config: EncoderConfig) -> tuple[Declared, ...]:
    """What pre-training may add to an encoder, not yet built."""
    if isinstance(config, ElmoConfig):
        return (WordHead(config, name="bidirectional_lm"),)
    assert isinstance(config, BertConfig)  # the only other family
    found: list[Declared] = [
        MaskedLMHead(config, name="masked_lm"),
        Dense(config.hidden_size, 2, name="next_sentence"),
    ]
    if config.model_type == "albert":
        found.append(Dense(config.hidden_size, 2, name="sentence_order"))
    if config.model_type == "electra" or config.generator:
        found.append(ReplacedTokenHead(config, name="replaced_token"))
    if config.generator:
        found.append(Generator(config.generator, name="generator"))
        found.append(MaskedLMHead(config.generator, name="generator_lm"))
    return tuple(found)
