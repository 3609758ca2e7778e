"""Texts that a language model writes for held-out examples."""

from typing import Any

import tensorflow as tf

from bert_tf.generation import decoder as decoders
from bert_tf.generation.generator import TextGenerator
from bert_tf.generation.settings import GenerationSettings
from bert_tf.objectives.base import Batch
from bert_tf.objectives.masked_lm import TokenPrediction
from pipelines.tokenizers.base import Tokenizer

_SAMPLES = 4
_PROMPT = 12  # tokens, of a text to continue
_SAMPLED = GenerationSettings(max_new_tokens=24, temperature=0.7, top_p=0.9)


def write(model: TokenPrediction, batch: Batch, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Samples continuations of beginnings, or the most probable originals of noised texts.

    Args:
      model: a language model.
      batch: held-out examples.
      tokenizer: tokenizer of the examples.

    Returns:
      `prompt` and `text`, which follows it or is its original, of each; none if the model is too
      short for samples.
    """
    decoder = decoders.make(model.encoder, model.token_logits, tokenizer)
    settings, length = _SAMPLED, _PROMPT
    if not decoder.continues:
        length = batch["input_word_ids"].shape[1]
        settings = GenerationSettings(max_new_tokens=min(length, model.config.max_seq_length - 2))
    elif model.config.max_seq_length < _PROMPT + settings.max_new_tokens:
        return []
    generator = TextGenerator(decoder, tokenizer, model.config.max_seq_length, settings)
    ids, mask = (batch[name][:_SAMPLES, :length] for name in ("input_word_ids", "input_mask"))
    run = tf.function(generator.generate_ids, autograph=False)
    texts = generator.texts(run(ids, mask)).numpy()
    found = tf.ragged.boolean_mask(ids, mask > 0)
    # Of noised texts, masks are shown.
    prompts = (
        tokenizer.decode(found)
        if decoder.continues
        else tokenizer.decode(found[:, 1:-1], skip_special_tokens=False)
    )
    return [
        {"prompt": prompt, "text": text.decode()}
        for prompt, text in zip(prompts, texts, strict=True)
    ]
