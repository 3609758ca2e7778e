"""Signatures of language models: texts that continue texts."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.generation.generator import TextGenerator
from bert_tf.tasks import signatures
from bert_tf.tasks.signatures import Computation, Prepared, ServedModel, Signature, Tensors
from pipelines.tokenizers.packing import Packed


def make_signatures(model: ServedModel, generator: TextGenerator) -> list[Signature]:
    """`generate`, from texts to the texts that follow them, and `generate_ids`, of token ids."""
    size = generator.settings.max_new_tokens

    def compute(rows: Tensors, skip_padding: bool) -> list[tf.Tensor]:
        del skip_padding  # prompts are padded on the left
        return [generator.generate_ids(rows["input_word_ids"], rows["input_mask"])]

    spec = tf.TensorSpec([None, size], tf.int32, "tokens")
    computation = Computation(
        "generate",
        (spec,),
        compute,
        portable=False,
        row_tokens=lambda length: (length + size) * generator.settings.beams,
    )

    def preprocess(inputs: Tensors) -> Prepared:
        ids = generator.prompt_ids(inputs["text"])
        return Prepared(model.padded(Packed(ids, tf.zeros_like(ids))), {})

    def texts(results: Sequence[Any], state: Tensors) -> Tensors:
        return {"text": generator.texts(results[0])}

    return [
        Signature(
            "generate",
            signatures.text_specs("text"),
            {"text": ["Once upon a time"]},
            preprocess,
            computation,
            texts,
            stream=generator.stream,
        ),
        Signature(
            "generate_ids",
            model.ids_specs(),
            model.ids_sample(),
            lambda inputs: Prepared(model.checked(inputs), {}),
            computation,
            lambda results, state: {"tokens": results[0]},
        ),
    ]
