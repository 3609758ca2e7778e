"""Signatures of pre-trained models: guesses for masked words, and embeddings."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.models.layers import pooling
from bert_tf.tasks import signatures
from bert_tf.tasks.signatures import Computation, PlainTexts, Prepared, ServedModel, Signature
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

_TOP_K = 5
# Sentences to try a model with, each with two words that may be left out.
_SAMPLES = (
    ("The weather is ", "nice", " today, so we will ", "stay", " at home."),
    ("Returns the ", "index", " of the first element in the ", "list", "."),
    ("The patient was ", "treated", " with a low dose, and the ", "symptoms", " improved."),
    ("The court ", "held", " that the contract was not ", "valid", "."),
    ("Das Wetter ist heute ", "schön", ", deshalb gehen wir in den ", "Park", "."),
    ("Il fait ", "beau", " aujourd'hui, donc nous allons au ", "parc", "."),
    ("Hoy hace buen ", "tiempo", ", así que vamos al ", "parque", "."),
    ("今天天气很", "好", "，我们去公园", "玩", "。"),
)
_WORD = re.compile(r"[\u4e00-\u9fff]|\w+|[^\w\s]")
_UNKNOWN = 4  # pieces that an unknown word counts as
Tensors = signatures.Tensors


def make_signatures(
    model: ServedModel, token_logits: Callable[[tf.Tensor], tf.Tensor] | None, pooled: bool
) -> list[Signature]:
    """`fill_mask`, `embed`, `embed_layers`, each of raw text and, as `<name>_ids`, of token ids.

    Args:
      model: without a head.
      token_logits: maps encoder outputs [rows, hidden_size] to float32 [rows, vocab_size]; None
        for a model that guesses no words. Portable models have no `fill_mask`.
      pooled: whether its pooler was trained.
    """
    found = [_embed(model, pooled), _embed_layers(model)]
    if token_logits and not model.portable:
        found.insert(0, _fill_mask(model, token_logits))
    return [
        signature for computation in found for signature in _of_text_and_ids(model, computation)
    ]


def sample(tokenizer: Tokenizer) -> list[str]:
    """A sentence around two missing words, near the corpus: the one of fewest pieces per word."""

    def pieces_per_word(parts: Sequence[str]) -> float:
        text = "".join(parts)
        ids = tokenizer.tokenize([text])[0].numpy().tolist()
        pieces = len(ids) + (_UNKNOWN - 1) * ids.count(tokenizer.unknown_id)
        return pieces / len(_WORD.findall(text))

    return list(min(_SAMPLES, key=pieces_per_word)[::2])


def _of_text_and_ids(model: ServedModel, computation: Computation) -> list[Signature]:
    guesses = computation.name == "fill_mask"

    def prepared(sequences: Tensors) -> Prepared:
        masked = sequences["input_word_ids"] == model.tokenizer.mask_id
        return Prepared(sequences, {"masked": masked} if guesses else {})

    names = [spec.name for spec in computation.outputs]

    def named(results: Sequence[Any], state: Tensors) -> dict[str, Any]:
        return dict(zip(names, results, strict=True))

    tokenizer, longest = model.tokenizer, model.config.max_seq_length

    def packed(text: tf.Tensor) -> Tensors:
        if guesses:
            return _pack(model, text)
        # Elsewhere no text has a special token, as in tasks.
        return model.padded(
            packing.pack(tokenizer, tokenizer.functions.tokenize(text), None, longest)
        )

    answer = (lambda results, state: _guesses(model, results, state)) if guesses else named
    return [
        Signature(
            computation.name,
            signatures.text_specs("text"),
            {"text": [f"A sentence to {tokenizer.mask_token if guesses else 'warm'} up with."]},
            lambda inputs: prepared(packed(inputs["text"])),
            computation,
            answer,
            plain=None if guesses else PlainTexts(("text",), longest),
        ),
        Signature(
            f"{computation.name}_ids",
            model.ids_specs(),
            model.ids_sample(),
            lambda inputs: prepared(model.checked(inputs)),
            computation,
            answer,
        ),
    ]


def _fill_mask(model: ServedModel, token_logits: Callable[[tf.Tensor], tf.Tensor]) -> Computation:
    """The best tokens at each mask and their probabilities, [sequences, length, 5] each.

    Both are 0 where there is no mask.
    """
    tokens = len(model.tokenizer.vocabulary.tokens)

    def guess(rows: Tensors, skip_padding: bool) -> list[tf.Tensor]:
        ids = rows["input_word_ids"]
        place = tf.where(ids == model.tokenizer.mask_id)
        outputs = model.outputs(rows, skip_padding)
        masked = tf.gather_nd(outputs["sequence_output"], place)
        # The table may have more rows than the vocabulary has tokens.
        top = tf.math.top_k(tf.nn.softmax(token_logits(masked)[:, :tokens]), _TOP_K)
        shape = tf.concat([tf.shape(ids, tf.int64), [_TOP_K]], 0)
        return [tf.scatter_nd(place, values, shape) for values in (top.indices, top.values)]

    shape = [None, None, _TOP_K]
    results = (tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.float32))
    return Computation("fill_mask", results, guess)


def _guesses(model: ServedModel, results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
    """Guesses for each mask of a text.

    Returns:
      `tokens`, string, and `probabilities`, float32, both [batch, masks, 5], the best first. Texts
      with fewer masks than others have empty tokens and 0.
    """
    masked = state["masked"]
    counts = tf.reduce_sum(tf.cast(masked, tf.int32), 1)
    indices, probabilities = (tf.boolean_mask(values, masked) for values in results)
    vocabulary = model.tokenizer.vocabulary
    shown = [vocabulary.plain([token]) for token in vocabulary.tokens]

    def padded(values: tf.Tensor, default: str | float) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_lengths(values, counts)
        return ragged.to_tensor(default, shape=[None, None, _TOP_K])

    guessed = tf.gather(tf.constant(shown), indices)
    return {"tokens": padded(guessed, ""), "probabilities": padded(probabilities, 0.0)}


def _embed(model: ServedModel, pooled: bool) -> Computation:
    """Embeddings of texts, float32 [batch, hidden_size] each.

    `mean_output` is the mean of the last layer over the tokens; a model with a trained pooler has
    `pooled_output`, too.
    """
    names = ["mean_output", *(["pooled_output"] if pooled else [])]

    def embed(rows: Tensors, skip_padding: bool) -> list[tf.Tensor]:
        outputs = model.outputs(rows, skip_padding)
        found = {
            "mean_output": pooling.mean(outputs["sequence_output"], rows["input_mask"]),
            "pooled_output": tf.cast(outputs["pooled_output"], tf.float32),
        }
        return [found[name] for name in names]

    shape = [None, model.config.hidden_size]
    outputs = tuple(tf.TensorSpec(shape, tf.float32, name) for name in names)
    return Computation("embed", outputs, embed)


def _embed_layers(model: ServedModel) -> Computation:
    """`layers`, the mean of each layer over the tokens, float32 [batch, layers, hidden_size].

    They embed a text by any layer: the feature-based approach (paper, section 5.3).
    """

    def embed(rows: Tensors, skip_padding: bool) -> list[tf.Tensor]:
        layers = model.outputs(rows, skip_padding)["encoder_outputs"]
        return [tf.stack([pooling.mean(x, rows["input_mask"]) for x in layers], 1)]

    shape = [None, model.config.num_hidden_layers, model.config.hidden_size]
    return Computation("embed_layers", (tf.TensorSpec(shape, tf.float32, "layers"),), embed)


def _pack(model: ServedModel, text: tf.Tensor) -> Tensors:
    """A text with its masks as one segment, cut to the longest sequence of the model."""
    tokens = model.tokenizer
    if tokens.vocabulary.form.mask_takes_space:
        mask = tokens.mask_token
        text = tf.strings.regex_replace(text, rf"\s+{re.escape(mask)}", mask)
    parts = tf.strings.split(text, tokens.mask_token)
    ids = parts.with_flat_values(tokens.functions.tokenize(parts.flat_values))
    # Each part is followed by a mask, the last one of a text by the separator.
    is_last = tf.range(tf.size(parts.values, tf.int64)) == tf.gather(
        parts.row_limits() - 1, parts.value_rowids()
    )
    has_mask = tf.cast(~is_last, tf.int64)
    masks = tf.fill([tf.reduce_sum(has_mask)], tokens.mask_id)
    joined = tf.concat([ids.values, tf.RaggedTensor.from_row_lengths(masks, has_mask)], 1)
    flat = parts.with_flat_values(joined).merge_dims(1, 2)
    return model.padded(packing.pack(tokens, flat, None, model.config.max_seq_length))
