"""BERT's tokenizer in a Hugging Face folder.

vocab.txt, tokenizer_config.json and added_tokens.json are of the older kind,
tokenizer.json of the newer one; folders have either or both.
"""

from typing import Any

from absl import logging

from bert_tf.weights.bundle import Bundle
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import TokenizerSettings
from pipelines.tokenizers.wordpiece_vocabulary import FILE, ROLES, WordPieceVocabulary

_CONFIG = "tokenizer_config.json"
_ADDED = "added_tokens.json"
_FAST = "tokenizer.json"
# Steps before WordPiece, and BERT's kind of them.
_STEPS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
# Their names of the roles of special tokens.
_ROLES = {"pad": "pad", "unknown": "unk", "start": "cls", "separator": "sep", "mask": "mask"}
_OTHER_WORDS = ("BertJapaneseTokenizer",)


def read(path: str, vocab_size: int) -> tuple[WordPieceVocabulary | None, TokenizerSettings | None]:
    """The tokens by their ids, and the settings of the tokenizer; None where nothing says them.

    Args:
      path: the folder.
      vocab_size: of the model.

    Raises:
      InputError: a file is damaged, or the tokenizer is another than BERT's.
    """
    return _read_vocabulary(path, vocab_size), _read_settings(path)


def _read_vocabulary(path: str, vocab_size: int) -> WordPieceVocabulary | None:
    """The tokens by their ids, those that were added included; None where there are none.

    Args:
      path: the folder.
      vocab_size: of the model; tokens added beyond it, which have no embedding, are left out.

    Raises:
      InputError: a file is damaged, the tokenizer is not WordPiece, or ids have gaps.
    """
    fast = _optional(f"{path}/{_FAST}")
    if files.gfile.exists(f"{path}/{FILE}"):
        tokens = list(WordPieceVocabulary.load(path).tokens)
    elif fast:
        tokens = _in_order(_word_pieces(fast, f"{path}/{_FAST}"), f"{path}/{_FAST}")
    else:
        return None
    known = set(tokens)
    new = {token: number for token, number in _added(path, fast).items() if token not in known}
    if new:
        logging.warning(
            "%s: text never gives the tokens that were added (%s).",
            path,
            ", ".join(sorted(new)[:3]),
        )
    numbered = {token: index for index, token in enumerate(tokens)}
    numbered |= {token: number for token, number in new.items() if number < vocab_size}
    return WordPieceVocabulary(tuple(_in_order(numbered, path)), path)


def _optional(path: str) -> dict[str, Any]:
    return json_files.read(path, dict[str, Any]) if files.gfile.exists(path) else {}


def _added(path: str, fast: dict[str, Any]) -> dict[str, int]:
    """The ids of added tokens, of the files of both kinds."""
    added = _optional(f"{path}/{_ADDED}")
    _check_ids(added, f"{path}/{_ADDED}")
    try:
        entries = {entry["content"]: entry["id"] for entry in fast.get("added_tokens") or ()}
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{path}/{_FAST}: added_tokens is no list of objects with id and content."
        ) from error
    _check_ids(entries, f"{path}/{_FAST}")
    return added | entries


def _check_ids(ids: dict[str, Any], name: str) -> None:
    for token, number in ids.items():
        if not isinstance(token, str) or type(number) is not int or number < 0:
            raise InputError(f"{name}: the id of {token!r} is {number!r}, which is no number.")


def _word_pieces(fast: dict[str, Any], path: str) -> dict[str, int]:
    model = fast.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict):
        raise InputError(f"{path}: has no vocabulary of WordPiece.")
    if model.get("type", "WordPiece") != "WordPiece":
        raise InputError(f"{path}: the tokenizer is {model['type']}, not WordPiece.")
    _check_ids(model["vocab"], path)
    return model["vocab"]


def _in_order(ids: dict[str, int], path: str) -> list[str]:
    tokens = sorted(ids, key=ids.__getitem__)
    for number, token in enumerate(tokens):
        if ids[token] != number:
            raise InputError(
                f"{path}: no token has the id {number}; the next is that of {token!r}."
            )
    return tokens


def _read_settings(path: str) -> TokenizerSettings | None:
    """Whether text is lower-cased and accents dropped; None where no file says so.

    Raises:
      InputError: a file is damaged, or text is split into words in another way than BERT's.
    """
    stated, fast = _optional(f"{path}/{_CONFIG}"), _optional(f"{path}/{_FAST}")
    if stated.get("tokenizer_class") in _OTHER_WORDS:
        raise _other_words(f"{path}/{_CONFIG}: the tokenizer is a {stated['tokenizer_class']}")
    for key, only in _STEPS.items():
        step = fast.get(key)
        kind = step.get("type") if isinstance(step, dict) else step
        if kind not in (only, None):
            raise _other_words(f"{path}/{_FAST}: the {key} is {kind!r}, not {only}")
    normalizer = fast.get("normalizer") or {}
    for values, name, key in (
        (stated, _CONFIG, "do_basic_tokenize"),
        (stated, _CONFIG, "tokenize_chinese_chars"),
        (normalizer, _FAST, "handle_chinese_chars"),
    ):
        if values.get(key) is False:
            raise _other_words(f"{path}/{name}: {key} is false")
    lower_case = stated.get("do_lower_case", normalizer.get("lowercase"))
    strip_accents = stated.get("strip_accents", normalizer.get("strip_accents"))
    found = {"lower_case": lower_case, "strip_accents": strip_accents}
    return {name: bool(value) for name, value in found.items() if value is not None} or None


def _other_words(what: str) -> InputError:
    return InputError(f"{what}; texts are split into words as BERT does it only.")


def write(model: Bundle, folder: str) -> None:
    """Writes vocab.txt and tokenizer_config.json of a model that has a WordPiece vocabulary."""
    model.require_vocabulary().save(folder)
    settings = model.resolved_settings()
    json_files.write(
        f"{folder}/{_CONFIG}",
        {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": settings["lower_case"],
            "strip_accents": settings["strip_accents"],
            "tokenize_chinese_chars": True,
            "model_max_length": model.config.max_length,
            **{f"{name}_token": ROLES[role] for role, name in _ROLES.items()},
        },
    )
