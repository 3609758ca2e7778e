"""Configurations of all families. A new family is a file and a change in each function here."""

from typing import Any

from bert_tf.models import elmo_config
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig
from pipelines.common import json_files


def of_dict(values: dict[str, Any], name: str = "the configuration") -> EncoderConfig:
    """Creates a configuration of any family from the keys of a bert_config.json.

    Raises:
      InputError: A key or family is unknown, or a value is invalid.
    """
    elmo = values.get("model_type") == elmo_config.MODEL_TYPE
    return (ElmoConfig if elmo else BertConfig).from_dict(values, name)


def load(path: str) -> EncoderConfig:
    """Reads a bert_config.json of any family; raises InputError as `of_dict` does."""
    return of_dict(json_files.read(path, dict[str, Any]), path)


def named(name: str, **changes: Any) -> EncoderConfig:
    """The configuration of a size such as "roberta-base"; an InputError if it is unknown."""
    elmo = name.startswith(f"{elmo_config.MODEL_TYPE}-")
    return (ElmoConfig if elmo else BertConfig).named(name, **changes)
