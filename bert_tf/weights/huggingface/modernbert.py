"""ModernBERT in transformers; Ettin and mmBERT have the same architecture."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE
from bert_tf.weights.huggingface.family import Architecture, Family, whole
from pipelines.common.errors import InputError

_LAYER = "{prefix}layers.{i}"
_WORDS = "{prefix}embeddings.tok_embeddings.weight"
_NAMES = {
    "encoder/embeddings/word_embeddings": _WORDS,
    "encoder/embeddings/norm": "{prefix}embeddings.norm",
    "encoder/block_{i}/attention_norm": f"{_LAYER}.attn_norm",
    "encoder/block_{i}/attention/qkv": f"{_LAYER}.attn.Wqkv",
    "encoder/block_{i}/attention/output": f"{_LAYER}.attn.Wo",
    "encoder/block_{i}/output_norm": f"{_LAYER}.mlp_norm",
    "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}.mlp.Wi",
    "encoder/block_{i}/feed_forward/output": f"{_LAYER}.mlp.Wo",
    "encoder/final_norm": "{prefix}final_norm",
}
_MASKED_LM_NAMES = {
    "masked_lm/transform": "head.dense",
    "masked_lm/norm": "head.norm",
    "masked_lm/output_bias": "decoder.bias",
}
_HEAD = Architecture(
    head="classifier",
    lacks=(MASKED_LM, NEXT_SENTENCE),
    names={
        "heads/{head}/transform/dense": "head.dense",
        "heads/{head}/transform/norm": "head.norm",
    },
)
_FIXED = (
    *("type_vocab_size", "gated", "linear_bias", "norm_bias", "pre_norm", "first_norm"),
    *("pooler_act", "head_transform", "transform_bias"),
)
_FULL, _SLIDING = "full_attention", "sliding_attention"
# Our option and the type of layers of each base of rotary positions in old configurations.
_THETAS = {
    "global_rope_theta": ("rope_theta", _FULL),
    "local_rope_theta": ("local_rope_theta", _SLIDING),
}
_EVERY = "global_attn_every_n_layers"
_KEYS = {
    name: name
    for name in (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        *("num_attention_heads", "max_position_embeddings", "initializer_range", "local_attention"),
    )
} | {
    "classifier_activation": "hidden_act",
    "hidden_activation": "hidden_act",
    "norm_eps": "layer_norm_eps",
    "embedding_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "classifier_dropout": "head_dropout",
}
_BASE = BertConfig.named("modernbert-base")  # whose values are the defaults of the class


def _to_options(values: Mapping[str, Any]) -> dict[str, Any]:
    activation, of_heads = values["hidden_activation"], values["classifier_activation"]
    pooling = values.get("classifier_pooling", "cls")
    if of_heads != activation:
        raise InputError(
            f"classifier_activation is {of_heads!r}, but hidden_activation {activation!r}; heads "
            "have the same one here."
        )
    if pooling not in ("cls", "mean"):
        raise InputError(f"classifier_pooling is {pooling!r}; known are cls, mean.")
    thetas = {ours: _theta(values, name) for name, (ours, _) in _THETAS.items()}
    return {**thetas, "global_every": _global_every(values), "pool_mean": pooling == "mean"}


def theta_of(stated: Any, place: str) -> float | None:
    """The base in one set of rotary parameters; None if it is not stated.

    Raises:
      InputError: They are others than a base, or no dict; `place` is their name.
    """
    if not isinstance(stated, dict):
        raise InputError(f"{place} is {stated!r}; it must have rope_type and rope_theta.")
    if stated.get("rope_type", "default") != "default":
        raise InputError(f"{place}: the rope_type is {stated['rope_type']!r}, not 'default'.")
    if other := sorted(stated.keys() - {"rope_type", "rope_theta"}):
        raise InputError(f"{place}: has {', '.join(other)}, which is not supported.")
    return stated.get("rope_theta")


def agreed_theta(values: Mapping[str, Any], key: str, stated: Any, place: str) -> float | None:
    """The base in a key or in a set of rotary parameters; None if neither states it.

    Raises:
      InputError: They differ, or as of `theta_of`.
    """
    found = theta_of(stated, place)
    if found is not None and values.get(key, found) != found:
        raise InputError(
            f"{key} is {values[key]!r}, but {place} has {found!r}; remove one of them."
        )
    return values.get(key, found)


def _theta(values: Mapping[str, Any], name: str) -> float:
    """The base of rotary positions of one type of layers, stated in either form."""
    option, layers = _THETAS[name]
    every = values.get("rope_parameters", {})
    if not isinstance(every, dict) or every.keys() - {_FULL, _SLIDING}:
        raise InputError(f"rope_parameters is {every!r}; its keys must be {_FULL} and {_SLIDING}.")
    place = f"rope_parameters: {layers}"
    found = agreed_theta(values, name, every.get(layers) or {}, place)
    return getattr(_BASE, option) if found is None else found


def _global_every(values: Mapping[str, Any]) -> int:
    """The period of the global layers, stated in either form."""
    depth, types = whole(values, "num_hidden_layers"), values.get("layer_types")
    if types is None:
        return whole(values, _EVERY, _BASE.global_every)
    usual = next((i for i in range(1, depth) if types[i : i + 1] == [_FULL]), depth)
    every = whole(values, _EVERY, usual)
    if every < 1 or types != [_SLIDING if index % every else _FULL for index in range(depth)]:
        raise InputError(
            f"layer_types is {types!r}, which does not match num_hidden_layers {depth} and "
            f"{_EVERY} {every}."
        )
    return every


def _to_keys(config: BertConfig) -> dict[str, Any]:
    if not config.rope_theta or not config.local_attention:
        raise InputError(
            "Hugging Face's ModernBERT has rotary positions and local attention, but this model "
            "has no rope_theta or no local_attention; write it as bert_tf."
        )
    # In the old form, which all versions read.
    return {
        "global_rope_theta": config.rope_theta,
        "local_rope_theta": config.local_rope_theta or config.rope_theta,
        _EVERY: config.global_every,
        "classifier_pooling": "mean" if config.pool_mean else "cls",
        "classifier_dropout": config.task_dropout,
        "mlp_dropout": config.hidden_dropout_prob,
        "tie_word_embeddings": True,
        **dict.fromkeys(["cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id"]),
        "pad_token_id": None,  # that of the class may be outside the vocabulary
    }


FAMILY = Family(
    model_type="modernbert",
    title="ModernBERT",
    class_name="ModernBert",
    prefix="model.",
    names=_NAMES,
    tied={"decoder.weight": _WORDS},
    pretraining=(
        Architecture(
            "ModernBertForMaskedLM",
            needs=(MASKED_LM,),
            lacks=(NEXT_SENTENCE,),
            names=_MASKED_LM_NAMES,
            only={"decoder_bias": (True,)},
        ),
        Architecture("ModernBertModel", lacks=(MASKED_LM, NEXT_SENTENCE)),
    ),
    pooled_head=_HEAD,
    token_head=_HEAD,
    keys=_KEYS,
    further_keys=frozenset([*_THETAS, _EVERY, "rope_parameters", "layer_types"])
    | {"classifier_pooling"},
    harmless=frozenset(
        """
        cls_token_id decoder_bias deterministic_flash_attn initializer_cutoff_factor layer_norm_eps
        mlp_dropout reference_compile repad_logits_with_grad sparse_pred_ignore_index
        sparse_prediction
        """.split()
    ),
    only={
        **dict.fromkeys(["norm_bias", "attention_bias", "mlp_bias", "classifier_bias"], (False,)),
        "rope_scaling": (),
    },
    defaults={key: getattr(_BASE, field) for key, field in _KEYS.items()}
    | {"hidden_activation": "gelu", "classifier_activation": "gelu", "classifier_dropout": 0.0},
    fixed={name: FAMILIES["modernbert"].values[name] for name in _FIXED},
    options=frozenset(["rope_theta", "local_rope_theta", "global_every", "pool_mean"]),
    to_options=_to_options,
    to_keys=_to_keys,
    token_keys={
        **{"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "separator"},
        **{"cls_token_id": "start", "sep_token_id": "separator"},
    },
    tokenizer="byte_bpe",
)
