"""The keys of the JSON files in a Hugging Face folder: what is followed, harmless or refused."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from absl import logging

from pipelines.common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Keys:
    """What is known of the keys of a file.

    Attributes:
      followed: Keys that are read.
      only: Keys with the values that are supported, unless they are followed; null is false, and
        without any only null, false and {} are.
      harmless: Other keys that change no output, whatever their value.
    """

    followed: frozenset[str]
    harmless: frozenset[str] = frozenset()
    only: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)

    def check(self, values: Mapping[str, Any], place: str) -> None:
        """Warns of unknown keys; an InputError if a value would change outputs here unseen."""
        for key, supported in self.only.items():
            value, *allowed = (
                False if each is None else each for each in (values.get(key), *supported)
            )
            if key in values.keys() - self.followed and value not in (allowed or (False, {})):
                known = " or ".join("null" if each is None else repr(each) for each in supported)
                reason = f"only {known} is supported" if known else "it is not supported"
                raise InputError(f"{place}: {key} is {values[key]!r}; {reason}.")
        unknown = sorted(values.keys() - self.followed - self.harmless - self.only.keys())
        if unknown:
            logging.warning("%s: unknown keys have no effect: %s.", place, ", ".join(unknown))


# Defaults of `generate`, which `generation_config.json` has since 2022.
GENERATION = frozenset(
    """
    assistant_confidence_threshold assistant_early_exit assistant_lookbehind bad_words_ids
    begin_suppress_tokens cache_config cache_implementation constraints diversity_penalty do_sample
    dola_layers early_stopping encoder_no_repeat_ngram_size encoder_repetition_penalty
    epsilon_cutoff eta_cutoff exponential_decay_length_penalty force_bos_token_to_be_generated
    force_words_ids forced_bos_token_id forced_eos_token_id guidance_scale length_penalty
    low_memory max_length max_new_tokens max_time min_length min_new_tokens min_p
    no_repeat_ngram_size num_beam_groups num_beams num_return_sequences penalty_alpha
    prompt_lookup_num_tokens remove_invalid_values renormalize_logits repetition_penalty
    sequence_bias stop_strings suppress_tokens target_lookbehind temperature token_healing top_h
    top_k top_p typical_p watermarking_config
    """.split()
)
# Keys of config.json that are read in models of every family.
FOLLOWED = frozenset(
    """
    architectures finetuning_task id2label model_type problem_type
    sbert_ce_default_activation_function sentence_transformers tokenizer_class
    """.split()
)
# Notes of transformers and of the program that trained a model, what is chosen when it is run, and
# ids of tokens, which the tokenizer has.
HARMLESS = frozenset(
    """
    _attn_implementation_autoset _commit_hash _name_or_path _num_labels attn_implementation
    bos_token_id chunk_size_feed_forward cross_attention_hidden_size custom_pipelines directionality
    do_lower_case dtype eos_token_id gradient_checkpointing label2id language name name_or_path
    num_labels output_attentions output_hidden_states output_past output_scores pad_token_id
    pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    prefix return_dict return_dict_in_generate sep_token_id task_specific_params tf_legacy_loss
    tie_word_embeddings torch_dtype torchscript transformers_version use_bfloat16 use_cache
    """.split()
)
ONLY: Mapping[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "auto_map": (),  # code of the repository's own, which is never run
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "per_layer_config": (),
    "position_embedding_type": ("absolute",),
    "pruned_heads": (),
    "quantization_config": (),
    "tie_encoder_decoder": (False,),
}
