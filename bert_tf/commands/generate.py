r"""Writes text with a language model, and prints it as it is generated.

  bert-tf generate --model=savedmodels/gpt --prompt='The function returns'
  bert-tf generate --model=openai-gpt --prompt='The weather' --temperature=0.8 --top_p=0.9 --seed=1

A left-to-right model (GPT) continues the prompt; a BART reads it as a source, such as a text to
summarize. The same seed gives the same text.
"""

import dataclasses
import sys

from absl import flags

from bert_tf.generation.settings import GenerationSettings

_MODEL = flags.DEFINE_string(
    "model", None, "The model: any that `bert-tf convert` reads.", required=True
)
_PROMPT = flags.DEFINE_string(
    "prompt",
    "",
    "The text to continue, or of a BART the source. Not given: a text from its beginning.",
)
GenerationSettings.define_flags()


def main() -> None:
    """Generates as the flags say."""
    given = GenerationSettings.given_by_flags()
    from bert_tf.export import sources
    from bert_tf.generation import decoder as decoders
    from bert_tf.generation.generator import TextGenerator

    source = sources.read(_MODEL.value.rstrip("/"))
    model, tokenizer = source.bundle.language_model(), source.bundle.tokenizer()
    decoder = decoders.make(model.encoder, model.token_logits, tokenizer)
    assert source.generation is not None  # it is a language model
    settings = dataclasses.replace(source.generation, **given)
    found = TextGenerator(decoder, tokenizer, source.max_seq_length, settings)
    parts = found.generate([_PROMPT.value]) if settings.beams > 1 else found.stream(_PROMPT.value)
    if decoder.continues:
        sys.stdout.write(_PROMPT.value)
    for part in parts:
        sys.stdout.write(part)
        sys.stdout.flush()
    print()
