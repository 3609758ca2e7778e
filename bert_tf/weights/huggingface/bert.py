"""BERT in transformers."""

from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE
from bert_tf.weights.huggingface.family import Architecture, Family

_LAYER = "{prefix}encoder.layer.{i}"
WORDS = "{prefix}embeddings.word_embeddings.weight"
ENCODER = {
    "encoder/embeddings/word_embeddings": WORDS,
    "encoder/embeddings/position_embeddings": "{prefix}embeddings.position_embeddings.weight",
    "encoder/embeddings/token_type_embeddings": "{prefix}embeddings.token_type_embeddings.weight",
    "encoder/embeddings/norm": "{prefix}embeddings.LayerNorm",
    "encoder/block_{i}/attention/qkv": f"{_LAYER}.attention.self.{{part}}",
    "encoder/block_{i}/attention/output": f"{_LAYER}.attention.output.dense",
    "encoder/block_{i}/attention_norm": f"{_LAYER}.attention.output.LayerNorm",
    "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}.intermediate.dense",
    "encoder/block_{i}/feed_forward/output": f"{_LAYER}.output.dense",
    "encoder/block_{i}/output_norm": f"{_LAYER}.output.LayerNorm",
}
KEYS = {
    name: name
    for name in (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
        *("intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob"),
        *("max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps"),
    )
}
_HEADS = {
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/norm": "cls.predictions.transform.LayerNorm",
    "masked_lm/output_bias": "cls.predictions.bias",
    "next_sentence": "cls.seq_relationship",
}
_HEAD = Architecture(lacks=(MASKED_LM, NEXT_SENTENCE))


FAMILY = Family(
    model_type="bert",
    title="BERT",
    class_name="Bert",
    prefix="bert.",
    names=ENCODER | _HEADS,
    tied={
        "cls.predictions.decoder.weight": WORDS,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    pretraining=(
        Architecture("BertLMHeadModel", needs=(MASKED_LM,), causal=True),
        Architecture("BertForPreTraining", needs=(MASKED_LM, NEXT_SENTENCE), causal=False),
        Architecture("BertForMaskedLM", needs=(MASKED_LM,), causal=False),
        Architecture("BertForNextSentencePrediction", needs=(NEXT_SENTENCE,)),
        Architecture("BertModel"),
    ),
    pooled_head=_HEAD,
    token_head=_HEAD,
    keys=KEYS | {"classifier_dropout": "head_dropout", "is_decoder": "causal"},
    options=frozenset(["pool_first"]),
    token_keys={"pad_token_id": "pad"},
)
