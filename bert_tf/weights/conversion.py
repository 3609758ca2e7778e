"""Models with another vocabulary or other tokenizer settings."""

import dataclasses
from collections.abc import Mapping

from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.weights import elmo
from bert_tf.weights.bundle import Bundle
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary


def with_tokenizer(model: Bundle, vocab: str | None, chosen: Mapping[str, bool]) -> Bundle:
    """A copy of a model with another vocabulary or other tokenizer settings.

    Args:
      model: The model.
      vocab: Path of a vocabulary; None: unchanged.
      chosen: Tokenizer settings, by name.

    Raises:
      InputError: The size of the vocabulary differs from that of the model's own (except for an
        ELMo), or it does not match the model or the settings.
    """
    own = dict(model.tokenizer_settings or {})
    kept: dict[str, bool | str | None] = {}
    if vocab:
        if isinstance(model.config, ElmoConfig):
            model = elmo.with_words(model, registry.load(vocab))
        else:
            model = dataclasses.replace(model, vocabulary=_vocabulary(model, vocab))
        kept = {"lower_case": own.get("lower_case")}
    if model.vocabulary:
        model.vocabulary.check_settings({**kept, **chosen}, vocab or model.place)
    # Stripping of accents continues to follow lower-casing.
    if own.get("strip_accents") == own.get("lower_case"):
        own.pop("strip_accents", None)
    settings: TokenizerSettings | None = {**own, **chosen} or None
    return dataclasses.replace(model, tokenizer_settings=settings)


def _vocabulary(model: Bundle, path: str) -> Vocabulary:
    vocabulary = registry.load(path)
    if model.vocabulary and len(vocabulary) != len(model.vocabulary):
        raise InputError(
            f"{path}: has {len(vocabulary)} tokens, the model's own vocabulary "
            f"{len(model.vocabulary)}; a new one may rename tokens, but must not renumber them."
        )
    return vocabulary
