"""Weights in our format and in foreign formats."""

from bert_tf.weights.bundle import Bundle, assign
from bert_tf.weights.formats import read, write

__all__ = ["Bundle", "assign", "read", "write"]
