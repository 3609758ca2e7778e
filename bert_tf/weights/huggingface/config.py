"""The config.json of Hugging Face transformers: family, sizes, labels, and class of a model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from bert_tf.tasks.labels import LabelTask
from bert_tf.weights import own
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, POOLER, SENTENCE_ORDER, Bundle
from bert_tf.weights.huggingface import albert, bart, bert, distilbert, electra, gpt, roberta
from bert_tf.weights.huggingface.family import Architecture, Family
from pipelines.common.errors import InputError

CONFIG = "config.json"
_FAMILIES = {
    family.model_type: family
    for family in (
        *(bert.FAMILY, roberta.FAMILY, distilbert.FAMILY, albert.FAMILY, electra.FAMILY),
        *(gpt.GPT, gpt.GPT2, bart.FAMILY),
    )
}
# Families with the weights of RoBERTa and another tokenizer.
_OTHER_TOKENIZERS = {
    "camembert": "CamemBERT",
    "xlm-roberta": "XLM-RoBERTa",
    "xlm-roberta-xl": "XLM-RoBERTa-XL",
}
# The only supported values.
_FIXED = {"position_embedding_type": "absolute", "add_cross_attention": False}
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
}
_PROBLEMS = {"regression": "regression", "multilabel": "multi_label_classification"}
_ACTIVATIONS_BACK = {"gelu_erf": "gelu", "gelu": "gelu_new", "gelu_tanh": "gelu_new"}


def find_family(model_type: Any, place: str) -> Family:
    """The family of a model_type; an InputError if it is not supported."""
    if isinstance(model_type, str) and model_type in _FAMILIES:
        return _FAMILIES[model_type]
    reason = ""
    if title := _OTHER_TOKENIZERS.get(str(model_type)):
        reason = f"; {title} has a SentencePiece tokenizer, unlike RoBERTa"
    known = ", ".join(_FAMILIES)
    raise InputError(f"{place}: model_type is {model_type!r}; known are {known}{reason}.")


def read_config(values: dict[str, Any], name: str) -> tuple[Family, BertConfig]:
    """The family and the configuration of a model with these values of config.json.

    Raises:
      InputError: The family or a value is not supported; `name` is the path of the file.
    """
    family = find_family(values.get("model_type", "bert"), name)
    names = {theirs: ours for ours, theirs in family.keys.items()}
    values = {**family.defaults, **{names.get(key, key): value for key, value in values.items()}}
    for key, only in {**_FIXED, **family.only}.items():
        if values.get(key, only) != only:
            raise InputError(f"{name}: {key} is {values[key]!r}; {family.title}'s is {only!r}.")
    activation = str(values.get("hidden_act", "gelu"))
    if activation not in _ACTIVATIONS:
        raise InputError(
            f"{name}: hidden_act is {activation!r}; known are {', '.join(_ACTIVATIONS)}."
        )
    known = BertConfig().to_dict()
    ours = {key: value for key, value in values.items() if key in known}
    ours |= {"hidden_act": _ACTIVATIONS[activation], "causal": values.get("is_decoder") or False}
    ours |= {"model_type": family.model_type}
    try:
        options = family.to_options(values)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return family, BertConfig.from_dict({**ours, **family.fixed, **options}, name)


def read_task(
    values: dict[str, Any], weights: dict[str, np.ndarray], family: Family, path: str
) -> tuple[Mapping[str, Any] | None, int]:
    """The task of a model, or None, and the number of units of its head.

    Raises:
      InputError: The head is missing, or its labels do not match.
    """
    architecture = family.architecture(values)
    if architecture.head is None:
        return None, 0
    shape = next(shape for shape, item in family.tasks.items() if item == architecture)
    needed = f"{architecture.head}.{'bias' if architecture.biased else 'weight'}"
    if needed not in weights:
        raise InputError(f"{path}: lacks the weight {needed}; a {architecture.name} requires it.")
    units = len(weights[needed])
    problem = values.get("problem_type")
    if shape == "classification" and problem == "multi_label_classification":
        shape = "multilabel"
    elif shape == "classification" and (units == 1 or problem == "regression"):
        shape = "regression"
    if shape == "regression" and units > 1:
        raise InputError(
            f"{path}/{CONFIG}: problem_type is {problem!r} with {units} labels; regression has one."
        )
    labelled = isinstance(tasks.make(tasks.shapes()[shape].default_kind), LabelTask)
    labels = _labels(values, units, path) if labelled else []
    name = str(values.get("finetuning_task") or shape)
    name = name if own.TASK_NAME.fullmatch(name) else shape
    return {"name": name, "shape": shape, "labels": labels}, units


def _labels(values: dict[str, Any], units: int, path: str) -> list[str]:
    """The names of labels; an InputError if they are not as many as units, or not distinct."""
    names = values.get("id2label") or {str(index): f"LABEL_{index}" for index in range(units)}
    found = [names.get(str(index)) for index in range(units)] if isinstance(names, dict) else []
    texts = [name for name in found if isinstance(name, str)]
    if len(set(texts)) != units or len(names) != units:
        raise InputError(
            f"{path}/{CONFIG}: id2label must name the {units} units of the head, each differently."
        )
    return texts


def architecture_for(model: Bundle, family: Family) -> Architecture:
    """The class to write a model as: that of its task, or the first with all its weights.

    Raises:
      InputError: The model has several tasks, or no class supports it.
    """
    if model.tasks and tasks.load(model.task()).units:  # else its head is the model's own
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
                f"{model.place}: lacks the weights of {group[:-1]}; a {architecture.name} requires "
                "them."
            )
    return architecture


def check(
    config: BertConfig, family: Family, has_masked_lm: bool, place: str, pooled: bool = True
) -> None:
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
    if has_masked_lm and family.head_act not in (None, config.hidden_act):
        raise InputError(
            f"{place}: the masked LM head of Hugging Face's {family.title} always uses "
            f"{family.head_act}, but the hidden_act is {config.hidden_act}, which ours uses."
        )


def from_bundle(model: Bundle, family: Family, architecture: Architecture) -> dict[str, Any]:
    """The contents of config.json; an InputError if the family does not support the model."""
    ours = model.config
    assert isinstance(ours, BertConfig)  # the only type of these families
    pooled = POOLER not in architecture.lacks
    check(ours, family, MASKED_LM in architecture.needs, model.place, pooled)
    config = {k: v for k, v in ours.to_dict().items() if k not in (*ours.options, *family.fixed)}
    config["hidden_act"] = _ACTIVATIONS_BACK.get(config["hidden_act"], config["hidden_act"])
    config["is_decoder"] = model.config.causal
    config |= {"model_type": family.model_type, **family.to_keys(ours)}
    config |= {"position_embedding_type": "absolute", "architectures": [architecture.name]}
    config = {family.keys.get(key, key): value for key, value in config.items()}
    description = model.task() if model.tasks else None
    if description is None:
        return config
    config["finetuning_task"] = description["name"]
    head = tasks.shapes()[description["shape"]].transformers
    if head and head.labels:
        units = model.weights[f"heads/{description['name']}/bias"].size
        labels = description["labels"] or [f"LABEL_{index}" for index in range(units)]
        config["id2label"] = {str(index): label for index, label in enumerate(labels)}
        config["label2id"] = {label: index for index, label in enumerate(labels)}
    if description["shape"] in _PROBLEMS:
        config["problem_type"] = _PROBLEMS[description["shape"]]
    return config
