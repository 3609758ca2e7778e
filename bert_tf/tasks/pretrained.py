"""Pre-trained models: guesses for masked words, and embeddings."""

import functools
import re
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.models.layers import pooling
from bert_tf.tasks import signatures
from bert_tf.tasks.signatures import Computation, Direct, Engine, Signature, Tensors
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
        found = []
        for name, computation in self.computations(engine).items():
            answer = self._guesses if name == "fill_mask" else _results
            if name != "fill_mask" or not engine.portable:
                found += self._of_text_and_ids(engine, computation, answer)
        return found

    def computations(self, engine: Engine) -> dict[str, Computation]:
        """What the signatures compute, by their names."""
        found = [self._embed(engine), self._embed_layers(engine)]
        if self._token_logits:
            found.insert(0, self._fill_mask(engine, self._token_logits))
        return {computation.name: computation for computation in found}

    def direct(self, engine: Engine) -> dict[str, Direct]:
        """The signatures of raw text that can do without their graphs, by name."""
        longest, mask = engine.config.max_length, engine.tokenizer.mask_token
        return {
            name: Direct(("text",), longest, functools.partial(_named, computation), mask)
            for name, computation in self.computations(engine).items()
            if name != "fill_mask"
        }

    def _of_text_and_ids(
        self,
        engine: Engine,
        computation: Computation,
        answer: Callable[[Engine, Computation, Tensors], Tensors],
    ) -> list[Signature]:
        name = computation.name
        return [
            Signature(
                name,
                signatures.text_specs("text"),
                lambda inputs: answer(engine, computation, _pack(engine, inputs["text"])),
                {"text": [f"A sentence to {engine.tokenizer.mask_token} up with."]},
            ),
            Signature(
                f"{name}_ids",
                engine.ids_specs(),
                lambda inputs: answer(engine, computation, engine.checked(inputs)),
                engine.ids_sample(),
            ),
        ]

    def _fill_mask(
        self, engine: Engine, token_logits: Callable[[tf.Tensor], tf.Tensor]
    ) -> Computation:
        """The best tokens at each mask and their probabilities, [sequences, length, 5] each.

        They are 0 where there is no mask.
        """
        tokens = len(engine.tokenizer.vocabulary.tokens)

        def guess(rows: Tensors, drop_padding: bool) -> list[tf.Tensor]:
            ids = rows["input_word_ids"]
            place = tf.where(ids == engine.tokenizer.mask_id)
            outputs = engine.outputs(rows, drop_padding)
            masked = tf.gather_nd(outputs["sequence_output"], place)
            # The table may have more rows than the vocabulary has tokens.
            top = tf.math.top_k(tf.nn.softmax(token_logits(masked)[:, :tokens]), _TOP_K)
            shape = tf.concat([tf.shape(ids, tf.int64), [_TOP_K]], 0)
            return [tf.scatter_nd(place, values, shape) for values in (top.indices, top.values)]

        shape = [None, None, _TOP_K]
        results = (tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.float32))
        return Computation("fill_mask", results, guess)

    def _guesses(self, engine: Engine, computation: Computation, inputs: Tensors) -> Tensors:
        """Guesses for each mask of a text.

        Returns:
          `tokens`, string, and `probabilities`, float32, both [batch, masks, 5],
          best first; texts with fewer masks than others have empty tokens and 0.
        """
        masked = inputs["input_word_ids"] == engine.tokenizer.mask_id
        counts = tf.reduce_sum(tf.cast(masked, tf.int32), 1)
        found = engine.compute(computation, inputs)
        indices, shares = (tf.boolean_mask(values, masked) for values in found)
        vocabulary = engine.tokenizer.vocabulary
        shown = [vocabulary.plain([token]) for token in vocabulary.tokens]

        def padded(values: tf.Tensor, default: str | float) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_row_lengths(values, counts)
            return ragged.to_tensor(default, shape=[None, None, _TOP_K])

        guessed = tf.gather(tf.constant(shown), indices)
        return {"tokens": padded(guessed, ""), "probabilities": padded(shares, 0.0)}

    def _embed(self, engine: Engine) -> Computation:
        """Embeddings of texts, float32 [batch, hidden_size] each.

        Their names are `mean_output`, the mean of the last layer over the tokens; and, of a
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

        shape = [None, engine.config.hidden_size]
        return Computation(
            "embed", tuple(tf.TensorSpec(shape, tf.float32, name) for name in names), embed
        )

    def _embed_layers(self, engine: Engine) -> Computation:
        """`layers`, the mean of each layer over the tokens, float32 [batch, layers, hidden_size].

        With these a text is embedded by a layer of choice: the feature-based
        approach (paper, section 5.3).
        """

        def embed(rows: Tensors, drop_padding: bool) -> list[tf.Tensor]:
            layers = engine.outputs(rows, drop_padding)["encoder_outputs"]
            return [tf.stack([pooling.mean(x, rows["input_mask"]) for x in layers], 1)]

        shape = [None, engine.config.num_hidden_layers, engine.config.hidden_size]
        return Computation("embed_layers", (tf.TensorSpec(shape, tf.float32, "layers"),), embed)


def _results(engine: Engine, computation: Computation, inputs: Tensors) -> Tensors:
    """What is computed, by its names."""
    names = [spec.name for spec in computation.outputs]
    return dict(zip(names, engine.compute(computation, inputs), strict=True))


def _named(computation: Computation, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip((spec.name for spec in computation.outputs), results, strict=True))


def _pack(engine: Engine, text: tf.Tensor) -> Tensors:
    """A text as one segment, cut to the longest sequence that the model takes; with its masks."""
    tokens = engine.tokenizer
    if tokens.vocabulary.mask_takes_space:
        mask = tokens.mask_token
        text = tf.strings.regex_replace(text, rf"\s+{re.escape(mask)}", mask)
    parts = tf.strings.split(text, tokens.mask_token)
    ids = parts.with_flat_values(tokens.functions.tokenize(parts.flat_values))
    # Each part is followed by a mask, but the last one of a text by the separator.
    is_last = tf.range(tf.size(parts.values, tf.int64)) == tf.gather(
        parts.row_limits() - 1, parts.value_rowids()
    )
    has_mask = tf.cast(~is_last, tf.int64)
    masks = tf.fill([tf.reduce_sum(has_mask)], tokens.mask_id)
    joined = tf.concat([ids.values, tf.RaggedTensor.from_row_lengths(masks, has_mask)], 1)
    flat = parts.with_flat_values(joined).merge_dims(1, 2)
    return engine.inputs(packing.pack(tokens, flat, None, engine.config.max_length))
