"""Configurations of all families: a further one is a file, and a line in each function here."""

from typing import Any

from bert_tf.models import elmo_config
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig
from pipelines.common import json_files


def of_dict(values: dict[str, Any], name: str = "the configuration") -> EncoderConfig:
    """The configuration of the keys of a bert_config.json, of the family that it names.

    Raises:
      InputError: an unknown key or family, or a value that makes no sense.
    """
    elmo = values.get("model_type") == elmo_config.MODEL_TYPE
    return (ElmoConfig if elmo else BertConfig).from_dict(values, name)


def load(path: str) -> EncoderConfig:
    """Reads a bert_config.json of any family.

    Raises:
      InputError: the file is missing, not JSON, or `of_dict` fails.
    """
    return of_dict(json_files.read(path, dict[str, Any]), path)


def named(name: str, **changes: Any) -> EncoderConfig:
    """A size of any family, such as "tiny", "roberta-base" or "elmo-small".

    Raises:
      InputError: the name is unknown.
    """
    elmo = name.startswith(f"{elmo_config.MODEL_TYPE}-")
    return (ElmoConfig if elmo else BertConfig).named(name, **changes)
