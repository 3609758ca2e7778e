"""The files that sentence-transformers needs besides those of transformers."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from bert_tf.models.base_config import EncoderConfig
from bert_tf.weights.huggingface import tokenizers
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

_FILE = "modules.json"
_LENGTH_FILE = "sentence_bert_config.json"
_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
# The modules of a model that can be read: these in this order, the last one if it normalizes.
_NAMES = [name for _, name in _MODULES]
_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


class _Module(TypedDict):
    path: str
    type: str


class SentencePooling(NamedTuple):
    """How a model makes one vector of a text: `cls`, `mean` or `max` of its last layer.

    `max_length` is the maximum number of tokens, special ones included; None: that of the encoder.
    """

    pooling: str
    normalize: bool
    max_length: int | None


def read(folder: str) -> SentencePooling | None:
    """Reads how a model makes vectors of texts; None if it is not of sentence-transformers.

    Raises:
      InputError: a file is damaged, or the model has another kind of pooling or other layers.
    """
    path = f"{folder}/{_FILE}"
    if not files.gfile.exists(path):
        return None
    remedy = "choose --pooling to embed with the encoder alone"
    modules = json_files.read(path, list[_Module])
    names = [module["type"].rsplit(".", 1)[-1] for module in modules]
    if names not in (_NAMES, _NAMES[:-1]):
        raise InputError(
            f"{path}: has the modules {', '.join(names)}; {', '.join(_NAMES)} can be read. Convert "
            f"the model without the others, or {remedy}."
        )
    place = files.inside(folder, f"{modules[1]['path']}/config.json", path)
    settings = json_files.read(place, dict[str, Any])
    # Versions before 6 write a flag for each kind.
    flags = [_POOLING.get(name, name) for name, on in settings.items() if "mode" in name and on]
    found = settings.get("pooling_mode", flags)
    modes = [found] if isinstance(found, str) else found
    if len(modes) != 1 or modes[0] not in _POOLING.values():
        raise InputError(
            f"{place}: pools by {' and '.join(modes) or 'nothing'}; one of cls, mean and max can "
            f"be read. {remedy.capitalize()}."
        )
    lengths = [(_LENGTH_FILE, "max_seq_length"), (tokenizers.CONFIG, "model_max_length")]
    chosen = [_value(f"{folder}/{name}", key) for name, key in lengths]
    most = next((int(value) for value in chosen if value), None)
    return SentencePooling(modes[0], names == _NAMES, most)


def _value(path: str, key: str) -> Any:
    """A value of a file, or None."""
    return json_files.read(path, dict[str, Any]).get(key) if files.gfile.exists(path) else None


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
