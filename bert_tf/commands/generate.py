r"""Writes text with a language model, and prints it as it is generated.

  bert-tf generate --model=savedmodels/gpt --prompt='The function returns'
  bert-tf generate --model=openai-gpt --prompt='The weather' --temperature=0.8 --top_p=0.9 --seed=1

A left-to-right model (GPT) continues the prompt; a BART reads it as a source, such as a text to
summarize. The same seed gives the same text.
"""

import dataclasses
import sys

from bert_tf.generation.settings import GenerationSettings
from pipelines.common.flag_types import Path


def main(*, model: Path, prompt: str = "", settings: type[GenerationSettings]) -> None:
    """Generates as the flags say.

    Flags:
      model: The model: any that `bert-tf convert` reads.
      prompt: The text to continue, or of a BART the source. Not given: a text from its beginning.
    """
    given = settings.given_by_flags()
    from bert_tf.export import sources
    from bert_tf.generation import decoder as decoders
    from bert_tf.generation.generator import TextGenerator

    source = sources.read(model)
    network, tokenizer = source.bundle.language_model(), source.bundle.tokenizer()
    decoder = decoders.make(network.encoder, network.token_logits, tokenizer)
    assert source.generation is not None  # it is a language model
    chosen = dataclasses.replace(source.generation, **given)
    chosen.check_given(given)
    found = TextGenerator(decoder, tokenizer, source.max_seq_length, chosen)
    parts = found.generate([prompt]) if chosen.beams > 1 else found.stream(prompt)
    if decoder.continues:
        sys.stdout.write(prompt)
    for part in parts:
        sys.stdout.write(part)
        sys.stdout.flush()
    print()
