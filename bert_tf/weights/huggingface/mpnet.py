"""MPNet in transformers: RoBERTa's heads and positions, and one table of relative positions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.models.layers.embeddings import RELATIVE_ROWS
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER
from bert_tf.weights.huggingface import roberta
from bert_tf.weights.huggingface.family import Architecture

_ATTENTION = "{prefix}encoder.layer.{i}.attention"
_NAMES = {
    "encoder/embeddings/relative_positions": "{prefix}encoder.relative_attention_bias.weight",
    "encoder/block_{i}/attention/qkv": f"{_ATTENTION}.attn.{{p}}",
    "encoder/block_{i}/attention/output": f"{_ATTENTION}.attn.o",
    "encoder/block_{i}/attention_norm": f"{_ATTENTION}.LayerNorm",
}
_FIXED = ("position_offset", "relative_positions", "type_vocab_size")
_ROWS = "relative_attention_num_buckets"


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"pooler_dropout": values.get("classifier_dropout", values.get("hidden_dropout_prob"))}


def _to_keys(config: BertConfig) -> dict[str, Any]:
    # transformers has no key for this rate, and ignores ours.
    return {"classifier_dropout": config.pooler_dropout, _ROWS: RELATIVE_ROWS, "pad_token_id": 1}


FAMILY = dataclasses.replace(
    roberta.FAMILY,
    model_type="mpnet",
    title="MPNet",
    class_name="MPNet",
    prefix="mpnet.",
    names={**roberta.FAMILY.names, **_NAMES},
    pretraining=(
        Architecture("MPNetForMaskedLM", needs=(MASKED_LM,), lacks=(POOLER, NEXT_SENTENCE)),
        Architecture("MPNetModel", lacks=(MASKED_LM, NEXT_SENTENCE)),
    ),
    keys={
        key: field
        for key, field in roberta.FAMILY.keys.items()
        if key not in ("is_decoder", "type_vocab_size")
    },
    further_keys=frozenset(["classifier_dropout"]),
    only={_ROWS: (RELATIVE_ROWS,), "pad_token_id": (1,)},
    defaults={"vocab_size": 30527, "hidden_dropout_prob": 0.1},
    fixed={name: FAMILIES["mpnet"].values[name] for name in _FIXED},
    options=frozenset(["pooler_dropout"]),
    to_options=_to_options,
    to_keys=_to_keys,
    tokenizer="wordpiece",
)
