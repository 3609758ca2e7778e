"""Tokenizers in a Hugging Face folder.

A folder has the files of the older kind (vocab.txt, or vocab.json and merges.txt;
tokenizer_config.json, added_tokens.json), tokenizer.json, or both.
"""

import os
from typing import Any, NotRequired, TypedDict

from absl import logging

from bert_tf.weights.bundle import Bundle
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import listed
from pipelines.tokenizers import bpe_files
from pipelines.tokenizers.byte_bpe_vocabulary import ByteBPEVocabulary, GPT2Vocabulary
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary, check_ids, in_order
from pipelines.tokenizers.wordpiece_vocabulary import FILE, ROLES, WordPieceVocabulary

CONFIG = "tokenizer_config.json"
_ADDED = "added_tokens.json"
_FAST = "tokenizer.json"
# Steps of tokenizer.json before WordPiece, and BERT's kind of them.
_STEPS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
_OTHER_WORDS = ("BertJapaneseTokenizer",)
_SPACE = "add_prefix_space"
# Roles of special tokens by their names in tokenizer_config.json.
_WORDPIECE_ROLES = {
    "pad_token": "pad",
    "unk_token": "unknown",
    "cls_token": "start",
    "sep_token": "separator",
    "mask_token": "mask",
}
_ROLES_OF_TEXTS = _WORDPIECE_ROLES | {"bos_token": "start", "eos_token": "separator"}
_GPT_ROLES = {"pad_token": "pad", "unk_token": "unknown", "eos_token": "separator"}
_SPECIAL = {*ByteBPEVocabulary.roles.values(), *GPT2Vocabulary.roles.values()}  # of BPE
# A mask that includes the space before it.
_MASK_AFTER_SPACE = {
    "__type": "AddedToken",
    "lstrip": True,
    "rstrip": False,
    "single_word": False,
    "normalized": False,
    "special": True,
}


class _AddedToken(TypedDict):
    content: str
    id: int


class _WithAdded(TypedDict):
    """The added tokens of a tokenizer.json."""

    added_tokens: NotRequired[list[_AddedToken] | None]


class _WithModel(TypedDict):
    """The model of a tokenizer.json, which names its kind unless it is an old file."""

    model: dict[str, Any]


class _WordPieceModel(TypedDict):
    vocab: dict[str, Any]


class _BPEModel(_WordPieceModel):
    merges: list[str | list[str]]


def read(
    kind: str, path: str, vocab_size: int
) -> tuple[Vocabulary | None, TokenizerSettings | None]:
    """Reads vocabulary and tokenizer settings of a folder; None for what no file contains.

    Added tokens beyond `vocab_size` have no embeddings and are left out. A model of any family may
    have a WordPiece vocabulary, as many Chinese ones do.

    Raises:
      InputError: A file is damaged, or the tokenizer is of another kind.
    """
    if kind != "wordpiece" and _has_word_pieces(path):
        kind = "wordpiece"
    if kind in ("bpe", "byte_bpe"):
        return _read_bpe(kind, path, vocab_size)
    if kind == "sentencepiece":
        return _read_sentencepiece(path)
    return _read_wordpiece(path, vocab_size), _read_settings(path)


def write(model: Bundle, folder: str) -> None:
    """Writes the vocabulary and tokenizer_config.json of a model with a vocabulary."""
    vocabulary, settings = model.require_vocabulary(), model.resolved_settings()
    vocabulary.save(folder)
    found: dict[str, Any]
    tokens: dict[str, Any]
    if vocabulary.kind == "byte_bpe":
        is_gpt2 = isinstance(vocabulary, GPT2Vocabulary)
        kind = "GPT2Tokenizer" if is_gpt2 else "RobertaTokenizer"
        found = {"tokenizer_class": kind, _SPACE: settings[_SPACE]}
        roles = _GPT_ROLES if is_gpt2 else _ROLES_OF_TEXTS
        tokens = {name: vocabulary.roles[role] for name, role in roles.items()}
        if not is_gpt2:
            tokens["mask_token"] = {"content": tokens["mask_token"], **_MASK_AFTER_SPACE}
    elif vocabulary.kind == "bpe":
        if not (settings["lower_case"] and settings["strip_accents"]):
            raise InputError(
                f"{model.place}: Hugging Face's tokenizer of GPT always lower-cases and strips "
                "accents, but this model's does not; write it as bert_tf."
            )
        found = {"tokenizer_class": "OpenAIGPTTokenizer"}
        tokens = {name: vocabulary.roles[role] for name, role in _GPT_ROLES.items()}
    elif vocabulary.kind == "sentencepiece":
        found = {
            "tokenizer_class": "AlbertTokenizer",
            "do_lower_case": settings["lower_case"],
            "keep_accents": not settings["strip_accents"],
        }
        tokens = {name: vocabulary.roles[role] for name, role in _ROLES_OF_TEXTS.items()}
    else:
        found = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": settings["lower_case"],
            "strip_accents": settings["strip_accents"],
            "tokenize_chinese_chars": True,
        }
        tokens = {name: ROLES[role] for name, role in _WORDPIECE_ROLES.items()}
    length = {"model_max_length": model.config.max_length}
    json_files.write(f"{folder}/{CONFIG}", found | length | tokens)


def _has_word_pieces(path: str) -> bool:
    """Whether a folder has a WordPiece vocabulary and none of another kind."""
    others = (ByteBPEVocabulary.files[0], SentencePieceVocabulary.files[0])
    if any(files.gfile.exists(f"{path}/{name}") for name in others):
        return False
    fast = json_files.read_optional(f"{path}/{_FAST}", dict[str, Any])
    model = fast.get("model")
    is_fast = isinstance(model, dict) and model.get("type") == "WordPiece"
    return is_fast or (not fast and files.gfile.exists(f"{path}/{FILE}"))


def _read_wordpiece(path: str, vocab_size: int) -> WordPieceVocabulary | None:
    fast = json_files.read_optional(f"{path}/{_FAST}", dict[str, Any])
    if files.gfile.exists(f"{path}/{FILE}"):
        name, tokens = path, WordPieceVocabulary.load(path).tokens
    elif fast:
        name = f"{path}/{_FAST}"
        tokens = _word_pieces_of(fast, name)
    else:
        return None
    ids = {token: index for index, token in enumerate(tokens)}
    return WordPieceVocabulary(_with_added(ids, name, path, fast, vocab_size), path)


def _with_added(
    ids: dict[str, int], name: str, path: str, fast: dict[str, Any], vocab_size: int
) -> tuple[str, ...]:
    """The tokens of a file and the added ones that have embeddings, in the order of their ids."""
    added = {token: number for token, number in _added(path, fast).items() if token not in ids}
    others = added.keys() - _SPECIAL
    if others:
        logging.warning(
            "%s: added tokens (%s) in a text are tokenized like other words; transformers keeps "
            "them whole.",
            path,
            listed(sorted(others), 3),
        )
    kept = {t: number for t, number in added.items() if number < vocab_size or t in _SPECIAL}
    return in_order(ids | kept, name)


def _word_pieces_of(fast: dict[str, Any], name: str) -> tuple[str, ...]:
    """The WordPiece vocabulary in a tokenizer.json, without added tokens."""
    model = _model(fast, "WordPiece", name)
    ids = json_files.check(model, _WordPieceModel, f"{name}: model")["vocab"]
    # The tokenizers library strips white space, which is a token of Google's Chinese vocabulary.
    return in_order({token or "\u2028": number for token, number in ids.items()}, name)


def _added(path: str, fast: dict[str, Any]) -> dict[str, int]:
    """The ids of added tokens, from the files of both kinds."""
    added = json_files.read_optional(f"{path}/{_ADDED}", dict[str, Any])
    check_ids(added, f"{path}/{_ADDED}")
    return added | _added_in(fast, f"{path}/{_FAST}")


def _added_in(fast: dict[str, Any], name: str) -> dict[str, int]:
    """The ids of added tokens in a tokenizer.json."""
    entries = json_files.check(fast, _WithAdded, name).get("added_tokens") or ()
    return {entry["content"]: entry["id"] for entry in entries}


def _model(fast: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The model in a tokenizer.json, which must be of a kind."""
    model = json_files.check(fast, _WithModel, name)["model"]
    found = model.get("type", kind)
    if found != kind:
        raise InputError(f"{name}: the tokenizer is {found}, not {kind}.")
    return model


def _read_settings(path: str) -> TokenizerSettings | None:
    """Whether text is lower-cased and accents are stripped; None if no file states it."""
    stated = json_files.read_optional(f"{path}/{CONFIG}", dict[str, Any])
    fast = json_files.read_optional(f"{path}/{_FAST}", dict[str, Any])
    if stated.get("tokenizer_class") in _OTHER_WORDS:
        raise _other_words(f"{path}/{CONFIG}: the tokenizer is a {stated['tokenizer_class']}")
    for key, only in _STEPS.items():
        step = fast.get(key)
        kind = step.get("type") if isinstance(step, dict) else step
        if kind not in (only, None):
            raise _other_words(f"{path}/{_FAST}: the {key} is {kind!r}, not {only}")
    normalizer = fast.get("normalizer") or {}
    for values, name, key in (
        (stated, CONFIG, "do_basic_tokenize"),
        (stated, CONFIG, "tokenize_chinese_chars"),
        (normalizer, _FAST, "handle_chinese_chars"),
    ):
        if values.get(key) is False:
            raise _other_words(f"{path}/{name}: {key} is false")
    lower_case = stated.get("do_lower_case", normalizer.get("lowercase"))
    strip_accents = stated.get("strip_accents", normalizer.get("strip_accents"))
    found = {"lower_case": lower_case, "strip_accents": strip_accents}
    return {name: bool(value) for name, value in found.items() if value is not None} or None


def _other_words(what: str) -> InputError:
    return InputError(f"{what}; only BERT's splitting into words is supported.")


def _read_bpe(
    kind: str, path: str, vocab_size: int
) -> tuple[Vocabulary | None, TokenizerSettings | None]:
    fast = json_files.read_optional(f"{path}/{_FAST}", dict[str, Any])
    if files.gfile.exists(f"{path}/{ByteBPEVocabulary.files[0]}"):
        tokens, merges, name = bpe_files.read(path)
        ids = {token: index for index, token in enumerate(tokens)}
    elif fast:
        name = f"{path}/{_FAST}"
        ids, merges = _bpe_of(fast, name)
    else:
        return None, None
    tokens = _with_added(ids, name, path, fast, vocab_size)
    vocabulary = ByteBPEVocabulary.of(tokens, merges, name)
    if vocabulary.kind != kind:
        raise InputError(
            f"{path}: the vocabulary is of kind {vocabulary.kind}, but a model of this type has "
            f"one of {kind}."
        )
    if kind == "bpe":
        return vocabulary, vocabulary.resolve(_read_settings(path) or {})
    stated = f"{path}/{CONFIG}"
    if not files.gfile.exists(stated):
        return vocabulary, None
    values = fast.get("pre_tokenizer")
    values = values if isinstance(values, dict) else {}
    values = values | json_files.read(stated, dict[str, Any])
    return vocabulary, vocabulary.resolve({_SPACE: bool(values.get(_SPACE))})


def _read_sentencepiece(
    path: str,
) -> tuple[SentencePieceVocabulary | None, TokenizerSettings | None]:
    model = f"{path}/{SentencePieceVocabulary.files[0]}"
    if not files.gfile.exists(model):
        if files.gfile.exists(f"{path}/{_FAST}"):
            raise InputError(
                f"{path}: has {_FAST}, but not {os.path.basename(model)}, the model of "
                "SentencePiece that it was made from; copy it there."
            )
        return None, None
    vocabulary = SentencePieceVocabulary.load(path)
    stated = json_files.read_optional(f"{path}/{CONFIG}", dict[str, Any])
    keep = stated.get("keep_accents")
    chosen = {
        "lower_case": stated.get("do_lower_case"),
        "strip_accents": None if keep is None else not keep,
    }
    return vocabulary, vocabulary.resolve(chosen)


def _bpe_of(fast: dict[str, Any], name: str) -> tuple[dict[str, int], tuple[bpe_files.Merge, ...]]:
    """The ids and merges in a tokenizer.json; special tokens may be among the added ones."""
    model = json_files.check(_model(fast, "BPE", name), _BPEModel, f"{name}: model")
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    if any(len(merge) != 2 for merge in merges):
        raise InputError(f"{name}: a merge is not a pair of tokens.")
    check_ids(model["vocab"], name)
    return model["vocab"], tuple((left, right) for left, right in merges)
