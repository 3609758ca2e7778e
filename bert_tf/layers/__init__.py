"""The Keras layers that BERT is made of."""

from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.dense import Dense
from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.feed_forward import FeedForward
from bert_tf.layers.normalization import LayerNorm, ResidualNorm
from bert_tf.layers.transformer import TransformerBlock

__all__ = [
    "Dense",
    "Embeddings",
    "FeedForward",
    "LayerNorm",
    "ResidualNorm",
    "SelfAttention",
    "TransformerBlock",
]
