"""The Keras layers of the models."""

from bert_tf.models.layers.attention import CrossAttention, SelfAttention
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.embeddings import Embeddings
from bert_tf.models.layers.lstm import BiLstm, Lstm
from bert_tf.models.layers.normalization import LayerNorm, ResidualNorm
from bert_tf.models.layers.pooling import NoPooler, Pooler
from bert_tf.models.layers.transformer_block import DecoderBlock, FeedForward, TransformerBlock

__all__ = [
    "BiLstm",
    "CrossAttention",
    "DecoderBlock",
    "Dense",
    "Embeddings",
    "FeedForward",
    "LayerNorm",
    "Lstm",
    "NoPooler",
    "Pooler",
    "ResidualNorm",
    "SelfAttention",
    "TransformerBlock",
]
