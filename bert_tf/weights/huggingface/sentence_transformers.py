"""The files that sentence-transformers needs besides those of transformers."""

import dataclasses
import os
import re
from typing import Any, NotRequired, TypedDict

from absl import logging

from bert_tf import tasks
from bert_tf.models.head_config import HeadConfig, Pooling
from bert_tf.tasks import embedding
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.huggingface import tokenizers
from bert_tf.weights.huggingface.keys import Keys
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

_FILE = "modules.json"
_LENGTH_FILE = "sentence_bert_config.json"
# The names after the first are of older versions, by the family of the encoder.
_LENGTH_FILES = (
    _LENGTH_FILE,
    *(f"sentence_{name}_config.json" for name in ("roberta", "distilbert", "albert")),
)
CONFIG = "config_sentence_transformers.json"
_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
_NAMES = [name for _, name in _MODULES]
_FLAG = "pooling_mode_"
_POOLING = {
    f"{_FLAG}cls_token": Pooling.CLS,
    f"{_FLAG}mean_tokens": Pooling.MEAN,
    f"{_FLAG}max_tokens": Pooling.MAX,
}
_LEAST = 8  # tokens, as for --max_seq_length
_KEEPS_SPACE = (5, 4)  # the first version that does not strip texts
_MODULE_KEYS = Keys(frozenset(["path", "type"]), frozenset(["idx", "name"]))
_LENGTH_KEYS = Keys(
    frozenset(["max_seq_length", "do_lower_case"]),
    frozenset(["unpad_inputs"]),
    {
        **dict.fromkeys(
            "query_length document_length query_expansion model_args tokenizer_args config_args "
            "model_kwargs processor_kwargs config_kwargs processing_kwargs".split(),
            (),
        ),
        "transformer_task": ("feature-extraction",),
        "module_output_name": ("token_embeddings",),
        "modality_config": (
            {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        ),
    },
)
_POOLING_KEYS = Keys(
    frozenset(["pooling_mode"]),
    # No prompt is added here.
    frozenset(["word_embedding_dimension", "embedding_dimension", "include_prompt"]),
)
_NORMALIZE_KEYS = Keys(
    frozenset(),
    only=dict.fromkeys(("module_input_name", "module_output_name"), ("sentence_embedding",)),
)
_CONFIG_KEYS = Keys(
    frozenset(["prompts", "similarity_fn_name", "activation_fn"]),
    frozenset(["__version__", "requirements"]),
    {
        "default_prompt_name": (),
        "truncate_dim": (),
        "model_type": (False, "SentenceTransformer"),
    },
)


class _Module(TypedDict):
    path: str
    type: str


class _Length(TypedDict):
    max_seq_length: NotRequired[int | None]
    do_lower_case: NotRequired[bool]


class _Tokenizer(TypedDict):
    model_max_length: NotRequired[int | float | None]


class _PoolingFile(TypedDict):
    pooling_mode: NotRequired[str | list[str]]


def encoder_folder(folder: str) -> str:
    """The folder of the encoder: the folder itself, or one within a folder of several modules."""
    within = _encoder_path(folder)
    return files.inside(folder, within, f"{folder}/{_FILE}") if within else folder


def _encoder_path(folder: str) -> str:
    """The path of the encoder within a folder; empty if it is the folder itself."""
    modules = json_files.read_optional(f"{folder}/{_FILE}", list[_Module])
    return modules[0]["path"] if modules else ""


def max_seq_length(folder: str, longest: int) -> int:
    """The maximum number of tokens that a folder states for a text, at most `longest`.

    Raises:
      InputError: A file is damaged, or states a number that is too small.
    """
    found = (f"{folder}/{name}" for name in _LENGTH_FILES)
    place = next(filter(files.gfile.exists, found), f"{folder}/{_LENGTH_FILE}")
    stated: float | None = json_files.read_optional(place, _Length).get("max_seq_length")
    if not stated:
        place = f"{folder}/{tokenizers.CONFIG}"
        stated = json_files.read_optional(place, _Tokenizer).get("model_max_length")
    most = longest if stated is None else int(min(stated, longest))
    if most < min(_LEAST, longest):
        raise InputError(f"{place}: cuts texts to {most} tokens; at least {_LEAST} are supported.")
    return most


def with_stripping(model: Bundle) -> Bundle:
    """The model as versions of the library before 5.4 used it, if one of them made the folder.

    They remove white space around texts, which decides ids of byte-level BPE.
    """
    place = f"{_top(model.place)}/{CONFIG}"
    version = json_files.read_optional(place, dict[str, Any]).get("__version__")
    stated = version.get("sentence_transformers") if isinstance(version, dict) else None
    found = re.match(r"(\d+)\.(\d+)", str(stated))
    is_byte_bpe = model.vocabulary is not None and model.vocabulary.kind == "byte_bpe"
    if not (found and is_byte_bpe) or (int(found[1]), int(found[2])) >= _KEEPS_SPACE:
        return model
    return dataclasses.replace(
        model, tokenizer_settings=model.resolved_settings() | {"strip": True}
    )


def _top(folder: str) -> str:
    """The folder of all modules, given that of the encoder."""
    parent, name = os.path.split(folder)
    return (parent or ".") if _encoder_path(parent or ".") == name else folder


def read(model: Bundle) -> dict[str, Any] | None:
    """Reads the task of a model of sentence-transformers; None if it is not one.

    Args:
      model: what was read of the folder of its encoder.

    Raises:
      InputError: a file is damaged, or the model has other layers, another kind of pooling, or
        changes texts or vectors in another way.
    """
    folder = model.place
    top = _top(folder)
    path = f"{top}/{_FILE}"
    if not files.gfile.exists(path):
        return None
    modules = json_files.read(path, list[_Module])
    for module in modules:
        _MODULE_KEYS.check(module, path)
        if not module["type"].startswith("sentence_transformers."):
            raise InputError(
                f"{path}: {module['type']} is code of the folder's own, which is never run."
            )
    names = [module["type"].rsplit(".", 1)[-1] for module in modules]
    if names not in (_NAMES, _NAMES[:-1]):
        raise InputError(
            f"{path}: has the modules {', '.join(names)}; Transformer and Pooling can be read, and "
            "Normalize after them."
        )
    _check_config(f"{top}/{CONFIG}", normalized=names == _NAMES)
    for module in modules[2:]:
        place = files.inside(top, f"{module['path']}/config.json", path)
        _NORMALIZE_KEYS.check(json_files.read_optional(place, dict[str, Any]), place)
    place = files.inside(top, f"{modules[1]['path']}/config.json", path)
    head = HeadConfig(pooling=_read_pooling(place))
    lengths = (json_files.read_optional(f"{folder}/{name}", _Length) for name in _LENGTH_FILES)
    own = next(filter(None, lengths), _Length())
    _LENGTH_KEYS.check(own, f"{folder}/{_LENGTH_FILE}")
    if own.get("do_lower_case") and not model.resolved_settings().get("lower_case"):
        raise InputError(
            f"{path}: texts are made lower case before they are tokenized (do_lower_case), which "
            "the tokenizer does not do."
        )
    most = max_seq_length(folder, model.config.max_seq_length)
    task = tasks.make(embedding.SHAPE.default_kind, max_seq_length=most, head=head)
    return json_files.as_json(task.describe() | {"normalize": names == _NAMES})


def _check_config(place: str, normalized: bool) -> None:
    """Reports what differs in searches, and raises InputError if vectors would differ."""
    values = json_files.read_optional(place, dict[str, Any])
    _CONFIG_KEYS.check(values, place)
    if values.get("similarity_fn_name") not in (None, "cosine", *(["dot"] if normalized else [])):
        logging.warning(
            "%s: similarity_fn_name is %s; vectors are compared by their cosines here.",
            *(place, values["similarity_fn_name"]),
        )
    prompts = values.get("prompts")
    if isinstance(prompts, dict) and any(prompts.values()):
        logging.warning(
            "%s: has prompts, which are not added here; begin your texts with them: %s.",
            *(place, ", ".join(f"{name} {text!r}" for name, text in prompts.items() if text)),
        )


def _read_pooling(path: str) -> Pooling:
    """The kind of pooling; versions before 6 have a flag for each."""
    values = json_files.read(path, _PoolingFile)
    _POOLING_KEYS.check({k: v for k, v in values.items() if not k.startswith(_FLAG)}, path)
    flags = [name for name, on in values.items() if name.startswith(_FLAG) and on is True]
    found = values.get("pooling_mode", [_POOLING.get(name, name) for name in flags] or "mean")
    modes = [found] if isinstance(found, str) else found
    if len(modes) != 1 or modes[0] not in _POOLING.values():
        raise InputError(
            f"{path}: pools by {' and '.join(modes)}; one of cls, mean and max can be read."
        )
    return Pooling(modes[0])


def write(model: Bundle, folder: str) -> None:
    """Writes the description of a model of embeddings."""
    task, config = model.task(), model.config
    if model.resolved_settings().get("strip"):
        json_files.write(f"{folder}/{CONFIG}", {"__version__": {"sentence_transformers": "5.3.0"}})
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for index, (path, name) in enumerate(_MODULES[: 2 + task.get("normalize", True)])
    ]
    chosen = HeadConfig.from_dict(task.get("head", {}), "the head").pooling
    pooling: dict[str, Any] = {name: value == chosen for name, value in _POOLING.items()}
    pooling["word_embedding_dimension"] = config.hidden_size
    length = {"max_seq_length": task["max_seq_length"], "do_lower_case": False}
    for path, _ in _MODULES[1 : len(modules)]:
        files.gfile.makedirs(f"{folder}/{path}")
    json_files.write(f"{folder}/1_Pooling/config.json", pooling)
    json_files.write(f"{folder}/{_LENGTH_FILE}", length)
    json_files.write(f"{folder}/{_FILE}", modules)
