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
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
    "layer_norm_eps": "layer_norm_epsilon",
}
_FIXED = ("causal", "type_vocab_size", "embedding_norm", "pooler_act", "vocab_transform")
_SUMMARY = {
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "summary_proj_to_labels": True,
    "summary_activation": None,
}
_TOKENS = {"pad_token_id": "pad", "bos_token_id": "separator", "eos_token_id": "separator"}
# Values of config.json that are the only supported ones.
_ONLY = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": True,
}

# Activations that transformers has for GPT, whose "gelu" is the one with tanh.
_GPT_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu", "relu": "relu"}


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    width = values.get("n_inner") or 4 * whole(values, "hidden_size")
    # In transformers, this "gelu" of GPT is the one with tanh.
    activation = {"hidden_act": "gelu"} if values["hidden_act"] == "gelu" else {}
    rates = {"head_dropout": values.get("summary_first_dropout")}
    return {"intermediate_size": width, **rates, **(activation if "afn" in values else {})}


def _to_keys(config: BertConfig) -> dict[str, Any]:
    if config.intermediate_size != 4 * config.hidden_size and config.model_type == "openai-gpt":
        raise InputError(
            f"intermediate_size is {config.intermediate_size}, but Hugging Face's GPT always has "
            f"{4 * config.hidden_size}; write it as bert_tf."
        )
    return {
        **_SUMMARY,
        "embd_pdrop": config.hidden_dropout_prob,
        "n_inner": config.intermediate_size,
        "summary_first_dropout": config.task_dropout,
        "is_decoder": False,  # causal in any case
    }


def _to_gpt_keys(config: BertConfig) -> dict[str, Any]:
    if config.hidden_act not in _GPT_ACTIVATIONS:
        known = ", ".join(_GPT_ACTIVATIONS)
        raise InputError(
            f"hidden_act is {config.hidden_act}, but Hugging Face's GPT has only {known}; write it "
            "as bert_tf."
        )
    return _to_keys(config) | {"hidden_act": _GPT_ACTIVATIONS[config.hidden_act]}


def _choice(class_name: str) -> dict[str, Architecture]:
    name, head = f"{class_name}DoubleHeadsModel", "multiple_choice_head.summary"
    return {"MultipleChoice": Architecture(name, head=head, lacks=(POOLER,))}


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
    keys=_KEYS | {"hidden_act": "afn"},
    defaults={"vocab_size": 40478, "hidden_size": 768, "hidden_act": "gelu", "afn": "gelu"}
    | {"layer_norm_eps": 1e-5},
    only=_ONLY,
    fixed={name: FAMILIES["openai-gpt"].values[name] for name in _FIXED},
    options=frozenset(["head_dropout"]),
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
    keys=_KEYS | {"hidden_act": "activation_function"},
    defaults={
        "vocab_size": 50257,
        "hidden_size": 768,
        "hidden_act": "gelu_new",
        "max_position_embeddings": 1024,
        "layer_norm_eps": 1e-5,
    },
    only=_ONLY,
    fixed={name: FAMILIES["gpt2"].values[name] for name in (*_FIXED, "pre_norm")},
    options=frozenset(["head_dropout"]),
    to_options=_to_options,
    to_keys=_to_keys,
    transposed="heads/",
    token_keys=_TOKENS,
    tokenizer="byte_bpe",
)
