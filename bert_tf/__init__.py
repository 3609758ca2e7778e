"""BERT (Devlin et al., arXiv 1810.04805) in TensorFlow 2 and Keras 3."""

import importlib
from typing import Any

_HOMES = {"BertConfig": "bert_tf.models.config", "BertEncoder": "bert_tf.models.encoder"}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Imports on demand: commands decide themselves when TensorFlow starts."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
