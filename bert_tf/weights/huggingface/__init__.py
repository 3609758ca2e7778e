"""Folders of Hugging Face transformers: one reader and writer, and a file for each family."""

from bert_tf.weights.huggingface.config import CONFIG
from bert_tf.weights.huggingface.folder import read, write, write_settings
from bert_tf.weights.huggingface.weight_files import INDEX

__all__ = ["CONFIG", "INDEX", "read", "write", "write_settings"]
