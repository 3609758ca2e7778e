"""The Keras layers that BERT is made of."""

from bert_tf.models.layers.attention import SelfAttention
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.embeddings import Embeddings
from bert_tf.models.layers.feed_forward import FeedForward
from bert_tf.models.layers.layer_mix import LayerMix
from bert_tf.models.layers.lstm import BiLstm, Lstm
from bert_tf.models.layers.normalization import LayerNorm, ResidualNorm
from bert_tf.models.layers.pooler import NoPooler, Pooler
from bert_tf.models.layers.transformer_block import TransformerBlock

__all__ = [
    "BiLstm",
    "Dense",
    "Embeddings",
    "FeedForward",
    "LayerMix",
    "LayerNorm",
    "Lstm",
    "NoPooler",
    "Pooler",
    "ResidualNorm",
    "SelfAttention",
    "TransformerBlock",
]
