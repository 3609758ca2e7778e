"""RoBERTa in transformers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER
from bert_tf.weights.huggingface import bert
from bert_tf.weights.huggingface.family import Architecture, Family
from pipelines.common.errors import InputError

_HEAD = {
    "masked_lm/transform": "lm_head.dense",
    "masked_lm/norm": "lm_head.layer_norm",
    "masked_lm/output_bias": "lm_head.bias",
}
_NO_OTHER_HEADS = (MASKED_LM, NEXT_SENTENCE)
_NO_POOLER = (POOLER, NEXT_SENTENCE)


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    padding = values.get("pad_token_id", 1)
    if type(padding) is not int or padding < 0:
        raise InputError(
            f"pad_token_id is {padding!r}; it must be a whole number of 0 or more, after which "
            "positions start."
        )
    dropout = values.get("classifier_dropout")
    if dropout is None:
        dropout = values.get("hidden_dropout_prob", 0.1)
    return {"position_offset": padding + 1, "pooler_dropout": dropout}


def _to_keys(config: BertConfig) -> dict[str, Any]:
    if not config.position_offset:
        raise InputError(
            "Hugging Face's RoBERTa starts positions after the padding id, but this model's "
            "position_offset is 0; write it as bert_tf."
        )
    return {"pad_token_id": config.position_offset - 1, "classifier_dropout": config.pooler_dropout}


FAMILY = Family(
    model_type="roberta",
    title="RoBERTa",
    class_name="Roberta",
    prefix="roberta.",
    names=bert.ENCODER | _HEAD,
    tied={
        "lm_head.decoder.weight": bert.ENCODER["encoder/embeddings/word_embeddings"],
        "lm_head.decoder.bias": "lm_head.bias",
    },
    pretraining=(
        Architecture("RobertaForCausalLM", needs=(MASKED_LM,), lacks=_NO_POOLER, causal=True),
        Architecture("RobertaForMaskedLM", needs=(MASKED_LM,), lacks=_NO_POOLER, causal=False),
        Architecture("RobertaModel", lacks=_NO_OTHER_HEADS),
    ),
    pooled_head=Architecture(needs=(POOLER,), lacks=_NO_OTHER_HEADS),
    token_head=Architecture(lacks=(MASKED_LM, *_NO_POOLER)),
    heads={
        # The pooler is part of its head.
        "SequenceClassification": Architecture(
            needs=(POOLER,),
            lacks=_NO_OTHER_HEADS,
            head="classifier.out_proj",
            pooler="classifier.dense",
        )
    },
    defaults={"vocab_size": 50265},
    keys=bert.KEYS | {"is_decoder": "causal"},
    further_keys=frozenset(["classifier_dropout", "pad_token_id"]),
    options=frozenset(["position_offset", "pooler_dropout", "pool_first"]),
    to_options=_to_options,
    to_keys=_to_keys,
    token_keys={"bos_token_id": "start", "eos_token_id": "separator"},
    tokenizer="byte_bpe",
    head_act="gelu_erf",
)


def _relative(model_type: str, title: str, class_name: str, vocab_size: int) -> Family:
    """A family with the weights and keys of RoBERTa."""
    pretraining = (
        dataclasses.replace(item, name=item.name.replace(FAMILY.class_name, class_name))
        for item in FAMILY.pretraining
    )
    return dataclasses.replace(
        FAMILY,
        model_type=model_type,
        title=title,
        class_name=class_name,
        pretraining=tuple(pretraining),
        defaults={"vocab_size": vocab_size},
        tokenizer="sentencepiece",
    )


XLM_R = _relative("xlm-roberta", "XLM-R", "XLMRoberta", 250_002)
CAMEMBERT = _relative("camembert", "CamemBERT", "Camembert", 32_005)
