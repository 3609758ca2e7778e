"""The files that sentence-transformers needs besides those of transformers."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.base_config import EncoderConfig
from pipelines.common import files, json_files

_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def write(task: Mapping[str, Any], config: EncoderConfig, folder: str) -> None:
    """Writes the description of a model of embeddings: mean pooling, then length 1.

    Args:
      task: description of the task.
      config: configuration of the encoder.
      folder: of the model.
    """
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for index, (path, name) in enumerate(_MODULES)
    ]
    pooling = {
        "word_embedding_dimension": config.hidden_size,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    length = {"max_seq_length": task["max_length"], "do_lower_case": False}
    files.gfile.makedirs(f"{folder}/1_Pooling")
    files.gfile.makedirs(f"{folder}/2_Normalize")
    json_files.write(f"{folder}/1_Pooling/config.json", pooling)
    json_files.write(f"{folder}/sentence_bert_config.json", length)
    json_files.write(f"{folder}/modules.json", modules)
