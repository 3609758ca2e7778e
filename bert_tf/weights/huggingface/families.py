"""The families of models that are read and written; a new one is a file and a line here."""

from typing import Any

from bert_tf.weights.huggingface import bert, roberta
from bert_tf.weights.huggingface.family import Family
from pipelines.common.errors import InputError

_FAMILIES = {family.model_type: family for family in (bert.FAMILY, roberta.FAMILY)}
# Their weights have RoBERTa's names, their texts other tokens.
_OTHER_TOKENS = {
    "camembert": "CamemBERT",
    "xlm-roberta": "XLM-RoBERTa",
    "xlm-roberta-xl": "XLM-RoBERTa-XL",
}


def find(model_type: Any, place: str) -> Family:
    """The family of a model.

    Args:
      model_type: as config.json says it.
      place: where it says so, for errors.

    Raises:
      InputError: it is none of ours.
    """
    if isinstance(model_type, str) and model_type in _FAMILIES:
        return _FAMILIES[model_type]
    reason = ""
    if title := _OTHER_TOKENS.get(str(model_type)):
        reason = f"; {title}'s tokenizer, of SentencePiece, is not RoBERTa's"
    known = ", ".join(_FAMILIES)
    raise InputError(f"{place}: model_type is {model_type!r}; known are {known}{reason}.")
