"""The config.json of Hugging Face transformers: family, sizes, labels, and class of a model."""

import math
import re
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from absl import logging

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from bert_tf.tasks.labels import LabelTask
from bert_tf.weights import own
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER, SENTENCE_ORDER, Bundle
from bert_tf.weights.huggingface import (
    albert,
    bart,
    bert,
    distilbert,
    electra,
    gpt,
    keys,
    modernbert,
    mpnet,
    nomic_bert,
    roberta,
    sentence_transformers,
)
from bert_tf.weights.huggingface.family import Architecture, Family, stated_class
from bert_tf.weights.table import StoredArray
from pipelines.common import json_files
from pipelines.common.errors import InputError

CONFIG = "config.json"
FAMILIES = {
    family.model_type: family
    for family in (
        *(bert.FAMILY, roberta.FAMILY, distilbert.FAMILY, albert.FAMILY, electra.FAMILY),
        *(mpnet.FAMILY, modernbert.FAMILY, nomic_bert.FAMILY, gpt.GPT, gpt.GPT2, bart.FAMILY),
        *(roberta.XLM_R, roberta.CAMEMBERT),
    )
}
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
_IDENTITY, _SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
_SOFTMAX = "torch.nn.modules.activation.Softmax"
# Activations of the scores of a pair, as sentence-transformers names them.
_SCORES = {_IDENTITY: "identity", _SIGMOID: "sigmoid", _SOFTMAX: "softmax"}
# Those of several scores, by the shape of the task, whose probabilities are always ours.
_SEVERAL_SCORES = {
    "classification": (_IDENTITY, _SOFTMAX),
    "multilabel": (_IDENTITY, _SIGMOID),
    "regression": (_IDENTITY,),
}
_PROBLEMS = {"regression": "regression", "multilabel": "multi_label_classification"}
_ONE_LABEL = "single_label_classification"
_UNNAMED = "LABEL_0"  # of transformers, where a label has no name
_ACTIVATIONS_BACK = {"gelu_erf": "gelu", "gelu": "gelu_new", "gelu_tanh": "gelu_new"}


def find_family(model_type: Any, place: str) -> Family:
    """The family of a model_type; an InputError if it is not supported."""
    if isinstance(model_type, str) and model_type in FAMILIES:
        return FAMILIES[model_type]
    raise InputError(f"{place}: model_type is {model_type!r}; known are {', '.join(FAMILIES)}.")


def read_config(values: dict[str, Any], name: str) -> tuple[Family, BertConfig]:
    """The family and the configuration of a model with these values of config.json.

    Raises:
      InputError: The family or a value is not supported; `name` is the path of the file.
    """
    family = find_family(values.get("model_type", "bert"), name)
    architecture = family.architecture(values)
    # Output embeddings are tied in language models, which an unknown class may be, and in BART.
    is_bare = architecture == family.pretraining[-1] and family.model_type != "bart"
    has_none = architecture.head or (is_bare and stated_class(values) == architecture.name)
    tied = {} if has_none else {"tie_word_embeddings": (True,)}
    keys.Keys(
        keys.FOLLOWED | family.followed,
        keys.HARMLESS | keys.GENERATION | family.harmless,
        {**keys.ONLY, **tied, **family.only, **architecture.only},
    ).check(values, name)
    stated = _stated(values, family, name)
    ours = {field: stated[key] for key, field in family.keys.items() if key in stated}
    activation = str(ours.get("hidden_act", "gelu"))
    if activation not in _ACTIVATIONS:
        *_, key = (key for key, field in family.keys.items() if field == "hidden_act")
        raise InputError(f"{name}: {key} is {activation!r}; known are {', '.join(_ACTIVATIONS)}.")
    ours |= {"hidden_act": _ACTIVATIONS[activation], "model_type": family.model_type}
    try:
        return family, BertConfig(**{**ours, **family.fixed, **family.to_options(stated)})
    except InputError as error:  # which may have our names of keys
        aliases = {alias: family.keys.get(key, "") for alias, key in family.aliases.items()}
        theirs = {ours: key for key, ours in {**family.keys, **aliases}.items() if key in values}
        message = re.sub(r"\w+", lambda match: theirs.get(match[0], match[0]), str(error))
        raise InputError(f"{name}: {message}") from error


def _stated(values: Mapping[str, Any], family: Family, name: str) -> dict[str, Any]:
    """The values by the family's own names of keys, with defaults of missing ones."""
    found = {key: value for key, value in values.items() if value is not None}
    for alias, key in family.aliases.items():
        if found.get(alias, found.get(key)) != found.get(key, found.get(alias)):
            raise InputError(
                f"{name}: {alias} is {found[alias]!r}, but {key}, which means the same, "
                f"{found[key]!r}; remove one of them."
            )
        if alias in found:
            found[key] = found[alias]
    return {**family.defaults, **found}


def read_task(
    values: dict[str, Any],
    weights: Mapping[str, StoredArray],
    family: Family,
    longest: int,
    path: str,
) -> tuple[Mapping[str, Any] | None, int]:
    """The task of a model, or None, and the number of units of its head.

    Args:
      values: Those of config.json.
      weights: The weights by their names.
      family: The family.
      longest: Maximum number of tokens of a sequence of the model.
      path: The folder.

    Raises:
      InputError: The head is missing, or its labels do not match.
    """
    architecture = family.architecture(values)
    if architecture.head is None:
        return None, 0
    shape = next(shape for shape, item in family.tasks.items() if item == architecture)
    needed = f"{architecture.head}.{'bias' if architecture.biased else 'weight'}"
    if needed not in weights:
        raise InputError(
            f"{path}: lacks the weight {needed}; the class {architecture.name} requires it."
        )
    units = math.prod(weights[needed].shape[:1])
    problem = values.get("problem_type")
    if problem not in (None, *_PROBLEMS.values(), _ONE_LABEL):
        known = ", ".join((*_PROBLEMS.values(), _ONE_LABEL))
        raise InputError(f"{path}/{CONFIG}: problem_type is {problem!r}; known are {known}.")
    if shape == "classification" and problem == "multi_label_classification":
        shape = "multilabel"
    elif shape == "classification" and (units == 1 or problem == "regression"):
        shape = "regression"
    labelled = isinstance(tasks.make(tasks.shapes()[shape].default_kind), LabelTask)
    labelled |= shape == "regression" and units > 1
    labels = _labels(values, units, path) if labelled else []
    name = str(values.get("finetuning_task") or shape)
    name = name if own.TASK_NAME.fullmatch(name) else shape
    found: dict[str, Any] = {"name": name, "shape": shape, "labels": labels}
    if shape == "regression" and units == 1:
        [label] = _labels(values, 1, path)
        found |= {"label": label} if label != _UNNAMED else {}
    if shape in _SEVERAL_SCORES:
        found |= _of_pairs(values, shape, units, path)
    if shape != "span":  # whose windows do not depend on the length of the model
        found["max_seq_length"] = sentence_transformers.max_seq_length(path, longest)
    return found, units


class _CrossEncoder(TypedDict):
    model_type: NotRequired[str | None]
    activation_fn: NotRequired[str | None]


def _of_pairs(values: dict[str, Any], shape: str, units: int, path: str) -> dict[str, Any]:
    """What sentence-transformers states of a CrossEncoder; empty of other models."""
    place = f"{sentence_transformers.top_of(path)}/{sentence_transformers.CONFIG}"
    described = json_files.read_optional(place, _CrossEncoder)
    is_one = shape == "regression" and units == 1
    stated = described.get("activation_fn")
    if stated is None:
        place, inner = f"{path}/{CONFIG}", values.get("sentence_transformers")
        stated = inner.get("activation_fn") if isinstance(inner, dict) else None
        stated = values.get("sbert_ce_default_activation_function") if stated is None else stated
    if stated is None and described.get("model_type") == "CrossEncoder":
        stated = _SIGMOID if is_one else _IDENTITY  # its defaults
    if stated is None:
        return {}
    known = (_IDENTITY, _SIGMOID) if is_one else _SEVERAL_SCORES[shape]
    if stated not in known:
        several = stated == _SIGMOID and shape == "classification"
        remedy = f'set problem_type to "{_PROBLEMS["multilabel"]}" in {CONFIG}'
        raise InputError(
            f"{place}: the activation of scores is {stated}; "
            + (f"{remedy}." if several else f"known are {', '.join(known)}.")
        )
    return {"pair": True, "activation": _SCORES[stated]}


def _labels(values: dict[str, Any], units: int, path: str) -> list[str]:
    """The names of labels; numbers become texts, and repeated names end with their unit."""
    names = values.get("id2label") or {str(index): f"LABEL_{index}" for index in range(units)}
    found = [names.get(str(index)) for index in range(units)] if isinstance(names, dict) else []
    texts = [str(name) for name in found if isinstance(name, str | int | float)]
    if len(texts) != units or len(names) != units:
        raise InputError(f"{path}/{CONFIG}: id2label must name the {units} units of the head.")
    repeated = {text for text in texts if texts.count(text) > 1}
    if not repeated:
        return texts
    distinct = [f"{t} ({unit})" if t in repeated else t for unit, t in enumerate(texts)]
    logging.warning(
        "%s/%s: id2label names several units alike (%s); their labels end with the unit: %s.",
        *(path, CONFIG, ", ".join(sorted(repeated)), ", ".join(distinct)),
    )
    return distinct


def architecture_for(model: Bundle, family: Family) -> Architecture:
    """The class to write a model as: that of its task, or the first with all its weights.

    Raises:
      InputError: The model has several tasks, or no class supports it.
    """
    if model.tasks and tasks.load(model.task()).own_head:
        shape = model.task()["shape"]
        if shape not in family.tasks:
            raise InputError(
                f"{model.place}: Hugging Face has no class for a {family.title} with a task of "
                f"the shape {shape}; write it as bert_tf."
            )
        architecture = family.tasks[shape]
    else:
        architecture = next(
            item
            for item in family.pretraining
            if item.causal in (None, model.config.causal) and all(map(model.has, item.needs))
        )
        others = {NEXT_SENTENCE: "next-sentence prediction", SENTENCE_ORDER: "sentence-order"}
        for group, what in others.items():
            if model.has(group) and group[:-1] not in family.names:
                raise InputError(
                    f"{model.place}: Hugging Face's {family.title} has no {what} head; write it "
                    "as bert_tf."
                )
    for group in architecture.needs:
        if not model.has(group):
            raise InputError(
                f"{model.place}: lacks the weights of {group[:-1]}; the class {architecture.name} "
                "requires them."
            )
    return architecture


def check_head(config: BertConfig, family: Family, place: str) -> None:
    """Raises InputError if transformers' masked LM head has another activation than ours."""
    if family.head_act not in (None, config.hidden_act):
        raise InputError(
            f"{place}: the masked LM head of Hugging Face's {family.title} always uses "
            f"{family.head_act}, but the hidden_act is {config.hidden_act}, which ours uses."
        )


def _check(config: BertConfig, family: Family, place: str, pooled: bool) -> None:
    """Raises InputError if transformers would compute something else than ours."""
    differences = config.differences(*family.supported)
    fixed = family.fixed.keys() - (set() if pooled else {"pooler_act"})
    values = {name: getattr(config, name) for name in sorted(fixed)}
    differences += [f"{name} {v!r}" for name, v in values.items() if v != family.fixed[name]]
    if differences:
        raise InputError(
            f"{place}: Hugging Face's {family.title} does not support {', '.join(differences)}; "
            "write it as bert_tf."
        )


def from_bundle(model: Bundle, family: Family, architecture: Architecture) -> dict[str, Any]:
    """The contents of config.json; an InputError if the family does not support the model."""
    ours = model.config
    assert isinstance(ours, BertConfig)  # the only type of these families
    description = model.task() if model.tasks else None
    pooled = POOLER not in architecture.lacks
    pooled |= description is not None and tasks.load(description).reads_pooled
    _check(ours, family, model.place, pooled)
    if MASKED_LM in architecture.needs:
        check_head(ours, family, model.place)
    config = {
        key: _ACTIVATIONS_BACK.get(ours.hidden_act, ours.hidden_act)
        if field == "hidden_act"
        else getattr(ours, field)
        for key, field in family.keys.items()
    }
    config |= {"model_type": family.model_type, **family.to_keys(ours)}
    config |= {"position_embedding_type": "absolute", "architectures": [architecture.name]}
    if description is None:
        return config
    config["finetuning_task"] = description["name"]
    head = tasks.shapes()[description["shape"]].transformers
    if head and head.labels:
        units = model.weights[f"heads/{description['name']}/bias"].size
        labels = description["labels"] or [f"LABEL_{index}" for index in range(units)]
        labels = [description["label"]] if "label" in description else labels
        config["id2label"] = {str(index): label for index, label in enumerate(labels)}
        config["label2id"] = {label: index for index, label in enumerate(labels)}
    if stated := description.get("activation"):
        activation = {ours: theirs for theirs, ours in _SCORES.items()}[stated]
        config["sentence_transformers"] = {"activation_fn": activation}
    shape = description["shape"]
    # Of a "regression", pipelines of transformers show the score without its activation.
    if shape in _PROBLEMS and (shape, stated) != ("regression", "sigmoid"):
        config["problem_type"] = _PROBLEMS[shape]
    return config
