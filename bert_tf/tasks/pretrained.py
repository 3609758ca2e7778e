"""Pre-trained models: guesses for masked words, and embeddings."""

import re
from collections.abc import Callable

import tensorflow as tf

from bert_tf.models import pooling
from bert_tf.tasks import signatures
from bert_tf.tasks.signatures import Computation, Engine, Signature, Tensors
from pipelines.tokenizers import packing

_TOP_K = 5


class PretrainedServing:
    """What the exported model does without a task.

    Args:
      token_logits: float32 [rows, vocab_size] of encoder outputs [rows, hidden_size];
        None: the model guesses no words.
      pooled: whether its pooler was trained.
    """

    def __init__(self, token_logits: Callable[[tf.Tensor], tf.Tensor] | None, pooled: bool):
        self._token_logits = token_logits
        self._pooled = pooled

    def signatures(self, engine: Engine) -> list[Signature]:
        """`fill_mask`, `embed`, `embed_layers`, and those of token ids."""
        functions = {"embed": self._embed, "embed_layers": self._embed_layers}
        if self._token_logits and not engine.portable:
            functions = {"fill_mask": self._fill_mask} | functions
        found = []
        for name, function in functions.items():
            found += self._of_text_and_ids(name, engine, function)
        return found

    def _of_text_and_ids(
        self, name: str, engine: Engine, function: Callable[[Engine, Tensors], Tensors]
    ) -> list[Signature]:
        return [
            Signature(
                name,
                signatures.text_specs("text"),
                lambda inputs: function(engine, _pack(engine, inputs["text"])),
                {"text": [f"A sentence to {engine.tokenizer.mask_token} up with."]},
            ),
            Signature(
                f"{name}_ids",
                engine.ids_specs(),
                lambda inputs: function(engine, engine.checked(inputs)),
                engine.ids_sample(),
            ),
        ]

    def _fill_mask(self, engine: Engine, inputs: Tensors) -> Tensors:
        """Guesses for each mask of a text.

        Returns:
          `tokens`, string, and `probabilities`, float32, both [batch, masks, 5],
          best first; texts with fewer masks than others have empty tokens and 0.
        """
        tokens = engine.tokenizer.vocabulary.tokens
        token_logits = self._token_logits
        assert token_logits is not None  # else there is no such signature

        def guess(rows: Tensors, drop_padding: bool) -> list[tf.Tensor]:
            ids = rows["input_word_ids"]
            place = tf.where(ids == engine.tokenizer.mask_id)
            outputs = engine.outputs(rows, drop_padding)
            masked = tf.gather_nd(outputs["sequence_output"], place)
            # The table may have more rows than the vocabulary has tokens.
            logits = token_logits(masked)[:, : len(tokens)]
            top = tf.math.top_k(tf.nn.softmax(logits), _TOP_K)
            shape = tf.concat([tf.shape(ids, tf.int64), [_TOP_K]], 0)
            return [tf.scatter_nd(place, values, shape) for values in (top.indices, top.values)]

        shape = [None, None, _TOP_K]
        results = (tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.float32))
        found = engine.compute(Computation("fill_mask", results, guess), inputs)
        masked = inputs["input_word_ids"] == engine.tokenizer.mask_id
        counts = tf.reduce_sum(tf.cast(masked, tf.int32), 1)
        indices, shares = (tf.boolean_mask(values, masked) for values in found)
        shown = [engine.tokenizer.vocabulary.plain([token]) for token in tokens]
        guessed = tf.gather(tf.constant(shown), indices)

        def padded(values: tf.Tensor, default: str | float) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_row_lengths(values, counts)
            return ragged.to_tensor(default, shape=[None, None, _TOP_K])

        return {"tokens": padded(guessed, ""), "probabilities": padded(shares, 0.0)}

    def _embed(self, engine: Engine, inputs: Tensors) -> Tensors:
        """Embeddings of texts, float32 [batch, hidden_size] each.

        Returns:
          `mean_output`, the mean of the last layer over the tokens; and, of a
          model whose pooler was trained, `pooled_output`.
        """
        names = ["mean_output", *(["pooled_output"] if self._pooled else [])]

        def embed(rows: Tensors, drop_padding: bool) -> list[tf.Tensor]:
            outputs = engine.outputs(rows, drop_padding)
            found = {
                "mean_output": pooling.mean(outputs["sequence_output"], rows["input_mask"]),
                "pooled_output": tf.cast(outputs["pooled_output"], tf.float32),
            }
            return [found[name] for name in names]

        results = tuple(
            tf.TensorSpec([None, engine.config.hidden_size], tf.float32, name) for name in names
        )
        found = engine.compute(Computation("embed", results, embed), inputs)
        return dict(zip(names, found, strict=True))

    def _embed_layers(self, engine: Engine, inputs: Tensors) -> Tensors:
        """`layers`, the mean of each layer over the tokens, float32 [batch, layers, hidden_size].

        With these a text is embedded by a layer of choice: the feature-based
        approach (paper, section 5.3).
        """

        def embed(rows: Tensors, drop_padding: bool) -> list[tf.Tensor]:
            layers = engine.outputs(rows, drop_padding)["encoder_outputs"]
            return [tf.stack([pooling.mean(x, rows["input_mask"]) for x in layers], 1)]

        shape = [None, engine.config.num_hidden_layers, engine.config.hidden_size]
        results = (tf.TensorSpec(shape, tf.float32, "layers"),)
        (layers,) = engine.compute(Computation("embed_layers", results, embed), inputs)
        return {"layers": layers}


def _pack(engine: Engine, text: tf.Tensor) -> Tensors:
    """A text as one segment, cut to the longest sequence that the model takes; with its masks."""
    tokens = engine.tokenizer
    if tokens.vocabulary.mask_takes_space:
        mask = tokens.mask_token
        text = tf.strings.regex_replace(text, rf"\s+{re.escape(mask)}", mask)
    parts = tf.strings.split(text, tokens.mask_token)
    ids = parts.with_flat_values(tokens.tokenize(parts.flat_values))
    # Each part is followed by a mask, but the last one of a text by the separator.
    is_last = tf.range(tf.size(parts.values, tf.int64)) == tf.gather(
        parts.row_limits() - 1, parts.value_rowids()
    )
    has_mask = tf.cast(~is_last, tf.int64)
    masks = tf.fill([tf.reduce_sum(has_mask)], tokens.mask_id)
    joined = tf.concat([ids.values, tf.RaggedTensor.from_row_lengths(masks, has_mask)], 1)
    flat = parts.with_flat_values(joined).merge_dims(1, 2)
    return engine.inputs(packing.pack(tokens, flat, None, engine.config.longest_sequence))
