"""DistilBERT in transformers."""

from bert_tf.models.families import FAMILIES
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER
from bert_tf.weights.huggingface import bert
from bert_tf.weights.huggingface.family import Architecture, Family

_LAYER = "{prefix}transformer.layer.{i}"
_NAMES = {
    "encoder/embeddings/word_embeddings": bert.WORDS,
    "encoder/embeddings/position_embeddings": "{prefix}embeddings.position_embeddings.weight",
    "encoder/embeddings/norm": "{prefix}embeddings.LayerNorm",
    "encoder/block_{i}/attention/qkv": f"{_LAYER}.attention.{{p}}_lin",
    "encoder/block_{i}/attention/output": f"{_LAYER}.attention.out_lin",
    "encoder/block_{i}/attention_norm": f"{_LAYER}.sa_layer_norm",
    "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}.ffn.lin1",
    "encoder/block_{i}/feed_forward/output": f"{_LAYER}.ffn.lin2",
    "encoder/block_{i}/output_norm": f"{_LAYER}.output_layer_norm",
    "masked_lm/transform": "vocab_transform",
    "masked_lm/norm": "vocab_layer_norm",
    "masked_lm/output_bias": "vocab_projector.bias",
}
_OF_PRETRAINING = (MASKED_LM, NEXT_SENTENCE)
_NO_POOLER = (POOLER, NEXT_SENTENCE)


FAMILY = Family(
    model_type="distilbert",
    title="DistilBERT",
    class_name="DistilBert",
    prefix="distilbert.",
    names=_NAMES,
    tied={"vocab_projector.weight": bert.WORDS},
    pretraining=(
        Architecture("DistilBertForMaskedLM", needs=(MASKED_LM,), lacks=_NO_POOLER),
        Architecture("DistilBertModel", lacks=(MASKED_LM, *_NO_POOLER)),
    ),
    pooled_head=Architecture(needs=(POOLER,), lacks=_OF_PRETRAINING, pooler="pre_classifier"),
    token_head=Architecture(lacks=(MASKED_LM, *_NO_POOLER)),
    keys={
        "vocab_size": "vocab_size",
        "max_position_embeddings": "max_position_embeddings",
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "seq_classif_dropout": "head_dropout",
        "initializer_range": "initializer_range",
    },
    aliases={
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
    },
    # Positions of sines are stored like learned ones; all words are tied.
    harmless=frozenset(["sinusoidal_pos_embds", "tie_weights_", "qa_dropout"]),
    defaults={"n_layers": 6, "seq_classif_dropout": 0.2},
    fixed={name: FAMILIES["distilbert"].values[name] for name in ("type_vocab_size", "pooler_act")}
    | {"layer_norm_eps": 1e-12},
    to_keys=lambda config: {"seq_classif_dropout": config.task_dropout},
    token_keys={"pad_token_id": "pad"},
)
