"""The tokenizer files of a Hugging Face folder: each setting is followed, or refused by name.

A folder has the files of the older kind (vocab.txt, or vocab.json and merges.txt;
tokenizer_config.json, special_tokens_map.json, added_tokens.json), tokenizer.json, or both.
"""

import base64
import contextlib
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from absl import logging

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import listed
from pipelines.tokenizers import bpe_files
from pipelines.tokenizers.bpe_vocabulary import BPEVocabulary
from pipelines.tokenizers.byte_bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.hugging_face_rules import (
    ALGORITHMS,
    ANY,
    CONFIG_FIELDS,
    FAST_KEYS,
    GENERIC,
    followed,
    unsupported,
)
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import UNUSED, Vocabulary, check_ids
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary

CONFIG = "tokenizer_config.json"
FAST = "tokenizer.json"
_ADDED = "added_tokens.json"
_SPECIAL = "special_tokens_map.json"
_MODEL_CONFIG = "config.json"
LONGEST_WORD = 100  # characters, unless tokenizer.json has another number
_LIMIT = 999  # a repetition in a regular expression of TensorFlow is at most 1000


class _AddedToken(TypedDict):
    content: str
    id: int


class _WithAdded(TypedDict):
    """The added tokens of a tokenizer.json."""

    added_tokens: NotRequired[list[_AddedToken] | None]


class _WithMerges(TypedDict):
    merges: list[str | list[str]]


class _Content(TypedDict):
    content: str


class _WithDecoder(TypedDict):
    """The added tokens of a tokenizer_config.json, by their ids."""

    added_tokens_decoder: NotRequired[dict[str, _Content] | None]


class TokenizerFiles:
    """The tokenizer files of a folder, each read once; empty values of those that are missing.

    Attributes:
      path: the folder.
      fast: tokenizer.json.
      config: tokenizer_config.json.
    """

    def __init__(self, path: str):
        def read(name: str) -> dict[str, Any]:
            return json_files.read_optional(f"{path}/{name}", dict[str, Any])

        self.path, self.fast, self.config = path, read(FAST), read(CONFIG)
        self._special, self._model_config = read(_SPECIAL), read(_MODEL_CONFIG)

    @property
    def _class(self) -> tuple[str, str]:
        """The file that names the class of transformers, and the class; "" if none does."""
        for name, values in ((CONFIG, self.config), (_MODEL_CONFIG, self._model_config)):
            if stated := values.get("tokenizer_class"):
                return name, str(stated).removesuffix("Fast")
        return "", ""

    def check_class(self, kind: str) -> None:
        """Raises InputError if the folder has a tokenizer of another kind."""
        name, stated = self._class
        known = ALGORITHMS[kind].classes
        why = ""
        if stated and stated not in (*known, *GENERIC):
            why = f"{self.path}/{name}: tokenizer_class is {stated}, not {' or '.join(known)}"
        elif "AutoTokenizer" in (self.config.get("auto_map") or ()):
            why = f"{self.path}/{CONFIG}: auto_map names code of its own"
        elif files.gfile.exists(f"{self.path}/bpe.codes"):
            why = f"{self.path}: has bpe.codes, as BERTweet and PhoBERT have"
        if why:
            raise InputError(f"{why}; this tokenizer is not supported.")

    def model(self, kind: str) -> dict[str, Any]:
        """The model in tokenizer.json; an InputError if it is not that of a kind."""
        name, wanted = f"{self.path}/{FAST}", ALGORITHMS[kind].model
        if "model" not in self.fast:
            raise InputError(f"{name}: lacks the field model.")
        model = json_files.check(self.fast["model"], dict[str, Any], f"{name}: model")
        found = model.get("type", wanted)  # old files do not name it
        if found != wanted:
            raise InputError(f"{name}: the tokenizer is {found}, not {wanted}.")
        return model

    @functools.cached_property
    def added(self) -> dict[str, int]:
        """The ids of added tokens, from all files."""
        name = f"{self.path}/{_ADDED}"
        found = json_files.read_optional(name, dict[str, Any])
        check_ids(found, name)
        decoder = json_files.check(self.config, _WithDecoder, f"{self.path}/{CONFIG}")
        for number, token in (decoder.get("added_tokens_decoder") or {}).items():
            if number.isdecimal():
                found[token["content"]] = int(number)
        fast = json_files.check(self.fast, _WithAdded, f"{self.path}/{FAST}")
        return found | {token["content"]: token["id"] for token in fast.get("added_tokens") or ()}

    def warn_of_added(self, vocabulary: Vocabulary) -> None:
        """Logs the added tokens that are not special tokens of a vocabulary."""
        others = sorted(self.added.keys() - set(vocabulary.roles.values()))
        if others:
            logging.warning(
                "%s: added tokens (%s) in a text are tokenized like other words; transformers "
                "keeps them whole.",
                self.path,
                listed(others, 10),
            )

    def settings(self, vocabulary: Vocabulary) -> dict[str, bool | int | str]:
        """The settings that the files state for a vocabulary.

        Raises:
          InputError: the files state something that the tokenizer does not compute, or contradict
            the vocabulary.
        """
        stated, fast = self._of_config(vocabulary), self._of_fast(vocabulary)
        self._check_special_tokens(vocabulary, fast.get("framed", stated.get("framed")))
        found = stated | fast if self._class[1] in GENERIC else fast | stated
        if vocabulary.kind == "wordpiece":
            longest = found.setdefault("max_characters_per_word", LONGEST_WORD)
            if not 1 <= longest <= _LIMIT:
                raise InputError(
                    f"{self.path}: max_input_chars_per_word {longest} is not supported; 1 to "
                    f"{_LIMIT} are."
                )
        return found

    def _of_config(self, vocabulary: Vocabulary) -> dict[str, Any]:
        place = f"{self.path}/{CONFIG}"
        unknown = self.config.keys() - CONFIG_FIELDS.keys()
        if unknown:
            logging.warning("%s: unknown settings %s.", place, listed(sorted(unknown), 10))
        known = {key: value for key, value in self.config.items() if key in CONFIG_FIELDS}
        kinds = {**vocabulary.setting_types, "keep_accents": bool}
        found = followed(known, CONFIG_FIELDS, kinds, place)
        keeps = found.pop("keep_accents", None)
        if vocabulary.kind == "sentencepiece":  # as in transformers
            found.pop("strip_accents", None)
            found |= {} if keeps is None else {"strip_accents": not keeps}
        if vocabulary.kind == "byte_bpe" and not self.fast:
            stated: Any = self._class[1]
            stated = self._model_config.get("model_type") if stated in ("", *GENERIC) else stated
            found |= {"framed": stated not in ("GPT2Tokenizer", "gpt2")} if stated else {}
        return found

    def _of_fast(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """The settings in tokenizer.json."""
        if not self.fast:
            return {}
        kind, place = vocabulary.kind, f"{self.path}/{FAST}"
        rules = ALGORITHMS[kind]
        unknown = self.fast.keys() - FAST_KEYS
        if unknown:
            logging.warning("%s: unknown parts %s.", place, listed(sorted(unknown), 10))
        defaults = {"BPE": ("unk_token", "end_of_word_suffix"), "Unigram": ("unk_id",)}
        absent = defaults.get(rules.model, ())
        fields = dict.fromkeys(absent) | self.model(kind)
        fields = {k: v for k, v in fields.items() if k not in ("type", "vocab", "merges")}
        kinds = vocabulary.setting_types
        found = followed(fields, rules.fields, kinds, f"{place}: model {rules.model}")
        for part, known in rules.steps.items():
            steps = self._steps(part)
            for step in steps:
                named = f"{place}: {part} {step['type']}"
                if step["type"] not in known.fields:
                    raise unsupported(named, step)
                others = {key: value for key, value in step.items() if key != "type"}
                found |= followed(others, known.fields[step["type"]], kinds, named)
            types = tuple(step["type"] for step in steps if step["type"] != "Replace")
            if types not in known.orders:
                raise InputError(
                    f"{place}: {part} {' and '.join(types) or None} is not supported; known are "
                    f"{', '.join(' and '.join(order) or 'none' for order in known.orders)}."
                )
            if part == "normalizer" and isinstance(vocabulary, SentencePieceVocabulary):
                found["lower_case"] = "Lowercase" in types
                found["strip_accents"] = "StripAccents" in types
                if _characters(steps[-1]) not in vocabulary.model:
                    raise InputError(f"{place}: normalizer Precompiled is not that of the model.")
        self._check_vocabulary(vocabulary)
        return found | self._frame(vocabulary)

    def _steps(self, part: str) -> list[dict[str, Any]]:
        """The steps of a part of tokenizer.json, in which sequences may be nested."""

        def flat(value: Any) -> Iterable[dict[str, Any]]:
            if value is None:
                return
            if not isinstance(value, dict) or not isinstance(value.get("type"), str):
                raise InputError(f"{self.path}/{FAST}: {part} {value!r} is not supported.")
            if value["type"] != "Sequence":
                yield value
                return
            inner = [value[key] for key in value if key != "type"]
            for item in inner[0] if inner and isinstance(inner[0], list) else [inner]:
                yield from flat(item)

        return list(flat(self.fast.get(part)))

    def _check_special_tokens(self, vocabulary: Vocabulary, framed: bool | None) -> None:
        """Raises InputError if special tokens are others than the vocabulary's."""
        roles = ALGORITHMS[vocabulary.kind].roles
        if framed is False:
            roles = {"eos_token": "separator"}
        for name, values in ((CONFIG, self.config), (_SPECIAL, self._special)):
            for key, role in roles.items():
                token = values.get(key)
                token = token.get("content") if isinstance(token, dict) else token
                if token not in (None, vocabulary.roles[role]):
                    place = f"{self.path}/{name}: {key}"
                    raise InputError(
                        f"{place} {token!r} is not supported; {vocabulary.roles[role]} is."
                    )

    def _check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Raises InputError if tokenizer.json has other tokens or merges than the vocabulary."""
        place, model = f"{self.path}/{FAST}: model: vocab", self.model(vocabulary.kind)
        ids = {token: number for number, token in enumerate(vocabulary.tokens)}
        if isinstance(vocabulary, SentencePieceVocabulary):
            pieces = json_files.check(model.get("vocab"), list[tuple[str, float]], place)
            theirs = _numbered(pieces, vocabulary)
        else:
            theirs = json_files.check(model.get("vocab"), dict[str, int], place)
        if isinstance(vocabulary, WordPieceVocabulary):
            named = {vocabulary.token_of(token): number for token, number in theirs.items()}
            theirs = {token: number for token, number in named.items() if token.strip()}
        rest = ids.keys() - theirs.keys() - self.added.keys() - set(vocabulary.roles.values())
        wrong = (token for token, number in theirs.items() if ids.get(token) != number)
        other: Any = next(wrong, None)
        kept = (token for token in rest if token.strip() and not token.startswith(UNUSED))
        other = other or next(kept, None)
        if isinstance(vocabulary, ByteBPEVocabulary | BPEVocabulary):
            merges = merges_of(model, f"{self.path}/{FAST}")
            pairs = itertools.zip_longest(merges, vocabulary.merges)
            other = other or next((merge or own for merge, own in pairs if merge != own), None)
        if other is not None:
            raise InputError(
                f"{self.path}: {FAST} has another vocabulary than {vocabulary.files[0]}, first at "
                f"{other!r}; remove the file that is not of the model."
            )

    def _frame(self, vocabulary: Vocabulary) -> dict[str, bool]:
        """Settings that follow the special tokens and types that tokenizer.json puts around texts.

        Of GPT, tokenizer.json has no such tokens; those of our sequences are for fine-tuning.
        """
        steps = [step for step in self._steps("post_processor") if step["type"] != "ByteLevel"]
        is_bytes = vocabulary.kind == "byte_bpe"
        if not steps and (is_bytes or vocabulary.kind == "bpe"):
            return {"framed": False} if is_bytes else {}
        step = steps[0] if len(steps) == 1 else {"type": None}
        start, end = ((vocabulary.roles[r], vocabulary.id_of(r)) for r in ("start", "separator"))
        typed = next(
            (
                typed
                for typed, known in _post_processors(start, end, vocabulary.separators)
                if all(
                    isinstance(step.get(key), bool) if value == ANY else step.get(key) == value
                    for key, value in known.items()
                )
            ),
            None,
        )
        if typed is not None and is_bytes:  # transformers gives it no types
            return {"framed": True}
        if typed is None or (typed != vocabulary.typed and "typed" not in vocabulary.setting_types):
            raise unsupported(f"{self.path}/{FAST}: post_processor {step['type']}", step)
        return {} if typed == vocabulary.typed else {"typed": typed}


def merges_of(model: Mapping[str, Any], name: str) -> tuple[bpe_files.Merge, ...]:
    """The merges of a BPE in tokenizer.json; `name` is its path."""
    found = json_files.check(model, _WithMerges, f"{name}: model")["merges"]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in found]
    if any(len(merge) != 2 for merge in merges):
        raise InputError(f"{name}: a merge is not a pair of tokens.")
    return tuple((left, right) for left, right in merges)


def _characters(step: Mapping[str, Any]) -> bytes:
    """The table of characters of a step, which a model of SentencePiece contains as it is."""
    with contextlib.suppress(ValueError):
        return base64.b64decode(str(step.get("precompiled_charsmap")), validate=True)
    return b"not a table"


def _numbered(
    pieces: Sequence[tuple[str, float]], vocabulary: SentencePieceVocabulary
) -> dict[str, int]:
    """The ids of pieces; -1 if the score is another. transformers lowers those of "1,"."""
    found = {}
    for number, (piece, score) in enumerate(pieces):
        own = vocabulary.score(number) if number < len(vocabulary) else math.nan
        lowered = own - 100 * (piece[-1:] == "," and piece[-2:-1].isdigit())
        found[piece] = number if min(abs(score - own), abs(score - lowered)) < 1e-3 else -1
    return found


def _post_processors(
    start: tuple[str, int], end: tuple[str, int], separators: int
) -> Iterator[tuple[bool, dict[str, Any]]]:
    """What makes our sequences of texts, and whether the second text has its own token type."""
    kind = "BertProcessing" if separators == 1 else "RobertaProcessing"
    # Without these keys, or if they are not true or false, the library takes it for BERT's.
    trims = {} if separators == 1 else {"trim_offsets": ANY, "add_prefix_space": ANY}
    yield separators == 1, {"type": kind, "cls": [*start], "sep": [*end], **trims}
    ids = {token: {"id": token, "ids": [i], "tokens": [token]} for token, i in (start, end)}

    def part(kind: str, name: str, segment: int = 0) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    separator = part("SpecialToken", end[0])
    single = [part("SpecialToken", start[0]), part("Sequence", "A"), separator]
    for typed in (0, 1):
        second = [part("Sequence", "B", typed), part("SpecialToken", end[0], typed)]
        pair = [*single, *[separator] * (separators - 1), *second]
        made = {"type": "TemplateProcessing", "single": single, "pair": pair}
        yield bool(typed), {**made, "special_tokens": ids}
