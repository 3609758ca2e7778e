"""GPT and GPT-2 in transformers; their linear maps are stored as ours, [inputs, outputs]."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.weights.bundle import POOLER
from bert_tf.weights.huggingface.family import Architecture, Family, whole
from pipelines.common.errors import InputError

_BLOCK = "{prefix}h.{i}"
_BLOCKS = {
    "encoder/block_{i}/attention_norm": f"{_BLOCK}.ln_1",
    "encoder/block_{i}/attention/qkv": f"{_BLOCK}.attn.c_attn",
    "encoder/block_{i}/attention/output": f"{_BLOCK}.attn.c_proj",
    "encoder/block_{i}/output_norm": f"{_BLOCK}.ln_2",
    "encoder/block_{i}/feed_forward/intermediate": f"{_BLOCK}.mlp.c_fc",
    "encoder/block_{i}/feed_forward/output": f"{_BLOCK}.mlp.c_proj",
}
_KEYS = {
    "vocab_size": "vocab_size",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "summary_first_dropout": "head_dropout",
}
_ALIASES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}
_FIXED = ("causal", "type_vocab_size", "embedding_norm", "pooler_act", "vocab_transform")
_SUMMARY = {
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "summary_proj_to_labels": True,
    "summary_activation": None,
}
_TOKENS = {"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "separator"}
# Causal in any case; all tokens have a position, and products of attention one order of steps.
_HARMLESS = frozenset([*_SUMMARY, "embd_pdrop", "is_decoder", "n_ctx", "reorder_and_upcast_attn"])
# Activations that transformers has for GPT, whose "gelu" is the one with tanh.
_GPT_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu", "relu": "relu"}


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    activation = {"hidden_act": "gelu"} if values.get("afn") == "gelu" else {}
    return {"intermediate_size": values.get("n_inner") or 4 * whole(values, "n_embd"), **activation}


def _to_keys(config: BertConfig) -> dict[str, Any]:
    if config.intermediate_size != 4 * config.hidden_size and config.model_type == "openai-gpt":
        raise InputError(
            f"intermediate_size is {config.intermediate_size}, but Hugging Face's GPT always has "
            f"{4 * config.hidden_size}; write it as bert_tf."
        )
    return {
        **_SUMMARY,
        "embd_pdrop": config.hidden_dropout_prob,
        "summary_first_dropout": config.task_dropout,
        **({} if config.model_type == "openai-gpt" else {"n_inner": config.intermediate_size}),
    }


def _to_gpt_keys(config: BertConfig) -> dict[str, Any]:
    if config.hidden_act not in _GPT_ACTIVATIONS:
        known = ", ".join(_GPT_ACTIVATIONS)
        raise InputError(
            f"hidden_act is {config.hidden_act}, but Hugging Face's GPT has only {known}; write it "
            "as bert_tf."
        )
    return _to_keys(config) | {"afn": _GPT_ACTIVATIONS[config.hidden_act]}


def _choice(class_name: str) -> dict[str, Architecture]:
    name, head = f"{class_name}DoubleHeadsModel", "multiple_choice_head.summary"
    only = {key: (value,) for key, value in _SUMMARY.items()}
    return {"MultipleChoice": Architecture(name, head=head, lacks=(POOLER,), only=only)}


GPT = Family(
    model_type="openai-gpt",
    title="GPT",
    class_name="OpenAIGPT",
    prefix="transformer.",
    names=_BLOCKS
    | {
        "encoder/embeddings/word_embeddings": "{prefix}tokens_embed.weight",
        "encoder/embeddings/position_embeddings": "{prefix}positions_embed.weight",
    },
    tied={"lm_head.weight": "{prefix}tokens_embed.weight"},
    pretraining=(Architecture("OpenAIGPTLMHeadModel"), Architecture("OpenAIGPTModel")),
    pooled_head=Architecture(),
    token_head=Architecture(),
    heads=_choice("OpenAIGPT")
    | {"SequenceClassification": Architecture(head="score", lacks=(POOLER,), biased=False)},
    lacking_heads=frozenset(["TokenClassification", "QuestionAnswering"]),
    keys=_KEYS | {"afn": "hidden_act"},
    aliases=_ALIASES,
    harmless=_HARMLESS | {"n_special", "predict_special_tokens"},
    defaults={"vocab_size": 40478, "n_embd": 768, "afn": "gelu", "layer_norm_epsilon": 1e-5}
    | {"summary_first_dropout": 0.1, "bos_token_id": None, "eos_token_id": None},
    fixed={name: FAMILIES["openai-gpt"].values[name] for name in _FIXED},
    to_options=_to_options,
    to_keys=_to_gpt_keys,
    transposed="heads/",
    token_keys=_TOKENS,
    tokenizer="bpe",
)

GPT2 = Family(
    model_type="gpt2",
    title="GPT-2",
    class_name="GPT2",
    prefix="transformer.",
    names=_BLOCKS
    | {
        "encoder/embeddings/word_embeddings": "{prefix}wte.weight",
        "encoder/embeddings/position_embeddings": "{prefix}wpe.weight",
        "encoder/final_norm": "{prefix}ln_f",
    },
    tied={"lm_head.weight": "{prefix}wte.weight"},
    pretraining=(Architecture("GPT2LMHeadModel"), Architecture("GPT2Model")),
    pooled_head=Architecture(),
    token_head=Architecture(lacks=(POOLER,)),
    heads=_choice("GPT2"),
    # It reads the last token that is not padding, which is not ours: that equals padding.
    lacking_heads=frozenset(["SequenceClassification"]),
    keys=_KEYS | {"activation_function": "hidden_act"},
    further_keys=frozenset(["n_inner"]),
    aliases=_ALIASES,
    harmless=_HARMLESS,
    defaults={
        "vocab_size": 50257,
        "n_embd": 768,
        "activation_function": "gelu_new",
        "n_positions": 1024,
        "layer_norm_epsilon": 1e-5,
        "summary_first_dropout": 0.1,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
    },
    only={"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,)},
    fixed={name: FAMILIES["gpt2"].values[name] for name in (*_FIXED, "pre_norm")},
    to_options=_to_options,
    to_keys=_to_keys,
    transposed="heads/",
    token_keys=_TOKENS,
    tokenizer="byte_bpe",
)
