"""The files that sentence-transformers needs besides those of transformers."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple, NotRequired, TypedDict

from bert_tf.models.base_config import EncoderConfig
from bert_tf.weights.huggingface import tokenizers
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

_FILE = "modules.json"
_LENGTH_FILE = "sentence_bert_config.json"
# The names after the first are of older versions, by the family of the encoder.
_LENGTH_FILES = (
    _LENGTH_FILE,
    *(f"sentence_{name}_config.json" for name in ("roberta", "distilbert", "albert")),
)
_CONFIG = "config_sentence_transformers.json"
_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
_NAMES = [name for _, name in _MODULES]
_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


class _Module(TypedDict):
    path: str
    type: str


class _Length(TypedDict):
    max_seq_length: NotRequired[int | None]
    do_lower_case: NotRequired[bool]


class _Tokenizer(TypedDict):
    model_max_length: NotRequired[int | float | None]


class _Pooling(TypedDict):
    pooling_mode: NotRequired[str | list[str]]


class _Config(TypedDict):
    default_prompt_name: NotRequired[str | None]
    truncate_dim: NotRequired[int | None]


class SentencePooling(NamedTuple):
    """How a model makes one vector of a text.

    Attributes:
      place: the file that describes it.
      pooling: `cls`, `mean` or `max` of the last layer.
      normalize: whether vectors have length 1.
      max_length: maximum number of tokens, special ones included; None: that of the encoder.
      lower_case: whether texts are made lower case before they are tokenized.
    """

    place: str
    pooling: str
    normalize: bool
    max_length: int | None
    lower_case: bool


def encoder_folder(folder: str) -> str:
    """The folder of the encoder: the folder itself, or one within a folder of several modules."""
    within = _encoder_path(folder)
    return files.inside(folder, within, f"{folder}/{_FILE}") if within else folder


def _encoder_path(folder: str) -> str:
    """The path of the encoder within a folder; empty if it is the folder itself."""
    modules = json_files.read_optional(f"{folder}/{_FILE}", list[_Module])
    return modules[0]["path"] if modules else ""


def read(folder: str) -> SentencePooling | None:
    """Reads how a model makes vectors of texts; None if it is not of sentence-transformers.

    Args:
      folder: of the encoder, see `encoder_folder`.

    Raises:
      InputError: a file is damaged, or the model has other layers, another kind of pooling, or
        changes texts or vectors in another way.
    """
    parent, name = os.path.split(folder)
    top = (parent or ".") if _encoder_path(parent or ".") == name else folder
    path = f"{top}/{_FILE}"
    if not files.gfile.exists(path):
        return None
    remedy = "Choose --pooling to embed with the encoder alone."
    modules = json_files.read(path, list[_Module])
    names = [module["type"].rsplit(".", 1)[-1] for module in modules]
    if names not in (_NAMES, _NAMES[:-1]):
        raise InputError(
            f"{path}: has the modules {', '.join(names)}; Transformer and Pooling can be read, and "
            f"Normalize after them. {remedy}"
        )
    config = json_files.read_optional(f"{top}/{_CONFIG}", _Config)
    for key in ("default_prompt_name", "truncate_dim"):
        if config.get(key):
            raise InputError(f"{top}/{_CONFIG}: {key}={config.get(key)} is not supported. {remedy}")
    place = files.inside(top, f"{modules[1]['path']}/config.json", path)
    lengths = (json_files.read_optional(f"{folder}/{name}", _Length) for name in _LENGTH_FILES)
    own = next(filter(None, lengths), _Length())
    tokenizer = json_files.read_optional(f"{folder}/{tokenizers.CONFIG}", _Tokenizer)
    most = own.get("max_seq_length") or tokenizer.get("model_max_length")
    return SentencePooling(
        path,
        _read_pooling(place, remedy),
        names == _NAMES,
        int(most) if most else None,
        own.get("do_lower_case", False),
    )


def _read_pooling(path: str, remedy: str) -> str:
    """The kind of pooling; versions before 6 have a flag for each."""
    values = json_files.read(path, _Pooling)
    flags = [name for name, on in values.items() if name.startswith("pooling_mode_") and on is True]
    found = values.get("pooling_mode", [_POOLING.get(name, name) for name in flags] or "mean")
    modes = [found] if isinstance(found, str) else found
    if len(modes) != 1 or modes[0] not in _POOLING.values():
        raise InputError(
            f"{path}: pools by {' and '.join(modes)}; one of cls, mean and max can be read. "
            f"{remedy}"
        )
    return modes[0]


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
    json_files.write(f"{folder}/{_LENGTH_FILE}", length)
    json_files.write(f"{folder}/{_FILE}", modules)
