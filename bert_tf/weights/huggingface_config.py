"""The config.json of Hugging Face transformers: sizes, labels, and what a model is for."""

from typing import Any

import numpy as np

from bert_tf.models.config import BertConfig
from bert_tf.weights import own
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, Bundle
from pipelines.common.errors import InputError

CONFIG = "config.json"
# Their names of the shapes of tasks, and of the layer that is the head.
_ARCHITECTURES = {
    "classification": ("BertForSequenceClassification", "classifier"),
    "regression": ("BertForSequenceClassification", "classifier"),
    "tagging": ("BertForTokenClassification", "classifier"),
    "span": ("BertForQuestionAnswering", "qa_outputs"),
    "choice": ("BertForMultipleChoice", "classifier"),
}
_PRETRAINING = {
    "BertForPreTraining": (MASKED_LM, NEXT_SENTENCE),
    "BertForMaskedLM": (MASKED_LM,),
    "BertLMHeadModel": (MASKED_LM,),
    "BertForNextSentencePrediction": (NEXT_SENTENCE,),
}
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
}
_ACTIVATIONS_BACK = {"gelu_erf": "gelu", "gelu": "gelu_new", "gelu_tanh": "gelu_new"}
# Keys of which one value only is BERT's.
_FIXED = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
}


def read_config(values: dict[str, Any], name: str) -> BertConfig:
    """The configuration.

    Args:
      values: of config.json.
      name: of the file, for errors.

    Raises:
      InputError: the model is not BERT, or computes what ours cannot.
    """
    for key, only in _FIXED.items():
        if values.get(key, only) != only:
            raise InputError(f"{name}: {key} is {values[key]!r}; BERT's is {only!r}.")
    activation = str(values.get("hidden_act", "gelu"))
    if activation not in _ACTIVATIONS:
        raise InputError(
            f"{name}: hidden_act is {activation!r}; known are {', '.join(_ACTIVATIONS)}."
        )
    known = BertConfig().to_dict()
    ours = {key: value for key, value in values.items() if key in known}
    ours |= {"hidden_act": _ACTIVATIONS[activation], "causal": bool(values.get("is_decoder"))}
    return BertConfig.from_dict(ours, name)


def read_task(
    values: dict[str, Any], weights: dict[str, np.ndarray], path: str
) -> tuple[dict[str, Any] | None, int, str | None]:
    """The task that a model is for, the units of its head, and the name of the head's layer.

    Args:
      values: of config.json.
      weights: by their names.
      path: the folder, for errors.

    Raises:
      InputError: the head is missing, or its labels do not fit.
    """
    architecture = _architecture_of(values)
    shape, layer = next(
        ((s, layer) for s, (name, layer) in _ARCHITECTURES.items() if name == architecture),
        (None, None),
    )
    if shape is None:
        return None, 0, None
    if f"{layer}.bias" not in weights:
        raise InputError(f"{path}: lacks the weight {layer}.bias; a {architecture} has it.")
    units = len(weights[f"{layer}.bias"])
    problem = values.get("problem_type")
    if shape == "classification" and (units == 1 or problem == "regression"):
        shape = "regression"
    if problem == "multi_label_classification" or (shape == "regression" and units > 1):
        raise InputError(
            f"{path}/{CONFIG}: problem_type is {problem!r} with {units} labels; one label of "
            "several, or one score, is what a task here predicts."
        )
    labels = _labels(values, units, path) if shape in ("classification", "tagging") else []
    name = str(values.get("finetuning_task") or shape)
    name = name if own.TASK_NAME.fullmatch(name) else shape
    return {"name": name, "shape": shape, "labels": labels}, units, layer


def _architecture_of(values: dict[str, Any]) -> str:
    names = values.get("architectures")
    return names[0] if isinstance(names, list) and names else "BertModel"


def _labels(values: dict[str, Any], units: int, path: str) -> list[str]:
    """The names of labels, by number.

    Raises:
      InputError: there are not as many as units, or two are equal.
    """
    names = values.get("id2label") or {str(index): f"LABEL_{index}" for index in range(units)}
    found = [names.get(str(index)) for index in range(units)] if isinstance(names, dict) else []
    texts = {name for name in found if isinstance(name, str)}
    if len(texts) != units or len(names) != units:
        raise InputError(
            f"{path}/{CONFIG}: id2label must name the {units} units of the head, each differently."
        )
    return found


def check_heads(values: dict[str, Any], found: dict[str, np.ndarray], path: str) -> None:
    """Raises InputError where weights are missing that the architecture has."""
    architecture = _architecture_of(values)
    for group in _PRETRAINING.get(architecture, ()):
        if not any(name.startswith(group) for name in found):
            raise InputError(
                f"{path}: lacks the weights of {group[:-1]}; a {architecture} has them."
            )


def head_layer(description: dict[str, Any] | None) -> str | None:
    """The layer that is the head of a task; None without a task."""
    return _ARCHITECTURES[description["shape"]][1] if description else None


def from_bundle(model: Bundle, description: dict[str, Any] | None) -> dict[str, Any]:
    """The values of config.json for a model, and for the task whose head comes along."""
    config = model.config.to_dict()
    config["hidden_act"] = _ACTIVATIONS_BACK.get(config["hidden_act"], config["hidden_act"])
    config["is_decoder"] = config.pop("causal", False)
    config |= {"model_type": "bert", "pad_token_id": 0, "position_embedding_type": "absolute"}
    config["architectures"] = [_architecture_for(model, description)]
    if description is None:
        return config
    config["finetuning_task"] = description["name"]
    if description["shape"] != "choice":
        units = model.weights[f"heads/{description['name']}/bias"].size
        labels = description["labels"] or [f"LABEL_{index}" for index in range(units)]
        config["id2label"] = {str(index): label for index, label in enumerate(labels)}
        config["label2id"] = {label: index for index, label in enumerate(labels)}
    if description["shape"] == "regression":
        config["problem_type"] = "regression"
    return config


def _architecture_for(model: Bundle, description: dict[str, Any] | None) -> str:
    if description:
        return _ARCHITECTURES[description["shape"]][0]
    if model.has(MASKED_LM):
        if model.config.causal:
            return "BertLMHeadModel"
        return "BertForPreTraining" if model.has(NEXT_SENTENCE) else "BertForMaskedLM"
    return "BertForNextSentencePrediction" if model.has(NEXT_SENTENCE) else "BertModel"
