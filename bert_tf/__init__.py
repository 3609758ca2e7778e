"""BERT (Devlin et al., arXiv 1810.04805) in TensorFlow 2 and Keras 3."""

from bert_tf.config import BertConfig
from bert_tf.encoder import BertEncoder

__all__ = ["BertConfig", "BertEncoder"]
