r"""Continues a text with a language model, and prints what follows as it is generated.

  bert-tf generate --model=savedmodels/gpt --prompt='The function returns'
  bert-tf generate --model=openai-gpt --prompt='The weather' --temperature=0.8 --top_p=0.9 --seed=1

The model is any left-to-right model that `convert` reads. The same seed gives the same text.
"""

import sys

from absl import flags

from bert_tf.generation.settings import GenerationSettings

_MODEL = flags.DEFINE_string(
    "model", None, "The model: any that `bert-tf convert` reads.", required=True
)
_PROMPT = flags.DEFINE_string(
    "prompt", "", "The text to continue. Not given: a text from its beginning."
)
GenerationSettings.define_flags()


def main() -> None:
    """Generates as the flags say."""
    settings = GenerationSettings.from_flags()
    from bert_tf.export import sources
    from bert_tf.generation.decoder import CausalDecoder
    from bert_tf.generation.generator import TextGenerator

    source = sources.read(_MODEL.value.rstrip("/"))
    model = source.bundle.language_model()
    decoder = CausalDecoder(model.encoder, model.token_logits)
    found = TextGenerator(decoder, source.bundle.tokenizer(), source.sequence_length, settings)
    parts = found.generate([_PROMPT.value]) if settings.beams > 1 else found.stream(_PROMPT.value)
    sys.stdout.write(_PROMPT.value)
    for part in parts:
        sys.stdout.write(part)
        sys.stdout.flush()
    print()
