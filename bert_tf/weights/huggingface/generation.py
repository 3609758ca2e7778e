"""generation_config.json of Hugging Face: how `generate` chooses tokens unless told otherwise."""

from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.weights.huggingface.keys import GENERATION, Keys
from pipelines.common import files, json_files

CONFIG = "generation_config.json"
# What is returned, how it is computed, and ids that config.json has, too.
_HARMLESS = frozenset(
    """
    _from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind
    bos_token_id cache_config cache_implementation compile_config continuous_batching_config
    disable_compile is_assistant low_memory max_cache_len max_matching_ngram_size
    num_assistant_tokens num_assistant_tokens_schedule output_attentions output_hidden_states
    output_logits output_scores pad_token_id prefill_chunk_size prompt_lookup_num_tokens
    remove_invalid_values return_dict_in_generate target_lookbehind transformers_version use_cache
    """.split()
)
# Settings that do nothing at their defaults; those of sampling do nothing without it.
_DEFAULTS = {
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("length_penalty", "repetition_penalty", "encoder_repetition_penalty"), 1),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length"), 0),
    "diversity_penalty": 0,
}
_SAMPLING = frozenset(
    "epsilon_cutoff eta_cutoff min_p temperature top_h top_k top_p typical_p".split()
)
_TOKENS = ("decoder_start_token_id", "eos_token_id")
_FORCED = {"bos_token_id": 0, "eos_token_id": 2}
_NONE: tuple[Any, ...] = (None, False, [], {})


def report(config: Mapping[str, Any], path: str, forced: bool) -> None:
    """Reports settings that choose other tokens than the defaults of our flags do.

    Args:
      config: The values of config.json, which older folders have these settings in.
      path: The folder.
      forced: Whether results begin with the start token and end with the end token here.
    """
    name = f"{path}/{CONFIG}"
    if files.gfile.exists(name):
        stated = json_files.read(name, dict[str, Any])
    else:
        name, stated = f"{path}/config.json", {k: config[k] for k in GENERATION if k in config}
    Keys(GENERATION | set(_TOKENS), _HARMLESS).check(stated, name)
    same = {**_DEFAULTS, **{key: config.get(key) for key in _TOKENS}}
    fixed = {f"forced_{key}": config.get(key, v) for key, v in _FORCED.items() if forced}
    ignored = _HARMLESS if stated.get("do_sample") else _HARMLESS | _SAMPLING
    found = [
        f"{key} {value!r}"
        for key, value in sorted(stated.items())
        if key not in ignored
        and (value != fixed[key] if key in fixed else value not in (*_NONE, same.get(key)))
    ]
    if found:
        logging.warning(
            "%s: transformers' generate has %s; here flags choose how texts are written "
            "(bert-tf generate --help).",
            *(name, ", ".join(found)),
        )
