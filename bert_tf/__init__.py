"""BERT (Devlin et al., arXiv 1810.04805) and its relatives in TensorFlow 2 and Keras 3."""

import importlib
import sys
from typing import Any

from pipelines.common import quiet_start

__version__ = "0.2.0"

# Names by the module and what they are called there. They are imported on demand: TensorFlow
# takes seconds to start.
_HOMES = {
    "BertConfig": ("bert_tf.models.config", "BertConfig"),
    "BertEncoder": ("bert_tf.models.encoder", "BertEncoder"),
    "ElmoConfig": ("bert_tf.models.elmo_config", "ElmoConfig"),
    "ElmoEncoder": ("bert_tf.models.elmo.encoder", "ElmoEncoder"),
    "Embedder": ("bert_tf.vectors.extractor", "Embedder"),
    "EmbeddingSettings": ("bert_tf.vectors.settings", "EmbeddingSettings"),
    "FeatureExtractor": ("bert_tf.vectors.extractor", "FeatureExtractor"),
    "FeatureSettings": ("bert_tf.vectors.settings", "FeatureSettings"),
    "TransformerBlock": ("bert_tf.models.layers.transformer_block", "TransformerBlock"),
    "TaskModel": ("bert_tf.tasks.model", "TaskModel"),
    "Predictor": ("bert_tf.serving.predictor", "Predictor"),
    "connect": ("bert_tf.serving.client", "connect"),
    "load": ("bert_tf.weights.formats", "read"),
    "save": ("bert_tf.weights.formats", "write"),
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "tensorflow" in sys.modules:
        quiet_start.look_for_devices()
    else:
        quiet_start.import_silently()
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
