"""RoBERTa's tokenizer in a Hugging Face folder.

vocab.json and merges.txt are of its older kind; where there is but the newer one's tokenizer.json,
that has both.
"""

from typing import Any

from bert_tf.weights.bundle import Bundle
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers.byte_bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.vocabulary import TokenizerSettings

_CONFIG = "tokenizer_config.json"
_FAST = "tokenizer.json"
_SPACE = "add_prefix_space"
# Their names of the roles of special tokens; the start and the end of a text are roles of two.
_ROLES = {
    "pad_token": "pad",
    "unk_token": "unknown",
    "cls_token": "start",
    "bos_token": "start",
    "sep_token": "separator",
    "eos_token": "separator",
    "mask_token": "mask",
}


def read(path: str, vocab_size: int) -> tuple[ByteBPEVocabulary | None, TokenizerSettings | None]:
    """Tokens and merges, and the settings of the tokenizer; None where nothing says them.

    Args:
      path: the folder.
      vocab_size: of the model; `Bundle` compares it.

    Raises:
      InputError: a file is damaged, or the tokenizer is another than RoBERTa's.
    """
    fast = f"{path}/{_FAST}"
    if files.gfile.exists(f"{path}/{ByteBPEVocabulary.files[0]}"):
        vocabulary = ByteBPEVocabulary.load(path)
    elif files.gfile.exists(fast):
        vocabulary = _of_fast(json_files.read(fast, dict[str, Any]), fast)
    else:
        return None, None
    stated = f"{path}/{_CONFIG}"
    if not files.gfile.exists(stated):
        return vocabulary, None
    values = json_files.read(stated, dict[str, Any])
    return vocabulary, vocabulary.resolve({_SPACE: bool(values.get(_SPACE))})


def _of_fast(values: dict[str, Any], name: str) -> ByteBPEVocabulary:
    """The vocabulary in a tokenizer.json."""
    model = values.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        raise InputError(f"{name}: the tokenizer is not byte-level BPE.")
    try:
        ids = dict(model["vocab"]) | {t["content"]: t["id"] for t in values["added_tokens"]}
        tokens = sorted(ids, key=ids.__getitem__)
        merges = [tuple(m.split(" ") if isinstance(m, str) else m) for m in model["merges"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}: has no vocabulary of byte-level BPE.") from error
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise InputError(f"{name}: ids have gaps, or two tokens have one id.")
    if not all(len(merge) == 2 and all(isinstance(m, str) for m in merge) for merge in merges):
        raise InputError(f"{name}: a merge is no pair of tokens.")
    return ByteBPEVocabulary(tuple(tokens), tuple(merges), name)


def write(model: Bundle, folder: str) -> None:
    """Writes vocab.json, merges.txt and tokenizer_config.json."""
    vocabulary = model.require_vocabulary()
    vocabulary.save(folder)
    json_files.write(
        f"{folder}/{_CONFIG}",
        {
            "tokenizer_class": "RobertaTokenizer",
            _SPACE: model.resolved_settings()[_SPACE],
            "model_max_length": model.config.max_length,
            **{name: vocabulary.roles[role] for name, role in _ROLES.items()},
        },
    )
