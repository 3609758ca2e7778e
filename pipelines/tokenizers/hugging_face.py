"""The tokenizer files of a Hugging Face folder: each setting is followed, or refused by name.

A folder has the files of the older kind (vocab.txt, or vocab.json and merges.txt;
tokenizer_config.json, special_tokens_map.json, added_tokens.json), tokenizer.json, or both.
"""

import base64
import contextlib
import functools
import itertools
from typing import Any, TypedDict

from absl import logging

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import listed
from pipelines.tokenizers import hugging_face_added, kept_tokens
from pipelines.tokenizers.bpe_merging import Merge
from pipelines.tokenizers.bpe_vocabulary import MergesVocabulary
from pipelines.tokenizers.hugging_face_added import AddedToken, Content
from pipelines.tokenizers.hugging_face_rules import (
    ALGORITHMS,
    CONFIG_FIELDS,
    FAST_FIELDS,
    GENERIC,
    adds_nothing,
    followed,
    gives_types,
    rules_of,
    second_type,
    steps_of,
    unsupported,
    warn_of_class,
)
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import (
    GEMMA,
    MPNET,
    UNUSED,
    TokenizerSettings,
    Vocabulary,
    check_ids,
)
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary

CONFIG = "tokenizer_config.json"
FAST = "tokenizer.json"
_ADDED = "added_tokens.json"
_SPECIAL = "special_tokens_map.json"
_MODEL_CONFIG = "config.json"
_TAB_BYTE = "<0x09>"  # which conversions to tokenizer.json named by the tab
_LIMIT = 999  # a repetition in a regular expression of TensorFlow is at most 1000


class _Fast(TypedDict, total=False):
    """What is read of a tokenizer.json; other fields are checked by `hugging_face_rules`."""

    added_tokens: list[AddedToken] | None
    model: dict[str, Any]


class _Config(TypedDict, total=False):
    """What is read of a tokenizer_config.json: the added tokens by their ids, and the inputs."""

    added_tokens_decoder: dict[str, Content] | None
    model_input_names: list[str] | None


class _WithVocab(TypedDict):
    vocab: dict[str, Any]


class _WithMerges(TypedDict):
    merges: list[str | list[str]]


class TokenizerFiles:
    """The tokenizer files of a folder, each read once; empty values of those that are missing.

    Attributes:
      path: the folder.
      fast: tokenizer.json.
      config: tokenizer_config.json.
    """

    def __init__(self, path: str):
        def read(name: str, kind: Any = dict[str, Any]) -> dict[str, Any]:
            return json_files.read_optional(f"{path}/{name}", kind)

        self.path, self.fast, self.config = path, read(FAST, _Fast), read(CONFIG, _Config)
        self._special, self._model_config = read(_SPECIAL), read(_MODEL_CONFIG)

    @property
    def _class(self) -> tuple[str, str]:
        """The file that names the class of transformers, and the class; "" if none does."""
        for name, values in ((CONFIG, self.config), (_MODEL_CONFIG, self._model_config)):
            if stated := values.get("tokenizer_class"):
                return name, str(stated).removesuffix("Fast")
        return "", ""

    def class_is(self, name: str, model_type: str) -> bool:
        """Whether the class has a name; if none is stated, whether the model has a type."""
        stated = self._class[1]
        is_type = self._model_config.get("model_type") == model_type
        return is_type if stated in ("", *GENERIC) else stated == name

    def check_class(self, *kinds: str) -> None:
        """Raises InputError if the folder has a tokenizer of none of these keys of ALGORITHMS."""
        name, stated = self._class
        known = [each for kind in kinds for each in ALGORITHMS[kind].classes]
        why = ""
        if stated and stated not in (*known, *GENERIC):
            why = f"{self.path}/{name}: tokenizer_class is {stated}, not {' or '.join(known)}"
        elif "AutoTokenizer" in (self.config.get("auto_map") or ()) and stated != "KoBertTokenizer":
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
        found = self.fast["model"].get("type", wanted)  # old files do not name it
        if found != wanted:
            raise InputError(f"{name}: the tokenizer is {found}, not {wanted}.")
        return self.fast["model"]

    def ids(self, kind: str) -> dict[str, int]:
        """The tokens of tokenizer.json without added ones, as our vocabulary names them."""
        name = f"{self.path}/{FAST}"
        found = json_files.check(self.model(kind), _WithVocab, f"{name}: model")["vocab"]
        check_ids(found, name)
        if kind == "sentencepiece of Gemma" and _TAB_BYTE not in found:
            return {_TAB_BYTE if token == "\t" else token: i for token, i in found.items()}
        if kind != "wordpiece":
            return found
        # The library strips white space, which is a token of Google's Chinese vocabulary.
        return {WordPieceVocabulary.token_of(token) or "\u2028": found[token] for token in found}

    def merges(self, kind: str) -> tuple[Merge, ...]:
        """The merges of a BPE in tokenizer.json."""
        name = f"{self.path}/{FAST}"
        found = json_files.check(self.model(kind), _WithMerges, f"{name}: model")["merges"]
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in found]
        if any(len(merge) != 2 for merge in merges):
            raise InputError(f"{name}: a merge is not a pair of tokens.")
        return tuple((left, right) for left, right in merges)

    def scores(self, kind: str) -> list[tuple[str, float]]:
        """The pieces of a Unigram model in tokenizer.json and their scores, by id."""
        vocab: Any = self.model(kind).get("vocab")
        place = f"{self.path}/{FAST}: model: vocab"
        return json_files.check(vocab, list[tuple[str, float]], place)

    def characters(self) -> bytes:
        """The table of characters of its normalizer, which a model of SentencePiece contains."""
        steps = {step["type"]: step for step in self._steps("normalizer")}
        table: Any = steps.get("Precompiled", {}).get("precompiled_charsmap")
        with contextlib.suppress(ValueError, TypeError):
            return base64.b64decode(table, validate=True)
        place = f"{self.path}/{FAST}"
        raise InputError(f"{place}: normalizer has no Precompiled with a table of characters.")

    @property
    def cuts_words(self) -> bool:
        """Whether texts are cut before each space, which they also begin with."""
        return any(step["type"] == "Metaspace" for step in self._steps("pre_tokenizer"))

    @functools.cached_property
    def added(self) -> dict[str, int]:
        """The ids of added tokens, from all files."""
        name = f"{self.path}/{_ADDED}"
        found = json_files.read_optional(name, dict[str, Any])
        check_ids(found, name)
        return found | {each["content"]: each["id"] for each in self._described}

    @property
    def _described(self) -> list[AddedToken]:
        """The added tokens that files describe; of equal ones the last counts."""
        decoder, place = self.config.get("added_tokens_decoder"), f"{self.path}/{CONFIG}"
        known = hugging_face_added.numbered(decoder, place)
        return [*known, *(self.fast.get("added_tokens") or ())]

    @functools.cached_property
    def _settings_of_added(self) -> dict[str, Any]:
        """What files state of each added token, with or without an id."""
        both = ((CONFIG, self.config), (_SPECIAL, self._special))
        special = (
            each
            for name, values in both
            for each in hugging_face_added.special(values, f"{self.path}/{name}")
        )
        return {token: {} for token in self.added} | {
            each["content"]: each for each in (*special, *self._described)
        }

    def _kept(self, vocabulary: Vocabulary) -> TokenizerSettings:
        """The setting by which our tokenizer finds the added tokens in texts, as the library does.

        WordPiece finds them in normalized texts, special ones too, which the library finds only as
        they are written.

        Raises:
          InputError: a BPE has one with a setting that is not supported.
        """
        known = self._settings_of_added
        others = known.keys() - set(vocabulary.roles.values())
        has = others & set(vocabulary.tokens)
        places = ("single_word", "lstrip", "rstrip")
        if vocabulary.kind == "wordpiece":
            words = [
                token
                for token in known
                if token in has
                and hugging_face_added.is_word(token)
                and not any(known[token].get(key) for key in places)
                and not (vocabulary.form is MPNET and token == "<unk>")  # beside its [UNK]
            ]
            return {"kept_tokens": " ".join(words)} if 0 < len(words) <= kept_tokens.LIMIT else {}
        is_gemma = vocabulary.form is GEMMA
        if not (is_gemma or (vocabulary.kind == "byte_bpe" and has == set(vocabulary.added))):
            return {}
        later = {token for token in others if known[token].get("normalized", True)}
        for token in sorted(others):
            described: Any = {"content": token, **known[token]}
            wrong = {key: described.get(key) for key in places}
            # The library looks for others first, which matters if two can overlap.
            wrong["normalized"] = token not in later and any(
                token[0] in each or token[-1] in each or each in token for each in later
            )
            if is_gemma:  # after normalization, spaces are "▁"
                wrong["normalized"] |= token in later and "▁" in token
                wrong["content"] = " " in token
            for key in filter(wrong.get, wrong):
                stated = {key: described.get(key)}
                raise unsupported(f"{self.path}: added token {token!r}", stated)
        return {"added_tokens": True} if has and not is_gemma else {}

    def warn_of_added(self, vocabulary: Vocabulary, settings: TokenizerSettings) -> None:
        """Logs the added tokens that are neither special tokens of a vocabulary nor found whole."""
        mask, takes_space = vocabulary.roles["mask"], vocabulary.form.mask_takes_space
        stated = self._settings_of_added.get(mask, {})
        if stated.get("lstrip", takes_space) != takes_space:
            logging.warning(
                "%s: a %s in a text %s the space before it here, in transformers the contrary.",
                self.path,
                mask,
                "takes" if takes_space else "leaves",
            )
        kept = {*vocabulary.roles.values(), *kept_tokens.of(settings)}
        if settings.get("added_tokens") or vocabulary.form is GEMMA:
            kept.update(vocabulary.added)
        # Spaces become "▁", so that Gemma's runs of "▁" are pieces like others.
        others = sorted(t for t in self._settings_of_added.keys() - kept if t.strip("▁"))
        if others:
            logging.warning(
                "%s: added tokens (%s) in a text are tokenized like other words; transformers "
                "keeps them whole.",
                self.path,
                listed(others, 10),
            )

    def settings(self, vocabulary: Vocabulary) -> TokenizerSettings:
        """The settings that the files state for a vocabulary.

        Raises:
          InputError: the files state something that the tokenizer does not compute, or contradict
            the vocabulary.
        """
        both = ((CONFIG, self.config, CONFIG_FIELDS), (FAST, self.fast, FAST_FIELDS))
        for name, values, known in both:
            if unknown := sorted(values.keys() - known):
                place = f"{self.path}/{name}"
                logging.warning("%s: unknown settings %s.", place, listed(unknown, 10))
        stated, fast = self._of_config(vocabulary), self._of_fast(vocabulary)
        self._check_special_tokens(vocabulary, fast.get("framed", stated.get("framed")))
        is_generic = self._class[1] in GENERIC
        last, first = (fast, stated) if is_generic else (stated, fast)
        for name in sorted(stated.keys() & fast.keys()):
            if stated[name] != fast[name]:
                logging.warning(
                    "%s: %s and %s contradict each other in %s (%s, %s); the %s is followed.",
                    *(self.path, CONFIG, FAST, name, stated[name], fast[name]),
                    "second" if is_generic else "first",
                )
        if self.fast and not is_generic:
            framed = {"framed": False} if self.class_is("GPT2Tokenizer", "gpt2") else {}
            warn_of_class(self.path, stated, fast, vocabulary.complete(stated) | framed)
        found = {**ALGORITHMS[rules_of(vocabulary)].usual, **first, **last}
        found |= self._kept(vocabulary)
        if not gives_types(self.path, self._class[1], self.config, self._model_config, vocabulary):
            found["typed"] = False
        longest = found.get("max_characters_per_word", 1)
        if not 1 <= longest <= _LIMIT:
            raise InputError(
                f"{self.path}: max_input_chars_per_word {longest} is not supported; 1 to {_LIMIT} "
                "are."
            )
        return found

    def _of_config(self, vocabulary: Vocabulary) -> dict[str, Any]:
        fields = {**CONFIG_FIELDS, **ALGORITHMS[rules_of(vocabulary)].config}
        known = {key: value for key, value in self.config.items() if key in fields}
        found = followed(known, fields, vocabulary.usual, f"{self.path}/{CONFIG}")
        is_stated = self._class[1] not in ("", *GENERIC) or self._model_config.get("model_type")
        if vocabulary.kind == "byte_bpe" and not self.fast and is_stated:
            found["framed"] = not self.class_is("GPT2Tokenizer", "gpt2")
        return found

    def _of_fast(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """The settings in tokenizer.json."""
        if not self.fast:
            return {}
        place, rules = f"{self.path}/{FAST}", ALGORITHMS[rules_of(vocabulary)]
        fields = dict.fromkeys(rules.fields) | self.model(rules_of(vocabulary))
        fields = {k: v for k, v in fields.items() if k not in ("type", "vocab", "merges")}
        named = f"{place}: model {rules.model}"
        found = followed(fields, rules.fields, vocabulary.usual, named)
        for part, known in rules.steps.items():
            steps = [step for field in part.split() for step in self._steps(field)]
            for step in steps:
                named = f"{place}: {part} {step['type']}"
                if step["type"] not in known.fields:
                    raise unsupported(named, step)
                others = {key: value for key, value in step.items() if key != "type"}
                found |= followed(others, known.fields[step["type"]], vocabulary.usual, named)
            types = tuple(step["type"] for step in steps if step["type"] not in known.anywhere)
            if types not in known.orders:
                raise InputError(
                    f"{place}: {part} {' and '.join(types) or None} is not supported; known are "
                    f"{', '.join(' and '.join(order) or 'none' for order in known.orders)}."
                )
            found |= {setting: step in types for step, setting in known.present.items()}
        self._check_vocabulary(vocabulary)
        return found | self._frame(vocabulary)

    def _steps(self, part: str) -> list[dict[str, Any]]:
        """The steps of a part of tokenizer.json."""
        return list(steps_of(self.fast.get(part), f"{self.path}/{FAST}: {part}"))

    def _check_special_tokens(self, vocabulary: Vocabulary, framed: bool | None) -> None:
        """Raises InputError if special tokens are others than the vocabulary's."""
        roles = ALGORITHMS[rules_of(vocabulary)].roles
        if framed is False:
            roles = {"eos_token": "separator"}
        for name, values in ((CONFIG, self.config), (_SPECIAL, self._special)):
            for key, role in roles.items():
                token = values.get(key)
                token = token.get("content") if isinstance(token, dict) else token
                if token not in (None, vocabulary.roles[role]):
                    place, ours = f"{self.path}/{name}: {key}", vocabulary.roles[role]
                    raise InputError(f"{place} {token!r} is not supported; {ours} is.")

    def _check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Raises InputError if tokenizer.json has other tokens or merges than the vocabulary."""
        place, kind = f"{self.path}/{FAST}", rules_of(vocabulary)
        if isinstance(vocabulary, SentencePieceVocabulary) and vocabulary.form is not GEMMA:
            theirs = vocabulary.numbered(self.scores(kind))
            if self.characters() not in vocabulary.model:
                raise InputError(f"{place}: normalizer Precompiled is not that of the model.")
        else:
            theirs = {token: number for token, number in self.ids(kind).items() if token.strip()}
        ids = {token: number for number, token in enumerate(vocabulary.tokens)}
        rest = ids.keys() - theirs.keys() - self.added.keys() - set(vocabulary.roles.values())
        wrong = (token for token, number in theirs.items() if ids.get(token) != number)
        kept = (token for token in rest if token.strip() and not token.startswith(UNUSED))
        other: Any = next(itertools.chain(wrong, kept), None)
        if isinstance(vocabulary, MergesVocabulary):
            pairs = itertools.zip_longest(self.merges(kind), vocabulary.merges)
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
        steps = [step for step in self._steps("post_processor") if not adds_nothing(step)]
        form, is_bytes = vocabulary.form, vocabulary.kind == "byte_bpe"
        has_no_types = is_bytes or form is GEMMA
        if not steps and (is_bytes or vocabulary.kind == "bpe"):
            return {"framed": False} if is_bytes else {}
        step = steps[0] if len(steps) == 1 else {"type": None}
        start, end = ((form.roles[r], vocabulary.id_of(r)) for r in ("start", "separator"))
        typed = second_type(step, start, end, form.separators)
        # transformers gives these models no types.
        fits = has_no_types or typed == form.typed or "typed" in vocabulary.usual
        if typed is None or not fits:
            raise unsupported(f"{self.path}/{FAST}: post_processor {step['type']}", step)
        if has_no_types or typed == form.typed:
            return {"framed": True} if is_bytes else {}
        return {"typed": typed}
