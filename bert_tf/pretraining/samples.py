"""Texts that a left-to-right model writes after the beginnings of held-out examples."""

from typing import Any

import tensorflow as tf

from bert_tf.generation.decoder import CausalDecoder
from bert_tf.generation.generator import TextGenerator
from bert_tf.generation.settings import GenerationSettings
from bert_tf.objectives.base import Batch
from bert_tf.objectives.left_to_right import LeftToRight
from pipelines.tokenizers.base import Tokenizer

_SAMPLES = 4
_PROMPT = 12  # tokens
_SETTINGS = GenerationSettings(max_new_tokens=24, temperature=0.7, top_p=0.9)


def write(model: LeftToRight, batch: Batch, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Samples continuations.

    Args:
      model: the model.
      batch: held-out examples.
      tokenizer: tokenizer of the examples.

    Returns:
      `prompt` and `text`, which follows it, of each; none if the model is too short for samples.
    """
    if model.config.max_length < _PROMPT + _SETTINGS.max_new_tokens:
        return []
    decoder = CausalDecoder(model.encoder, model.token_logits)
    generator = TextGenerator(decoder, tokenizer, model.config.max_length, _SETTINGS)
    ids, mask = (batch[name][:_SAMPLES, :_PROMPT] for name in ("input_word_ids", "input_mask"))
    run = tf.function(generator.generate_ids, autograph=False)
    texts = generator.texts(run(ids, mask)).numpy()
    prompts = tokenizer.decode(tf.ragged.boolean_mask(ids, mask > 0))
    return [
        {"prompt": prompt, "text": text.decode()}
        for prompt, text in zip(prompts, texts, strict=True)
    ]
