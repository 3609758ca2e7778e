"""Tokenizers in a Hugging Face folder, read and written."""

import os
from collections.abc import Callable
from typing import Any

import tokenizers
from absl import logging

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import Bundle
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_vocabulary, kept_tokens, registry, sentencepiece_numbering
from pipelines.tokenizers.bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.hugging_face import CONFIG, FAST, TokenizerFiles
from pipelines.tokenizers.hugging_face_rules import ALGORITHMS, LONGEST_WORD, TEXT_ROLES, rules_of
from pipelines.tokenizers.sentencepiece_numbering import SPACE
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import (
    BERT,
    GEMMA,
    MODERNBERT,
    ROBERTA,
    TokenizerSettings,
    Vocabulary,
    distinct,
    in_order,
    read_lines,
)
from pipelines.tokenizers.wordpiece_vocabulary import (
    FILE,
    MAX_CHARACTERS_PER_WORD,
    WordPieceVocabulary,
)

_ADD_PREFIX_SPACE = "add_prefix_space"
# Of XLM-R and CamemBERT; in spite of its name, a unigram model.
_FAIRSEQ = "sentencepiece.bpe.model"
_KOBERT = "tokenizer_78b3253a26.model"  # beside a vocab.txt with the ids of its pieces
# Roles of special tokens by their names in tokenizer_config.json.
_ROLES_OF_TEXTS = TEXT_ROLES | {"bos_token": "start", "eos_token": "separator"}
_GPT_ROLES = {"pad_token": "pad", "unk_token": "unknown", "eos_token": "separator"}
_GPT2_ROLES = _GPT_ROLES | {"bos_token": "start"}
_SPECIAL = {token for form in ByteBPEVocabulary.forms for token in form.roles.values()}  # of BPE
_ADDED_TOKEN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True}
# A mask that includes the space before it.
_MASK_AFTER_SPACE = _ADDED_TOKEN | {
    "__type": "AddedToken",
    "lstrip": True,
    "normalized": False,
    "special": True,
}


def read(
    kind: str, path: str, config: BertConfig
) -> tuple[Vocabulary | None, TokenizerSettings | None]:
    """Reads vocabulary and tokenizer settings of a folder; None without a vocabulary.

    Added tokens that have no embeddings are left out. A model of any family may have a WordPiece
    vocabulary, as many Chinese ones do.

    Raises:
      InputError: A file is damaged, or the tokenizer is of another kind or does what ours does not.
    """
    theirs = TokenizerFiles(path)
    model: Any = theirs.fast.get("model")
    model = model if isinstance(model, dict) else {}
    is_gemma = model.get("type") == "BPE" and model.get("byte_fallback")
    is_named = any(files.gfile.exists(f"{path}/{name}") for name in (_FAIRSEQ, _KOBERT))
    if is_gemma or is_named or model.get("type") == "Unigram":
        kind = "sentencepiece"
    elif _has_word_pieces(theirs):
        kind = "wordpiece"
    theirs.check_class(*(key for key in ALGORITHMS if key.split(" ")[0] == kind))
    readers: dict[str, Callable[[TokenizerFiles, int], Vocabulary | None]]
    readers = {"wordpiece": _read_wordpiece, "sentencepiece": _read_sentencepiece}
    reader = _read_gemma if is_gemma else readers.get(kind, _read_bpe)
    vocabulary = reader(theirs, config.vocab_size)
    if vocabulary is None:
        return None, None
    theirs.check_class(rules_of(vocabulary))
    if vocabulary.kind != kind:
        raise InputError(
            f"{path}: the vocabulary is of kind {vocabulary.kind}, but a model of this type has "
            f"one of {kind}."
        )
    settings = theirs.settings(vocabulary)
    theirs.warn_of_added(vocabulary, settings)
    if kind == "wordpiece" and config.type_vocab_size == 1:
        settings["typed"] = False  # as in KLUE's RoBERTa
    elif config.type_vocab_size == 0:
        settings.pop("typed", None)  # nothing reads types
    return vocabulary, settings or None


def write(model: Bundle, folder: str) -> None:
    """Writes the vocabulary and tokenizer_config.json of a model with a vocabulary.

    Raises:
      InputError: The format does not support a setting.
    """
    vocabulary, settings = model.require_vocabulary(), model.resolved_settings()
    # What only a tokenizer.json can express.
    needs_fast = bool(settings.get("nfc") or settings.get("added_tokens"))
    needs_fast |= vocabulary.form in (MODERNBERT, GEMMA)
    found: dict[str, Any]
    tokens: dict[str, Any]
    if needs_fast:
        found = {"tokenizer_class": "PreTrainedTokenizerFast"}
        found["model_input_names"] = ["input_ids", "attention_mask"]
        tokens = {name: vocabulary.roles[role] for name, role in TEXT_ROLES.items()}
    elif vocabulary.kind == "byte_bpe":
        framed = settings.get("framed", vocabulary.form.framed)
        kind = "RobertaTokenizer" if framed else "GPT2Tokenizer"
        found = {"tokenizer_class": kind, _ADD_PREFIX_SPACE: settings[_ADD_PREFIX_SPACE]}
        roles = _ROLES_OF_TEXTS if framed else _GPT2_ROLES
        tokens = {name: vocabulary.roles[role] for name, role in roles.items()}
        if framed:
            tokens["mask_token"] = {"content": tokens["mask_token"], **_MASK_AFTER_SPACE}
        if framed and model.config.model_type == "gpt2" and not model.tasks:
            logging.warning(
                "%s: transformers ends each text with %s, also a prompt; to write texts, begin "
                "prompts with %s and tokenize them with add_special_tokens=False.",
                *(folder, tokens["eos_token"], tokens["bos_token"]),
            )
    elif vocabulary.kind == "bpe":
        if not (settings["lower_case"] and settings["strip_accents"]):
            raise InputError(
                f"{model.place}: Hugging Face's tokenizer of GPT always lower-cases and strips "
                "accents, but this model's does not; write it as bert_tf."
            )
        found = {"tokenizer_class": "OpenAIGPTTokenizer"}
        tokens = {name: vocabulary.roles[role] for name, role in _GPT_ROLES.items()}
    elif isinstance(vocabulary, SentencePieceVocabulary) and vocabulary.form is ROBERTA:
        found = {"tokenizer_class": sentencepiece_numbering.class_of(vocabulary.tokens)}
        tokens = {name: vocabulary.roles[role] for name, role in _ROLES_OF_TEXTS.items()}
        tokens["mask_token"] = {"content": tokens["mask_token"], **_MASK_AFTER_SPACE}
    elif vocabulary.kind == "sentencepiece":
        is_albert = vocabulary.form is not BERT
        found = {
            "tokenizer_class": "AlbertTokenizer" if is_albert else "KoBertTokenizer",
            "do_lower_case": settings["lower_case"],
            "keep_accents": not settings["strip_accents"],
        }
        if is_albert and model.config.type_vocab_size:  # transformers 5 gives none by default
            found["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        tokens = {name: vocabulary.roles[role] for name, role in _ROLES_OF_TEXTS.items()}
    else:
        if not settings.get("clean_text", True):
            raise InputError(
                f"{model.place}: Hugging Face's tokenizer of BERT always removes control "
                "characters, but this model's does not; write it as bert_tf."
            )
        found = {
            "tokenizer_class": ALGORITHMS[rules_of(vocabulary)].classes[0],
            "do_lower_case": settings["lower_case"],
            "strip_accents": settings["strip_accents"],
            "tokenize_chinese_chars": True,
        }
        longest = settings.get("max_characters_per_word", MAX_CHARACTERS_PER_WORD)
        if longest != LONGEST_WORD:
            found["max_input_chars_per_word"] = longest  # which transformers does not read
        if not (settings.get("typed", vocabulary.form.typed) and model.config.type_vocab_size):
            found["model_input_names"] = ["input_ids", "attention_mask"]
        tokens = {name: vocabulary.roles[role] for name, role in TEXT_ROLES.items()}
        if vocabulary.form.mask_takes_space:
            tokens["mask_token"] = {"content": tokens["mask_token"], **_MASK_AFTER_SPACE}
        if kept := kept_tokens.of(settings):
            found["added_tokens_decoder"] = {
                str(vocabulary.tokens.index(token)): {"content": token, **_ADDED_TOKEN}
                for token in kept
            }
    if isinstance(vocabulary, SentencePieceVocabulary) and vocabulary.form is ROBERTA:
        theirs = sentencepiece_numbering.published(vocabulary.model)
        files.write_bytes(f"{folder}/{_FAIRSEQ}", theirs)
    elif isinstance(vocabulary, SentencePieceVocabulary) and vocabulary.form is BERT:
        files.write_bytes(f"{folder}/{_KOBERT}", vocabulary.model)
        lines = "".join(f"{token}\n" for token in vocabulary.tokens)
        files.write_bytes(f"{folder}/{FILE}", lines.encode())
    elif not needs_fast:
        vocabulary.save(folder)
    can_be_fast = isinstance(vocabulary, ByteBPEVocabulary | WordPieceVocabulary) and not (
        vocabulary.complete(settings).get("decompose")
        or len(set(vocabulary.tokens)) < len(vocabulary.tokens)
    )
    if can_be_fast or needs_fast:
        _write_fast(vocabulary, settings, f"{folder}/{FAST}")
    most = model.config.max_seq_length  # or that of the head, to which other programs cut texts
    most = min([most, *(task.get("max_seq_length", most) for task in model.tasks)])
    length = {"model_max_length": most}
    json_files.write(f"{folder}/{CONFIG}", found | length | tokens)


def _write_fast(vocabulary: Vocabulary, settings: TokenizerSettings, path: str) -> None:
    """Writes a tokenizer.json, which other servers of models read (text-embeddings-inference)."""
    form, ids = vocabulary.form, {token: index for index, token in enumerate(vocabulary.tokens)}
    if isinstance(vocabulary, ByteBPEVocabulary):
        made = tokenizers.Tokenizer(tokenizers.models.BPE(ids, list(vocabulary.merges)))
        if settings.get("nfc"):
            made.normalizer = tokenizers.normalizers.NFC()
        space = bool(settings[_ADD_PREFIX_SPACE])
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=space)
        made.decoder = tokenizers.decoders.ByteLevel()
    elif isinstance(vocabulary, SentencePieceVocabulary):
        merges = sentencepiece_numbering.merges_of(vocabulary.model)
        unknown = vocabulary.roles["unknown"]
        bpe = tokenizers.models.BPE(
            ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True
        )
        made = tokenizers.Tokenizer(bpe)
        made.normalizer = tokenizers.normalizers.Replace(" ", SPACE)
        if vocabulary.cuts_words:
            made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        decoders = tokenizers.decoders
        steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        made.decoder = decoders.Sequence(steps)
    else:
        assert isinstance(vocabulary, WordPieceVocabulary)
        given: Any = settings
        model = tokenizers.models.WordPiece(
            ids,
            unk_token=vocabulary.roles["unknown"],
            continuing_subword_prefix=vocabulary.suffix,
            max_input_chars_per_word=given.get("max_characters_per_word", MAX_CHARACTERS_PER_WORD),
        )
        made = tokenizers.Tokenizer(model)
        made.normalizer = tokenizers.normalizers.BertNormalizer(
            strip_accents=given["strip_accents"], lowercase=given["lower_case"]
        )
        made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        made.decoder = tokenizers.decoders.WordPiece(vocabulary.suffix)
    if settings.get("framed", form.framed):
        start, end = vocabulary.roles["start"], vocabulary.roles["separator"]
        second = int(settings.get("typed", form.typed))
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{start} $A {end}",
            pair=f"{start} $A {' '.join([end] * form.separators)} $B:{second} {end}:{second}",
            special_tokens=[(token, ids[token]) for token in (start, end)],
        )
    made.add_special_tokens(
        [
            tokenizers.AddedToken(token, lstrip=form.mask_takes_space and role == "mask")
            for role, token in vocabulary.roles.items()
        ]
    )
    if settings.get("added_tokens") or form is GEMMA:
        normalized = form is not GEMMA  # its spaces would become "▁" first
        made.add_tokens(
            [tokenizers.AddedToken(token, normalized=normalized) for token in vocabulary.added]
        )
    made.add_tokens([tokenizers.AddedToken(token) for token in kept_tokens.of(settings)])
    files.write_bytes(path, made.to_str(pretty=True).encode())


def _has_word_pieces(theirs: TokenizerFiles) -> bool:
    """Whether a folder has a WordPiece vocabulary and none of another kind."""
    others = (ByteBPEVocabulary.files[0], SentencePieceVocabulary.files[0])
    if any(files.gfile.exists(f"{theirs.path}/{name}") for name in others):
        return False
    model = theirs.fast.get("model")
    is_fast = isinstance(model, dict) and model.get("type") == "WordPiece"
    return is_fast or (not theirs.fast and files.gfile.exists(f"{theirs.path}/{FILE}"))


def _read_wordpiece(theirs: TokenizerFiles, vocab_size: int) -> WordPieceVocabulary | None:
    path, name = theirs.path, f"{theirs.path}/{FAST}"
    if files.gfile.exists(f"{path}/{FILE}"):
        tokens = WordPieceVocabulary.load(path).tokens
        ids = {token: index for index, token in enumerate(tokens)}
    elif theirs.fast:
        ids = theirs.ids("wordpiece")
    else:
        return None
    return WordPieceVocabulary(_with_added(ids, name, theirs, vocab_size), path)


def _with_added(
    ids: dict[str, int], name: str, theirs: TokenizerFiles, vocab_size: int
) -> tuple[str, ...]:
    """The tokens of a file and the added ones that have embeddings, in the order of their ids."""
    kept = {
        token: number
        for token, number in theirs.added.items()
        if token not in ids and (number < vocab_size or token in _SPECIAL)
    }
    return in_order(ids | kept, name)


def _read_bpe(theirs: TokenizerFiles, vocab_size: int) -> Vocabulary | None:
    path, name = theirs.path, f"{theirs.path}/{FAST}"
    if files.gfile.exists(f"{path}/{ByteBPEVocabulary.files[0]}"):
        tokens, merges, name = bpe_vocabulary.read(path)
        ids = {token: index for index, token in enumerate(tokens)}
    elif theirs.fast:
        ids, merges = theirs.ids("bpe"), theirs.merges("bpe")
    else:
        return None
    return bpe_vocabulary.of(_with_added(ids, name, theirs, vocab_size), merges, name)


def _read_gemma(theirs: TokenizerFiles, vocab_size: int) -> SentencePieceVocabulary:
    path, kind = theirs.path, "sentencepiece of Gemma"
    for other in (*registry.all_files(), _FAIRSEQ, _KOBERT):
        if files.gfile.exists(f"{path}/{other}"):
            raise InputError(f"{path}: {FAST} has a vocabulary of its own; remove {other}.")
    name = f"{path}/{FAST}"
    tokens = _with_added(theirs.ids(kind), name, theirs, vocab_size)
    found = sentencepiece_numbering.of_merges(
        tokens, theirs.merges(kind), theirs.added, theirs.cuts_words, name
    )
    return SentencePieceVocabulary(found, name)


def _read_sentencepiece(theirs: TokenizerFiles, vocab_size: int) -> SentencePieceVocabulary | None:
    del vocab_size  # published ones have no added tokens
    model, fairseq = (
        f"{theirs.path}/{name}" for name in (SentencePieceVocabulary.files[0], _FAIRSEQ)
    )
    if files.gfile.exists(fairseq):
        found = files.read_whole(fairseq)
        is_camembert = theirs.class_is("CamembertTokenizer", "camembert")
        found = sentencepiece_numbering.of_fairseq(found, is_camembert, fairseq)
        return SentencePieceVocabulary(found, fairseq)
    kobert = f"{theirs.path}/{_KOBERT}"
    if files.gfile.exists(kobert):
        lines = read_lines(f"{theirs.path}/{FILE}")
        tokens = distinct([line.removesuffix("\r") for line in lines], f"{theirs.path}/{FILE}")
        found = sentencepiece_numbering.renumbered(files.read_whole(kobert), tokens, kobert)
        return SentencePieceVocabulary(found, kobert)
    if files.gfile.exists(model):
        return SentencePieceVocabulary.load(theirs.path)
    if theirs.fast:
        scores = theirs.scores("sentencepiece")
        if sentencepiece_numbering.class_of([piece for piece, _ in scores]):
            found = sentencepiece_numbering.of_scores(scores, theirs.characters())
            return SentencePieceVocabulary(found, f"{theirs.path}/{FAST}")
        raise InputError(
            f"{theirs.path}: has {FAST}, but not {os.path.basename(model)}, the model of "
            "SentencePiece that it was made from; copy it there."
        )
    return None
