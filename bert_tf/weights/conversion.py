"""Models with another vocabulary, other settings of the tokenizer, or one of their tasks."""

import dataclasses
from collections.abc import Mapping

from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.weights import elmo
from bert_tf.weights.bundle import Bundle
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary


def with_tokenizer(model: Bundle, vocab: str | None, chosen: Mapping[str, bool]) -> Bundle:
    """The model with another vocabulary, or other settings of its tokenizer.

    Args:
      model: to change.
      vocab: path of a vocabulary; None: its own.
      chosen: settings of the tokenizer, by name.

    Raises:
      InputError: the vocabulary is not as long as the model's own (an ELMo takes any words), or
        does not suit the model or the settings.
    """
    own = dict(model.tokenizer_settings or {})
    brought: dict[str, bool | str | None] = {}
    if vocab:
        if isinstance(model.config, ElmoConfig):
            model = elmo.with_words(model, registry.load(vocab))
        else:
            model = dataclasses.replace(model, vocabulary=_vocabulary(model, vocab))
        brought = {"lower_case": own.get("lower_case")}
    if model.vocabulary:
        model.vocabulary.check_settings({**brought, **chosen}, vocab or model.place)
    # Accents go on following lower case.
    if own.get("strip_accents") == own.get("lower_case"):
        own.pop("strip_accents", None)
    settings: TokenizerSettings | None = {**own, **chosen} or None
    return dataclasses.replace(model, tokenizer_settings=settings)


def _vocabulary(model: Bundle, path: str) -> Vocabulary:
    vocabulary = registry.load(path)
    if model.vocabulary and len(vocabulary) != len(model.vocabulary):
        raise InputError(
            f"{path}: has {len(vocabulary)} tokens, the model's own vocabulary "
            f"{len(model.vocabulary)}; another one may rename tokens, but not renumber them."
        )
    return vocabulary
