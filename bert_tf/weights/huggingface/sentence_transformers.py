"""The files that sentence-transformers needs besides those of transformers."""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np
import safetensors.numpy

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
    *(f"sentence_{name}_config.json" for name in ("roberta", "distilbert", "camembert", "albert")),
    *(f"sentence_{name}_config.json" for name in ("xlm-roberta", "xlnet")),
)
CONFIG = "config_sentence_transformers.json"
_NAMES = ["Transformer", "Pooling", "Dense", "Normalize"]
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
_PAIR_LENGTH_KEYS = dataclasses.replace(
    _LENGTH_KEYS,
    only={
        **_LENGTH_KEYS.only,
        "transformer_task": ("sequence-classification",),
        "module_output_name": ("scores",),
        "modality_config": ({"text": {"method": "forward", "method_output_name": "logits"}},),
    },
)
_POOLING_KEYS = Keys(
    frozenset(["pooling_mode", "include_prompt"]),
    frozenset(["word_embedding_dimension", "embedding_dimension"]),
)
_DENSE_KEYS = Keys(
    frozenset(["in_features", "out_features", "bias", "activation_function"]),
    only={
        "use_residual": (False,),
        **dict.fromkeys(("module_input_name", "module_output_name"), ("sentence_embedding",)),
    },
)
_DENSE_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu_erf",
}
_NORMALIZE_KEYS = Keys(
    frozenset(),
    only=dict.fromkeys(("module_input_name", "module_output_name"), ("sentence_embedding",)),
)
_CONFIG_KEYS = Keys(
    frozenset("prompts default_prompt_name truncate_dim similarity_fn_name activation_fn".split()),
    frozenset(["__version__", "requirements"]),
    {"model_type": (False, "SentenceTransformer")},
)
_PAIRS = "CrossEncoder"  # the type of models that read pairs
_PAIR_CONFIG_KEYS = dataclasses.replace(
    _CONFIG_KEYS,
    harmless=_CONFIG_KEYS.harmless | {"keep_in_fp32_modules"},
    only={"model_type": (_PAIRS,)},
)


class _Module(TypedDict):
    path: str
    type: str


class _Length(TypedDict):
    max_seq_length: NotRequired[int | None]
    do_lower_case: NotRequired[bool]


class _Tokenizer(TypedDict):
    model_max_length: NotRequired[int | float | None]
    max_len: NotRequired[int | float | None]  # its older name


class _ConfigFile(TypedDict):
    prompts: NotRequired[dict[str, str | None] | None]
    default_prompt_name: NotRequired[str | None]
    truncate_dim: NotRequired[Annotated[int, msgspec.Meta(ge=1)] | None]
    similarity_fn_name: NotRequired[str | None]


class _PoolingFile(TypedDict):
    pooling_mode: NotRequired[str | list[str]]
    include_prompt: NotRequired[bool]


class _DenseFile(TypedDict):
    in_features: int
    out_features: int
    bias: NotRequired[bool]
    activation_function: NotRequired[str]


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
    place, values = _length(folder)
    stated: float | None = values.get("max_seq_length")
    if not stated:
        known = json_files.read_optional(place := f"{folder}/{tokenizers.CONFIG}", _Tokenizer)
        stated = known.get("model_max_length", known.get("max_len"))
    most = longest if stated is None else int(min(stated, longest))
    if most < min(_LEAST, longest):
        raise InputError(f"{place}: cuts texts to {most} tokens; at least {_LEAST} are supported.")
    return most


def _length(folder: str) -> tuple[str, _Length]:
    """The first file of lengths that states anything, and its values."""
    for place in (f"{folder}/{name}" for name in _LENGTH_FILES):
        if values := json_files.read_optional(place, _Length):
            return place, values
    return f"{folder}/{_LENGTH_FILE}", _Length()


def _check_texts(model: Bundle, keys: Keys) -> None:
    """Raises InputError if texts are prepared in another way than the tokenizer's."""
    place, values = _length(model.place)
    keys.check(values, place)
    if values.get("do_lower_case") and not model.resolved_settings().get("lower_case"):
        raise InputError(
            f"{place}: do_lower_case makes texts lower case before they are tokenized, which the "
            "tokenizer does not do; set do_lower_case in tokenizer_config.json."
        )


def with_stripping(model: Bundle) -> Bundle:
    """The model as versions of the library before 5.4 used it, if one of them made the folder.

    They remove white space around texts, which decides ids of byte-level BPE.
    """
    place = f"{top_of(model.place)}/{CONFIG}"
    version = json_files.read_optional(place, dict[str, Any]).get("__version__")
    stated = version.get("sentence_transformers") if isinstance(version, dict) else None
    found = re.match(r"(\d+)\.(\d+)", str(stated))
    is_byte_bpe = model.vocabulary is not None and model.vocabulary.kind == "byte_bpe"
    if not (found and is_byte_bpe) or (int(found[1]), int(found[2])) >= _KEEPS_SPACE:
        return model
    return dataclasses.replace(
        model, tokenizer_settings=model.resolved_settings() | {"strip": True}
    )


def top_of(folder: str) -> str:
    """The folder of all modules, given that of the encoder."""
    parent, name = os.path.split(folder)
    return (parent or ".") if _encoder_path(parent or ".") == name else folder


def modules(folder: str) -> list[str]:
    """The names of the modules in the folder of an encoder or around it, if there are any."""
    path = f"{top_of(folder)}/{_FILE}"
    return _names(json_files.read_optional(path, list[_Module]) or [], path)


def read(model: Bundle) -> dict[str, Any] | None:
    """Reads the task of a model of sentence-transformers; None if it is not one.

    Args:
      model: what was read of the folder of its encoder.

    Raises:
      InputError: a file is damaged, or the model has other layers, another kind of pooling, or
        changes texts or vectors in another way.
    """
    folder = model.place
    top = top_of(folder)
    path = f"{top}/{_FILE}"
    if not files.gfile.exists(path):
        return None
    modules = json_files.read(path, list[_Module])
    names = _names(modules, path)
    if names[:2] != _NAMES[:2] or names != [name for name in _NAMES if name in names]:
        raise InputError(
            f"{path}: has the modules {', '.join(names)}; Transformer and Pooling can be read, and "
            "after them a Dense, a Normalize, or both in this order."
        )
    normalize = "Normalize" in names
    described = _read_config(f"{top}/{CONFIG}", _CONFIG_KEYS)
    places = {
        name: files.inside(top, f"{module['path']}/config.json", path)
        for name, module in zip(names[1:], modules[1:], strict=True)
    }
    if normalize:
        place = places["Normalize"]
        _NORMALIZE_KEYS.check(json_files.read_optional(place, dict[str, Any]), place)
    head = HeadConfig(pooling=_read_pooling(places["Pooling"], any(described["prompts"].values())))
    if "Dense" in names:
        head = _with_dense(head, places["Dense"], model.config.hidden_size)
    _check_texts(model, _LENGTH_KEYS)
    most = max_seq_length(folder, model.config.max_seq_length)
    task = tasks.make(embedding.SHAPE.default_kind, max_seq_length=most, head=head)
    return json_files.as_json(task.describe() | described | {"normalize": normalize})


def check_pairs(model: Bundle) -> None:
    """Raises InputError if a CrossEncoder changes texts or scores in a way that ours does not."""
    top = top_of(model.place)
    place, path = f"{top}/{CONFIG}", f"{top}/{_FILE}"
    if json_files.read_optional(place, dict[str, Any]).get("model_type") != _PAIRS:
        return
    names = _names(json_files.read_optional(path, list[_Module]), path)
    if names not in ([], _NAMES[:1]):
        raise InputError(
            f"{path}: has the modules {', '.join(names)}; of a {_PAIRS}, only Transformer can be "
            "read."
        )
    described = _read_config(place, _PAIR_CONFIG_KEYS)
    if described["prompts"].get(described["default_prompt"]):
        raise InputError(
            f"{place}: default_prompt_name is {described['default_prompt']!r}; models of pairs "
            "have no prompts here. Remove it, and write the prompt into your texts."
        )
    _check_texts(model, _PAIR_LENGTH_KEYS)


def _names(modules: list[_Module], path: str) -> list[str]:
    """The names of modules, which must be those of the library."""
    for module in modules:
        _MODULE_KEYS.check(module, path)
        if not module["type"].startswith("sentence_transformers."):
            raise InputError(
                f"{path}: {module['type']} is code of the folder's own, which is never run."
            )
    return [module["type"].rsplit(".", 1)[-1] for module in modules]


def _read_config(place: str, keys: Keys) -> dict[str, Any]:
    """What a description of the task has of the prompts, and of how vectors are compared."""
    values = json_files.read_optional(place, _ConfigFile)
    keys.check(values, place)
    similarity = values.get("similarity_fn_name") or "cosine"
    if similarity not in ("cosine", "dot"):
        raise InputError(
            f"{place}: similarity_fn_name is {similarity!r}; only cosine and dot are supported."
        )
    prompts = {name: text or "" for name, text in (values.get("prompts") or {}).items()}
    default = values.get("default_prompt_name") or ""
    if default and default not in prompts:
        raise InputError(
            f"{place}: default_prompt_name is {default!r}; the prompts are "
            f"{', '.join(prompts) or 'none'}."
        )
    return {
        "prompts": prompts,
        "default_prompt": default,
        "truncate_dim": values.get("truncate_dim"),
        "similarity": similarity,
    }


def _read_pooling(path: str, prompted: bool) -> Pooling:
    """The kind of pooling; versions before 6 have a flag for each."""
    values = json_files.read(path, _PoolingFile)
    if prompted and values.get("include_prompt") is False:
        raise InputError(
            f"{path}: include_prompt is false; tokens of prompts cannot be left out of the pooling."
        )
    _POOLING_KEYS.check({k: v for k, v in values.items() if not k.startswith(_FLAG)}, path)
    stated = {name: on for name, on in values.items() if name.startswith(_FLAG)}
    for name, on in stated.items():
        if not isinstance(on, bool):
            raise InputError(f"{path}: {name} is {on!r}; it must be true or false.")
    flags = [name for name, on in stated.items() if on]
    found = values.get("pooling_mode", [_POOLING.get(name, name) for name in flags] or "mean")
    modes = [found] if isinstance(found, str) else found
    if len(modes) != 1 or modes[0] not in _POOLING.values():
        raise InputError(
            f"{path}: pools by {' and '.join(modes)}; one of cls, mean and max can be read."
        )
    return Pooling(modes[0])


def _with_dense(head: HeadConfig, path: str, inputs: int) -> HeadConfig:
    """A head with the linear map and the activation of a module Dense."""
    values = json_files.read(path, _DenseFile)
    _DENSE_KEYS.check(values, path)
    if values["in_features"] != inputs:
        raise InputError(
            f"{path}: in_features is {values['in_features']}, but the encoder's width is {inputs}."
        )
    act = values.get("activation_function", next(iter(_DENSE_ACTIVATIONS)))
    if act not in _DENSE_ACTIVATIONS:
        raise InputError(
            f"{path}: activation_function is {act!r}; known are {', '.join(_DENSE_ACTIVATIONS)}."
        )
    changes = {"dense_width": values["out_features"], "dense_act": _DENSE_ACTIVATIONS[act]}
    return HeadConfig.from_dict(head.to_dict() | changes, path)


def dense_folder(folder: str) -> tuple[str, bool]:
    """The folder of a module Dense, given that of the encoder, and whether it has a bias."""
    top = top_of(folder)
    modules = json_files.read(f"{top}/{_FILE}", list[_Module])
    path = next((m["path"] for m in modules if m["type"].endswith(".Dense")), None)
    if path is None:
        raise InputError(f"{top}/{_FILE}: lacks the module Dense that the task has.")
    place = files.inside(top, path, f"{top}/{_FILE}")
    return place, json_files.read(f"{place}/config.json", _DenseFile).get("bias", True)


def write(model: Bundle, folder: str, dense: Mapping[str, np.ndarray]) -> None:
    """Writes a model of embeddings, except for its encoder.

    `dense` has the weights of its module Dense by their names there; empty without one.
    """
    task, config = model.task(), model.config
    stated = {
        "prompts": task.get("prompts"),
        "default_prompt_name": task.get("default_prompt"),
        "truncate_dim": task.get("truncate_dim"),
        "similarity_fn_name": task.get("similarity"),
    }
    if model.resolved_settings().get("strip"):
        stated["__version__"] = {"sentence_transformers": "5.3.0"}
    json_files.write(f"{folder}/{CONFIG}", {key: value for key, value in stated.items() if value})
    head = HeadConfig.from_dict(task.get("head", {}), "the head")
    pooling: dict[str, Any] = {name: value == head.pooling for name, value in _POOLING.items()}
    pooling["word_embedding_dimension"] = config.hidden_size
    length = {"max_seq_length": task["max_seq_length"], "do_lower_case": False}
    json_files.write(f"{folder}/{_LENGTH_FILE}", length)
    described: dict[str, dict[str, Any]] = {"Transformer": {}, "Pooling": pooling}
    if dense:
        acts = {ours: theirs for theirs, ours in _DENSE_ACTIVATIONS.items()}
        described["Dense"] = {
            "in_features": config.hidden_size,
            "out_features": head.dense_width,
            "bias": "linear.bias" in dense,
            "activation_function": acts[head.dense_act],
        }
    if task.get("normalize", True):
        described["Normalize"] = {}
    modules = []
    for index, (name, values) in enumerate(described.items()):
        path = f"{index}_{name}" if index else ""
        kind = f"sentence_transformers.models.{name}"
        modules.append({"idx": index, "name": str(index), "path": path, "type": kind})
        if path:
            files.gfile.makedirs(f"{folder}/{path}")
        if values:
            json_files.write(f"{folder}/{path}/config.json", values)
        if name == "Dense":
            place = f"{folder}/{path}/model.safetensors"
            files.write_bytes(place, safetensors.numpy.save(dict(dense), {"format": "pt"}))
    json_files.write(f"{folder}/{_FILE}", modules)
