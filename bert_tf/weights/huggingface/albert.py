"""ALBERT in transformers."""

from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER, SENTENCE_ORDER
from bert_tf.weights.huggingface import bert
from bert_tf.weights.huggingface.family import Architecture, Family
from pipelines.common.errors import InputError

_LAYER = "{prefix}encoder.albert_layer_groups.0.albert_layers.0"
_NAMES = {
    **{name: theirs for name, theirs in bert.ENCODER.items() if "/embeddings/" in name},
    "encoder/embeddings/projection": "{prefix}encoder.embedding_hidden_mapping_in",
    "encoder/block_{i}/attention/qkv": f"{_LAYER}.attention.{{part}}",
    "encoder/block_{i}/attention/output": f"{_LAYER}.attention.dense",
    "encoder/block_{i}/attention_norm": f"{_LAYER}.attention.LayerNorm",
    "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}.ffn",
    "encoder/block_{i}/feed_forward/output": f"{_LAYER}.ffn_output",
    "encoder/block_{i}/output_norm": f"{_LAYER}.full_layer_layer_norm",
    "masked_lm/transform": "predictions.dense",
    "masked_lm/norm": "predictions.LayerNorm",
    "masked_lm/output_bias": "predictions.bias",
    "sentence_order": "sop_classifier.classifier",
}
_POOLER = "{prefix}pooler"
_PAIRS = (NEXT_SENTENCE, SENTENCE_ORDER)
_GROUPS = ("num_hidden_groups", "inner_group_num")  # of layers with weights of their own


def _to_keys(config: BertConfig) -> dict[str, Any]:
    if config.embedding_size is None:
        raise InputError(
            "Hugging Face's ALBERT projects its embeddings, but this model has no embedding_size; "
            "write it as bert_tf."
        )
    return {"classifier_dropout_prob": config.task_dropout, **dict.fromkeys(_GROUPS, 1)}


FAMILY = Family(
    model_type="albert",
    title="ALBERT",
    class_name="Albert",
    prefix="albert.",
    names=_NAMES,
    tied={"predictions.decoder.weight": bert.WORDS, "predictions.decoder.bias": "predictions.bias"},
    pretraining=(
        Architecture(
            "AlbertForPreTraining",
            needs=(POOLER, MASKED_LM, SENTENCE_ORDER),
            lacks=(NEXT_SENTENCE,),
            pooler=_POOLER,
        ),
        Architecture(
            "AlbertForMaskedLM", needs=(MASKED_LM,), lacks=(POOLER, *_PAIRS), pooler=_POOLER
        ),
        Architecture("AlbertModel", lacks=(MASKED_LM, *_PAIRS), pooler=_POOLER),
    ),
    pooled_head=Architecture(needs=(POOLER,), lacks=(MASKED_LM, *_PAIRS), pooler=_POOLER),
    token_head=Architecture(lacks=(MASKED_LM, *_PAIRS, POOLER), pooler=_POOLER),
    keys=bert.KEYS
    | {"embedding_size": "embedding_size", "classifier_dropout_prob": "head_dropout"},
    only=dict.fromkeys(_GROUPS, (1,)),
    harmless=frozenset(  # of google-research's configurations
        "down_scale_factor gap_size layers_to_keep net_structure_type num_memory_blocks".split()
    ),
    defaults={
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout_prob": 0.1,
    },
    fixed={"shared_layers": True},
    to_keys=_to_keys,
    token_keys={"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "separator"},
    tokenizer="sentencepiece",
)
