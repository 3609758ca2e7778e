"""ELECTRA in transformers: the discriminator, or the generator as a masked LM of its own."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import GENERATOR, MASKED_LM, NEXT_SENTENCE, POOLER, REPLACED_TOKEN
from bert_tf.weights.huggingface import bert
from bert_tf.weights.huggingface.family import Architecture, Family

_NAMES = bert.ENCODER | {
    "encoder/embeddings/projection": "{prefix}embeddings_project",
    "masked_lm/transform": "generator_predictions.dense",
    "masked_lm/norm": "generator_predictions.LayerNorm",
    "masked_lm/output_bias": "generator_lm_head.bias",
    "replaced_token/dense": "discriminator_predictions.dense",
    "replaced_token/output": "discriminator_predictions.dense_prediction",
}
_HEADS = (MASKED_LM, NEXT_SENTENCE, REPLACED_TOKEN, *GENERATOR)


def _without(*groups: str) -> tuple[str, ...]:
    """The groups that a class with only some of the heads lacks, besides the pooler."""
    return (POOLER, *(group for group in _HEADS if group not in groups))


# What the vector of a choice is, in the only form that is supported.
_SUMMARY = {
    "summary_type": "first",
    "summary_use_proj": True,
    "summary_activation": "gelu",
    "summary_proj_to_labels": False,
}


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    narrow, wide = values["embedding_size"], values["hidden_size"]
    dropout = values.get("classifier_dropout")
    if dropout is None:
        dropout = values.get("hidden_dropout_prob", 0.1)
    return {"embedding_size": None if narrow == wide else narrow, "pooler_dropout": dropout}


def _to_keys(config: BertConfig) -> dict[str, Any]:
    return {
        "embedding_size": config.embedding_width,
        "classifier_dropout": config.pooler_dropout,
        **_SUMMARY,
        "summary_last_dropout": config.pooler_dropout,
    }


FAMILY = Family(
    model_type="electra",
    title="ELECTRA",
    class_name="Electra",
    prefix="electra.",
    names=_NAMES,
    tied={"generator_lm_head.weight": bert.WORDS},
    pretraining=(
        Architecture(
            "ElectraForPreTraining", needs=(REPLACED_TOKEN,), lacks=_without(REPLACED_TOKEN)
        ),
        Architecture("ElectraForMaskedLM", needs=(MASKED_LM,), lacks=_without(MASKED_LM)),
        Architecture("ElectraModel", lacks=_without()),
    ),
    pooled_head=Architecture(needs=(POOLER,), lacks=_HEADS),
    token_head=Architecture(lacks=_without()),
    heads={
        # The pooler is part of its head.
        "SequenceClassification": Architecture(
            needs=(POOLER,), lacks=_HEADS, head="classifier.out_proj", pooler="classifier.dense"
        ),
        "MultipleChoice": Architecture(
            needs=(POOLER,),
            lacks=_HEADS,
            pooler="sequence_summary.summary",
            only={key: (value,) for key, value in _SUMMARY.items()},
        ),
    },
    keys=bert.KEYS,
    further_keys=frozenset(["embedding_size", "classifier_dropout"]),
    harmless=frozenset([*_SUMMARY, "summary_first_dropout", "summary_last_dropout"]),
    defaults={
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    fixed={"pooler_act": "gelu_erf"},
    options=frozenset(["embedding_size", "pooler_dropout", "generator_size"]),
    to_options=_to_options,
    to_keys=_to_keys,
    token_keys={"pad_token_id": "pad"},
    head_act="gelu_erf",
)
