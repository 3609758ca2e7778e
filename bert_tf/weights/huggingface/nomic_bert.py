"""NomicBERT in transformers; folders of its authors, which bring code of their own, are refused."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER
from bert_tf.weights.huggingface import bert
from bert_tf.weights.huggingface.family import Architecture, Family, whole
from bert_tf.weights.huggingface.modernbert import agreed_theta
from pipelines.common.errors import InputError

_LAYER = "{prefix}encoder.layers.{i}"
_NAMES = {  # those of files, which transformers maps to its own
    "encoder/embeddings/word_embeddings": bert.WORDS,
    "encoder/embeddings/token_type_embeddings": "{prefix}embeddings.token_type_embeddings.weight",
    "encoder/embeddings/norm": "{prefix}emb_ln",
    "encoder/block_{i}/attention/qkv": f"{_LAYER}.attn.Wqkv",
    "encoder/block_{i}/attention/output": f"{_LAYER}.attn.out_proj",
    "encoder/block_{i}/attention_norm": f"{_LAYER}.norm1",
    "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}.mlp.{{fc12,fc11}}",
    "encoder/block_{i}/feed_forward/output": f"{_LAYER}.mlp.fc2",
    "encoder/block_{i}/output_norm": f"{_LAYER}.norm2",
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/norm": "cls.predictions.transform.layer_norm",
    "masked_lm/output_bias": "cls.predictions.bias",
}
_FIXED = ("gated", "linear_bias")
_BASE = BertConfig.named("nomic_bert-base")  # whose values are the defaults of the class


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    width, heads = (whole(values, key) for key in ("hidden_size", "num_attention_heads"))
    size = whole(values, "head_dim", width // max(1, heads))
    if size * heads != width:
        raise InputError(
            f"head_dim is {size}, but only hidden_size {width} / num_attention_heads {heads} is "
            "supported."
        )
    stated = values.get("rope_parameters", {})
    theta = agreed_theta(values, "rope_theta", stated, "rope_parameters")
    return {"rope_theta": _BASE.rope_theta if theta is None else theta}


def _to_keys(config: BertConfig) -> dict[str, Any]:
    if not config.rope_theta:
        raise InputError(
            "Hugging Face's NomicBERT has rotary positions, but this model has no rope_theta; "
            "write it as bert_tf."
        )
    return {"rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta}}


FAMILY = Family(
    model_type="nomic_bert",
    title="NomicBERT",
    class_name="NomicBert",
    prefix="nomic_bert.",
    names=_NAMES,
    tied=bert.FAMILY.tied,
    pretraining=(
        Architecture("NomicBertForMaskedLM", needs=(MASKED_LM,), lacks=(POOLER, NEXT_SENTENCE)),
        Architecture("NomicBertModel", lacks=(MASKED_LM, NEXT_SENTENCE)),
    ),
    pooled_head=Architecture(needs=(POOLER,), lacks=(MASKED_LM, NEXT_SENTENCE)),
    token_head=Architecture(lacks=(MASKED_LM, NEXT_SENTENCE, POOLER)),
    lacking_heads=frozenset(["QuestionAnswering", "MultipleChoice"]),
    keys=bert.KEYS | {"classifier_dropout": "head_dropout"},
    further_keys=frozenset(["rope_parameters", "rope_theta", "head_dim"]),
    only={"rope_scaling": (), "partial_rotary_factor": (None, 1.0)},
    defaults={key: getattr(_BASE, key) for key in bert.KEYS},
    fixed={name: FAMILIES["nomic_bert"].values[name] for name in _FIXED},
    options=frozenset(["rope_theta"]),
    to_options=_to_options,
    to_keys=_to_keys,
    token_keys={"pad_token_id": "pad"},
)
