"""BERT in transformers."""

from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE
from bert_tf.weights.huggingface.family import Architecture, Family

_LAYER = "{prefix}encoder.layer.{i}"
_WORDS = "{prefix}embeddings.word_embeddings.weight"
ENCODER = {
    "encoder/embeddings/word_embeddings": _WORDS,
    "encoder/embeddings/position_embeddings": "{prefix}embeddings.position_embeddings.weight",
    "encoder/embeddings/token_type_embeddings": "{prefix}embeddings.token_type_embeddings.weight",
    "encoder/embeddings/norm/gamma": "{prefix}embeddings.LayerNorm.weight",
    "encoder/embeddings/norm/beta": "{prefix}embeddings.LayerNorm.bias",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}.attention.self.{{part}}.weight",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}.attention.self.{{part}}.bias",
    "encoder/block_{i}/attention/output/kernel": f"{_LAYER}.attention.output.dense.weight",
    "encoder/block_{i}/attention/output/bias": f"{_LAYER}.attention.output.dense.bias",
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}.attention.output.LayerNorm.weight",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}.attention.output.LayerNorm.bias",
    "encoder/block_{i}/feed_forward/intermediate/kernel": f"{_LAYER}.intermediate.dense.weight",
    "encoder/block_{i}/feed_forward/intermediate/bias": f"{_LAYER}.intermediate.dense.bias",
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}.output.dense.weight",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}.output.dense.bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}.output.LayerNorm.weight",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}.output.LayerNorm.bias",
}
_HEADS = {
    "masked_lm/transform/kernel": "cls.predictions.transform.dense.weight",
    "masked_lm/transform/bias": "cls.predictions.transform.dense.bias",
    "masked_lm/norm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "masked_lm/norm/beta": "cls.predictions.transform.LayerNorm.bias",
    "masked_lm/output_bias": "cls.predictions.bias",
    "next_sentence/kernel": "cls.seq_relationship.weight",
    "next_sentence/bias": "cls.seq_relationship.bias",
}
_NO_OTHER_HEADS = (MASKED_LM, NEXT_SENTENCE)
_HEAD = Architecture(lacks=_NO_OTHER_HEADS)

FAMILY = Family(
    model_type="bert",
    title="BERT",
    prefix="bert.",
    names=ENCODER | _HEADS,
    tied={
        "cls.predictions.decoder.weight": _WORDS,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    pretraining=(
        Architecture("BertLMHeadModel", needs=(MASKED_LM,), causal=True),
        Architecture("BertForPreTraining", needs=(MASKED_LM, NEXT_SENTENCE), causal=False),
        Architecture("BertForMaskedLM", needs=(MASKED_LM,), causal=False),
        Architecture("BertForNextSentencePrediction", needs=(NEXT_SENTENCE,)),
        Architecture("BertModel"),
    ),
    class_name="Bert",
    pooled_head=_HEAD,
    token_head=_HEAD,
    fixed={"position_embedding_type": "absolute", "add_cross_attention": False},
    to_keys=lambda _: {"pad_token_id": 0},
)
