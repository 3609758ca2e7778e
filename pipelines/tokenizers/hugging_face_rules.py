"""What our tokenizers compute of the tokenizer files of Hugging Face.

A rule for a value is the name of our setting that follows it (or "not" and the name), the values
that are supported, or ANY for a value that decides no id. A field that a model lacks is null.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from absl import logging

from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import BERT, Vocabulary

Rule = str | tuple[Any, ...]
ANY: Rule = ""
Fields = Mapping[str, Rule]
NONE: Mapping[str, Any] = {}


class Steps(NamedTuple):
    """The steps of a normalizer or a pre-tokenizer, or of both."""

    orders: tuple[tuple[str, ...], ...]  # of their types, without `anywhere`
    fields: Mapping[str, Fields]  # by their types
    present: Mapping[str, str] = NONE  # settings that are true if there is a step, by its type
    anywhere: tuple[str, ...] = ()  # types that may be missing, and at any place


class Algorithm(NamedTuple):
    """What our tokenizer of a kind computes, or one of its forms."""

    classes: tuple[str, ...]  # of transformers
    model: str
    fields: Fields  # of the model
    steps: Mapping[str, Steps]  # by the field of tokenizer.json, or fields with a space between
    roles: Mapping[str, str]  # of special tokens, by their keys, which must be those of ours
    config: Fields = NONE  # of tokenizer_config.json, where they differ from CONFIG_FIELDS
    usual: Mapping[str, Any] = NONE  # settings that are not ours unless a file states another value


_NO: tuple[Any, ...] = (None, False)
_BERT_NORMALIZER: dict[str, Rule] = {
    "clean_text": "clean_text",
    "handle_chinese_chars": (True,),
    "strip_accents": "strip_accents",
    "lowercase": "lower_case",
}
_BPE: dict[str, Rule] = {
    "dropout": (None, 0.0),
    "unk_token": ANY,  # every byte has a token
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "fuse_unk": ANY,
    "byte_fallback": _NO,
    "ignore_merges": _NO,
}
_BYTE_LEVEL: Fields = {
    "add_prefix_space": "add_prefix_space",
    "trim_offsets": ANY,
    "use_regex": (True,),
}
LONGEST_WORD = 100  # characters of a word of WordPiece, unless tokenizer.json has another number
TEXT_ROLES = dict(
    zip("pad_token unk_token cls_token sep_token mask_token".split(), BERT.roles, strict=True)
)
_ALBERT_NORMALIZER = Steps(
    tuple(
        (*accents, *lower, "Precompiled")
        for accents in ((), ("NFKD", "StripAccents"))
        for lower in ((), ("Lowercase",))
    ),
    {
        # Quotes, which transformers alone replaces; and runs of spaces, which are one in any case.
        "Replace": {
            "pattern": ({"String": "``"}, {"String": "''"}, {"Regex": " {2,}"}),
            "content": ('"', " "),
        },
        "NFKD": {},
        "StripAccents": {},
        "Lowercase": {},
        "Precompiled": {"precompiled_charsmap": ANY},
    },
    present={"Lowercase": "lower_case", "StripAccents": "strip_accents"},
    anywhere=("Replace",),
)
_SPACED_WORDS: Mapping[str, Fields] = {
    "WhitespaceSplit": {},
    "Metaspace": {
        "replacement": ("▁",),
        "str_rep": ("▁",),
        "prepend_scheme": ("always",),
        "add_prefix_space": (True,),
        "split": ANY,
    },
}
# As in transformers.
_ALBERT_CONFIG: Fields = {"strip_accents": ANY, "keep_accents": "not strip_accents"}
# Without WhitespaceSplit, runs of spaces have to be replaced.
_XLM_R_STEPS = Steps(
    (
        ("Precompiled", "WhitespaceSplit", "Metaspace"),
        ("Precompiled", "Replace", "WhitespaceSplit", "Metaspace"),
        ("Precompiled", "Strip", "Replace", "WhitespaceSplit", "Metaspace"),
        ("Precompiled", "Strip", "Replace", "Metaspace"),
    ),
    {
        "Precompiled": {"precompiled_charsmap": ANY},
        "Strip": {"strip_left": (False,), "strip_right": (True,)},
        "Replace": {"pattern": ({"Regex": " {2,}"},), "content": ("▁", " ")},
        **_SPACED_WORDS,
    },
)


def _bert_steps(fields: Fields) -> Mapping[str, Steps]:
    return {
        "normalizer": Steps((("BertNormalizer",),), {"BertNormalizer": fields}),
        "pre_tokenizer": Steps((("BertPreTokenizer",),), {"BertPreTokenizer": {}}),
    }


ALGORITHMS = {
    "wordpiece": Algorithm(
        classes=("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
        model="WordPiece",
        fields={
            "unk_token": (None, "[UNK]"),
            "continuing_subword_prefix": (None, "##"),
            "max_input_chars_per_word": "max_characters_per_word",
        },
        steps=_bert_steps(_BERT_NORMALIZER),
        roles=TEXT_ROLES,
        usual={"max_characters_per_word": LONGEST_WORD},
    ),
    "byte_bpe": Algorithm(
        classes=("RobertaTokenizer", "BartTokenizer", "GPT2Tokenizer"),
        model="BPE",
        fields=_BPE,
        steps={
            "normalizer": Steps(((), ("NFC",)), {"NFC": {}}, present={"NFC": "nfc"}),
            "pre_tokenizer": Steps((("ByteLevel",),), {"ByteLevel": _BYTE_LEVEL}),
        },
        roles={key: role for key, role in TEXT_ROLES.items() if role != "unknown"},
    ),
    "bpe": Algorithm(
        classes=("OpenAIGPTTokenizer",),
        model="BPE",
        fields=_BPE | {"unk_token": ("<unk>",), "end_of_word_suffix": ("</w>",), "fuse_unk": _NO},
        steps=_bert_steps(_BERT_NORMALIZER | {"clean_text": (True,)}),
        roles={"unk_token": "unknown"},
    ),
    "sentencepiece": Algorithm(
        classes=("AlbertTokenizer",),
        model="Unigram",
        fields={"unk_id": (1,), "byte_fallback": _NO},
        steps={
            "normalizer": _ALBERT_NORMALIZER,
            "pre_tokenizer": Steps((("WhitespaceSplit", "Metaspace"),), _SPACED_WORDS),
        },
        roles=TEXT_ROLES,
        config=_ALBERT_CONFIG,
    ),
    "sentencepiece of BERT": Algorithm(
        classes=("KoBertTokenizer",),
        model="",  # it has no tokenizer.json
        fields={},
        steps={},
        roles=TEXT_ROLES,
        config=_ALBERT_CONFIG,
    ),
    "sentencepiece of RoBERTa": Algorithm(
        classes=("XLMRobertaTokenizer", "CamembertTokenizer"),
        model="Unigram",
        fields={"unk_id": (3,), "byte_fallback": _NO},
        steps={"normalizer pre_tokenizer": _XLM_R_STEPS},
        roles=TEXT_ROLES,
        config={
            **dict.fromkeys(["do_lower_case", "strip_accents", "keep_accents"], ANY),
            "add_prefix_space": (None, True),
        },
    ),
}
ALGORITHMS["sentencepiece of Gemma"] = Algorithm(
    classes=("GemmaTokenizer",),
    model="BPE",
    fields=_BPE | {"unk_token": ("<unk>",), "byte_fallback": (True,)},
    steps={
        "normalizer": Steps(
            (("Replace",),), {"Replace": {"pattern": ({"String": " "},), "content": ("▁",)}}
        ),
        # Split finds nothing, as spaces have become "▁". mmBERT has Metaspace.
        "pre_tokenizer": Steps(
            ((), ("Split",), ("Metaspace",)),
            {
                "Split": {"pattern": ({"String": " "},), "behavior": ANY, "invert": (False,)},
                "Metaspace": {**_SPACED_WORDS["Metaspace"], "split": (True,)},
            },
        ),
    },
    roles=TEXT_ROLES,
    config=dict.fromkeys(["add_bos_token", "add_eos_token"], ANY),  # tokenizer.json decides
)
ALGORITHMS["wordpiece of MPNet"] = ALGORITHMS["wordpiece"]._replace(classes=("MPNetTokenizer",))


def rules_of(vocabulary: Vocabulary) -> str:
    """The key of ALGORITHMS for a vocabulary."""
    key = f"{vocabulary.kind} of {vocabulary.form.model}"
    return key if key in ALGORITHMS else vocabulary.kind


# Classes that do what tokenizer.json says.
GENERIC = ("PreTrainedTokenizer", "TokenizersBackend")
_UNTYPED = ("DistilBertTokenizer", "TokenizersBackend")  # they give no token types by default
CONFIG_FIELDS: Fields = {
    "do_lower_case": "lower_case",
    "strip_accents": "strip_accents",
    "add_prefix_space": "add_prefix_space",
    "max_input_chars_per_word": "max_characters_per_word",  # which we write
    "keep_accents": ANY,
    "do_basic_tokenize": (None, True),
    "tokenize_chinese_chars": (None, True),
    "never_split": (None, []),
    "wordpieces_prefix": ("##",),
    "remove_space": (True,),
    "sp_model_kwargs": (None, {}),
    "add_bos_token": _NO,
    "add_eos_token": _NO,
    "split_special_tokens": _NO,
    "truncation_side": (None, "right"),
    **dict.fromkeys([*TEXT_ROLES, "bos_token", "eos_token", "tokenizer_class", "auto_map"], ANY),
    **dict.fromkeys(
        # Of added tokens, which are warned of; of padding and cutting, which are ours; of decoding.
        "additional_special_tokens extra_special_tokens added_tokens_decoder "
        "model_max_length max_len max_length stride truncation truncation_strategy padding "
        "padding_side pad_to_multiple_of pad_token_type_id return_token_type_ids "
        "model_input_names model_specific_special_tokens init_inputs clean_up_tokenization_spaces "
        "cls_token_id sep_token_id unk_id errors trim_offsets use_fast legacy backend is_local "
        "local_files_only name_or_path special_tokens_map_file tokenizer_file vocab_file "
        "merges_file full_tokenizer_file processor_class transformers_version chat_template "
        "language device".split(),
        ANY,
    ),
}
FAST_FIELDS: Fields = dict.fromkeys(
    "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder "
    "model".split(),
    ANY,
)


def followed(
    values: Mapping[str, Any], fields: Fields, settings: Mapping[str, Any], place: str
) -> dict[str, Any]:
    """Returns our settings that values state; an InputError if one is not supported.

    Args:
      values: parsed JSON.
      fields: the rules.
      settings: our settings, with values of their types; rules for others are left out.
      place: the file and component, for errors.
    """
    found = {}
    for key, value in values.items():
        rule = fields.get(key, ())
        if isinstance(rule, tuple):
            fits = any(type(value) is type(each) and value == each for each in rule)
        else:
            setting = rule.removeprefix("not ")
            is_ours = setting in settings and value is not None
            fits = not is_ours or type(value) is type(settings[setting])
            if is_ours:
                found[setting] = value if setting == rule else not value
        if not fits:
            raise unsupported(place, {key: value})
    return found


def unsupported(place: str, fields: Mapping[str, Any]) -> InputError:
    """An error that names a component and its fields."""
    shown = ", ".join(f"{key} {value!r}" for key, value in fields.items() if key != "type")
    return InputError(f"{place}{' with ' * bool(shown)}{shown[:200]} is not supported.")


def steps_of(value: Any, place: str) -> Iterator[dict[str, Any]]:
    """The steps of a part of tokenizer.json, in which sequences may be nested.

    Raises:
      InputError: A step has no type; `place` is the file and the part.
    """
    if value is None:
        return
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InputError(f"{place} {value!r} is not supported.")
    if value["type"] != "Sequence":
        yield value
        return
    inner = [value[key] for key in value if key != "type"]
    for item in inner[0] if inner and isinstance(inner[0], list) else [inner]:
        yield from steps_of(item, place)


def gives_types(
    path: str,
    tokenizer_class: str,
    config: Mapping[str, Any],
    model: Mapping[str, Any],
    vocabulary: Vocabulary,
) -> bool:
    """Whether the second text of a pair has its own token type.

    As the folder states it (`model_input_names`), or as the class has it by default. A warning says
    where versions of transformers differ, or where the types of a vocabulary are always given.

    Args:
      path: of the folder.
      tokenizer_class: of transformers, without "Fast" at its end.
      config: tokenizer_config.json.
      model: config.json.
      vocabulary: of the folder.
    """
    if not vocabulary.form.typed:
        return True  # nothing is to be changed
    inputs = config.get("model_input_names")
    stated = "token_type_ids" in inputs if inputs is not None else tokenizer_class not in _UNTYPED
    settable = "typed" in vocabulary.usual
    is_typed = model.get("model_type") != "distilbert" and model.get("type_vocab_size") != 1
    varies = inputs is None and tokenizer_class == GENERIC[0]
    if is_typed and (varies or not (stated or settable)):
        logging.warning(
            "%s: pairs have token types here, as in transformers 4; transformers 5 gives none.",
            path,
        )
    return stated or not settable


def warn_of_class(
    path: str, stated: Mapping[str, Any], fast: Mapping[str, Any], usual: Mapping[str, Any]
) -> None:
    """Warns of settings that transformers 5 takes from the class, whatever tokenizer.json states.

    Args:
      path: the folder.
      stated: our settings that tokenizer_config.json states.
      fast: those that tokenizer.json states, which we follow.
      usual: those of the class of the tokenizer.
    """
    of_class = {"lower_case", "strip_accents", "clean_text", "add_prefix_space", "framed"}
    for name in sorted((fast.keys() - stated.keys()) & of_class & usual.keys()):
        if fast[name] != usual[name]:
            logging.warning(
                "%s: tokenizer.json states %s %s, which is followed. tokenizer_config.json does "
                "not state it, and transformers 5 takes %s then, as its class does; state it "
                "there.",
                *(path, name, fast[name], usual[name]),
            )


def adds_nothing(step: Mapping[str, Any]) -> bool:
    """Whether a post-processor puts no tokens around texts.

    A template of texts alone is what transformers 5 writes where there was none.
    """
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    pairs = [[*single, {"Sequence": {"id": "B", "type_id": number}}] for number in (0, 1)]
    plain = step.get("single") == single and step.get("pair") in pairs
    return step["type"] == "ByteLevel" or (plain and not step.get("special_tokens"))


def second_type(
    step: Mapping[str, Any], start: tuple[str, int], end: tuple[str, int], separators: int
) -> bool | None:
    """Whether a post-processor gives the second text its own token type.

    None if it makes other sequences than ours, of special tokens and their ids.
    """
    is_bert = step["type"] == "BertProcessing"
    # Without these keys, or if they are not true or false, the library takes it for BERT's.
    trims = (isinstance(step.get(key), bool) for key in ("trim_offsets", "add_prefix_space"))
    if is_bert or (step["type"] == "RobertaProcessing" and all(trims)):
        found = (step.get("cls"), step.get("sep"), 1 if is_bert else 2)
        return is_bert if found == ([*start], [*end], separators) else None

    def part(kind: str, name: str, segment: int = 0) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    separator = part("SpecialToken", end[0])
    single = [part("SpecialToken", start[0]), part("Sequence", "A"), separator]
    ids = {token: {"id": token, "ids": [i], "tokens": [token]} for token, i in (start, end)}
    for typed in (False, True):
        second = [part("Sequence", "B", typed), part("SpecialToken", end[0], typed)]
        pair = [*single, *[separator] * (separators - 1), *second]
        made = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": ids}
        if all(step.get(key) == value for key, value in made.items()):
            return typed
    return None
