"""BART in transformers."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.weights.bundle import POOLER
from bert_tf.weights.huggingface.family import Architecture, Family, whole
from pipelines.common.errors import InputError


def _blocks(ours: str, theirs: str) -> dict[str, str]:
    """The names of what blocks of encoder and decoder share."""
    theirs = f"{{prefix}}{theirs}.layers.{{i}}"
    return {
        f"encoder/{ours}_{{i}}/{name}": f"{theirs}.{other}"
        for name, other in {
            "attention/qkv": "self_attn.{p}_proj",
            "attention/output": "self_attn.out_proj",
            "attention_norm": "self_attn_layer_norm",
            "feed_forward/intermediate": "fc1",
            "feed_forward/output": "fc2",
            "output_norm": "final_layer_norm",
        }.items()
    }


_CROSS = "{prefix}decoder.layers.{i}.encoder_attn"
_WORDS = "{prefix}shared.weight"
_NAMES = {
    "encoder/embeddings/word_embeddings": _WORDS,
    "encoder/embeddings/position_embeddings": "{prefix}encoder.embed_positions.weight",
    "encoder/embeddings/norm": "{prefix}encoder.layernorm_embedding",
    "encoder/embeddings/decoder/position_embeddings": "{prefix}decoder.embed_positions.weight",
    "encoder/embeddings/decoder/norm": "{prefix}decoder.layernorm_embedding",
    **_blocks("block", "encoder"),
    **_blocks("decoder_block", "decoder"),
    "encoder/decoder_block_{i}/cross_attention/query": f"{_CROSS}.q_proj",
    "encoder/decoder_block_{i}/cross_attention/key": f"{_CROSS}.k_proj",
    "encoder/decoder_block_{i}/cross_attention/value": f"{_CROSS}.v_proj",
    "encoder/decoder_block_{i}/cross_attention/output": f"{_CROSS}.out_proj",
    "encoder/decoder_block_{i}/cross_norm": f"{_CROSS}_layer_norm",
}
_SIDES = ("encoder", "decoder")
# Values that encoder and decoder share here.
_SHARED = {"ffn_dim": "intermediate_size", "attention_heads": "num_attention_heads"}
_TRAINING = dict.fromkeys(("activation_dropout", "encoder_layerdrop", "decoder_layerdrop"), 0.0)
_OFFSET = 2  # rows of the position tables before the first token's, which config.json leaves out


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    start, end = values["decoder_start_token_id"], values["eos_token_id"]
    if start != end:
        raise InputError(
            f"decoder_start_token_id is {start!r}, but eos_token_id {end!r}; decoders here begin "
            "with the end token."
        )
    encoder, decoder = (whole(values, f"{side}_layers", 12) for side in _SIDES)
    options = {
        "num_hidden_layers": encoder + decoder,
        "num_decoder_layers": decoder,
        "max_position_embeddings": whole(values, "max_position_embeddings", 1024) + _OFFSET,
        "pooler_dropout": values.get("classifier_dropout", values.get("classif_dropout", 0.0)),
    }
    for key, ours in _SHARED.items():
        sizes = {whole(values, f"{side}_{key}") for side in _SIDES}
        if len(sizes) > 1:
            raise InputError(f"encoder_{key} and decoder_{key} differ; they must be equal.")
        options[ours] = sizes.pop()
    return options


def _to_keys(config: BertConfig) -> dict[str, Any]:
    encoder = config.num_hidden_layers - config.num_decoder_layers
    keys = {
        "encoder_layers": encoder,
        "decoder_layers": config.num_decoder_layers,
        "max_position_embeddings": config.max_position_embeddings - _OFFSET,
        "classifier_dropout": config.pooler_dropout,
        **_TRAINING,
        "is_encoder_decoder": True,
    }
    for key, ours in _SHARED.items():
        keys |= {f"{side}_{key}": getattr(config, ours) for side in _SIDES}
    return keys


FAMILY = Family(
    model_type="bart",
    title="BART",
    class_name="Bart",
    prefix="model.",
    names=_NAMES,
    tied=dict.fromkeys(
        (
            "{prefix}encoder.embed_tokens.weight",
            "{prefix}decoder.embed_tokens.weight",
            "lm_head.weight",
        ),
        _WORDS,
    ),
    pretraining=(
        Architecture("BartForConditionalGeneration", lacks=(POOLER,), zeros="final_logits_bias"),
        Architecture("BartModel", lacks=(POOLER,)),
    ),
    pooled_head=Architecture(
        needs=(POOLER,), head="classification_head.out_proj", pooler="classification_head.dense"
    ),
    token_head=Architecture(lacks=(POOLER,)),
    lacking_heads=frozenset(["TokenClassification", "MultipleChoice"]),
    keys={
        "vocab_size": "vocab_size",
        "d_model": "hidden_size",
        "activation_function": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "init_std": "initializer_range",
    },
    further_keys=frozenset(f"{side}_{size}" for side in _SIDES for size in ("layers", *_SHARED))
    | {"max_position_embeddings", "classifier_dropout", "classif_dropout"},
    aliases={
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "encoder_attention_heads",
    },
    only={
        "is_encoder_decoder": (True,),
        "scale_embedding": (False,),
        "normalize_before": (False,),
        "add_bias_logits": (False,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (False,),
        "normalize_embedding": (True,),
        "extra_pos_embeddings": (_OFFSET,),
    },
    harmless=frozenset(_TRAINING),
    defaults={"vocab_size": 50265, "d_model": 1024, "attention_dropout": 0.0, "pad_token_id": 1}
    | {"bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    | {f"{side}_ffn_dim": 4096 for side in _SIDES}
    | {f"{side}_attention_heads": 16 for side in _SIDES},
    fixed={
        name: FAMILIES["bart"].values[name]
        for name in ("type_vocab_size", "vocab_transform", "layer_norm_eps", "position_offset")
    },
    options=frozenset(["num_decoder_layers", "pooler_dropout"]),
    to_options=_to_options,
    to_keys=_to_keys,
    token_keys={
        "pad_token_id": "pad",
        "bos_token_id": "start",
        "eos_token_id": "separator",
        "decoder_start_token_id": "separator",
        # Generated texts begin with <s>, and those that reach the limit end with </s>.
        "forced_bos_token_id": "start",
        "forced_eos_token_id": "separator",
    },
    tokenizer="byte_bpe",
)
