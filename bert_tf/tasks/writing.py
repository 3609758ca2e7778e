"""Signatures of models that write texts."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.generation import decoder as decoders
from bert_tf.generation.generator import TextGenerator
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.encoder_decoder import EncoderDecoder
from bert_tf.models.heads import VocabularyHead
from bert_tf.models.layers.base import Layer
from bert_tf.tasks import signatures
from bert_tf.tasks.base import Task
from bert_tf.tasks.signatures import Computation, Prepared, ServedModel, Signature, Tensors
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import Packed


def make_signatures(
    model: ServedModel, generator: TextGenerator, name: str = "generate"
) -> list[Signature]:
    """`<name>`, from texts to what the generator writes, and `<name>_ids`, of token ids."""
    size = generator.settings.max_new_tokens

    def compute(rows: Tensors, skip_padding: bool) -> list[tf.Tensor]:
        del skip_padding  # prompts are padded on the left
        return [generator.generate_ids(rows["input_word_ids"], rows["input_mask"])]

    spec = tf.TensorSpec([None, size], tf.int32, "tokens")
    computation = Computation(
        name,
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
            name,
            signatures.text_specs("text"),
            {"text": ["Once upon a time"]},
            preprocess,
            computation,
            texts,
            stream=None if generator.settings.beams > 1 else generator.stream,
        ),
        Signature(
            f"{name}_ids",
            model.ids_specs(),
            model.ids_sample(),
            lambda inputs: Prepared(model.checked(inputs), {}),
            computation,
            lambda results, state: {"tokens": results[0]},
        ),
    ]


def make_generator(
    encoder: Encoder, head: Layer | None, tokenizer: Tokenizer, task: Task, dtype: str | None = None
) -> TextGenerator:
    """The writer of a task's texts.

    Args:
      encoder: the encoder-decoder.
      head: that of the task, which is the model's own.
      tokenizer: that of the model.
      task: a task that writes texts.
      dtype: what to compute in; None: the compute dtype of the model.
    """
    assert isinstance(encoder, EncoderDecoder) and isinstance(head, VocabularyHead)
    assert task.generation is not None

    def token_logits(rows: tf.Tensor) -> tf.Tensor:
        words = tf.convert_to_tensor(encoder.word_embeddings)
        outputs = {"sequence_output": rows[:, tf.newaxis], "word_embeddings": words}
        return head(outputs)[:, 0]

    decoder = decoders.make(encoder, token_logits, tokenizer, dtype)
    longest = encoder.config.max_seq_length
    return TextGenerator(decoder, tokenizer, longest, task.generation, task.max_seq_length)
