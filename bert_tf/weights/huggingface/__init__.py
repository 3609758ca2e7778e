"""Folders of Hugging Face transformers: one reader and writer, and a file for each family."""

from bert_tf.weights.huggingface.config import CONFIG
from bert_tf.weights.huggingface.folder import read, write, write_settings

__all__ = ["CONFIG", "read", "write", "write_settings"]
