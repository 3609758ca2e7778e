"""A pre-trained model as a SavedModel that takes raw text.

Only tf.Variables are tracked by the exported object: what Keras 3 tracks
besides would load in Python and fail in C++.
"""

import tensorflow as tf

from bert_tf.objectives import PretrainingModel
from pipelines import files, tokenizer

MASK = "[MASK]"
_TOP_K = 5
_TEXT = tf.TensorSpec([None], tf.string, "text")
_IDS = {
    name: tf.TensorSpec([None, None], tf.int32, name)
    for name in ("input_word_ids", "input_mask", "input_type_ids")
}


class PretrainedModule(tf.Module):
    """The functions of a pre-trained model, for tf.saved_model.save.

    Args:
      model: in float32.
      tokens: its tokenizer.
    """

    def __init__(self, model: PretrainingModel, tokens: tokenizer.BertTokenizer):
        super().__init__(name="bert")
        self.weights = [variable.value for variable in model.variables]
        self.tokenizer = tokens
        self._model = lambda: model  # a function hides it: an attribute would be tracked
        self._max_length = model.config.max_position_embeddings
        self.tokens = tf.constant(tokens.vocabulary)

    @tf.function(input_signature=[_TEXT])
    def fill_mask(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Guesses each [MASK] of string [batch] texts.

        Returns:
          `tokens`, string, and `probabilities`, float32, both [batch, masks, 5],
          best first; texts with fewer masks than others have empty tokens and 0.
        """
        inputs = self._pack(text)
        model = self._model()
        is_mask = inputs["input_word_ids"] == self.tokenizer.mask_id
        rows = tf.boolean_mask(model.encoder(inputs)["sequence_output"], is_mask)
        top = tf.math.top_k(tf.nn.softmax(model.token_logits(rows)), _TOP_K)
        counts = tf.reduce_sum(tf.cast(is_mask, tf.int32), 1)
        tokens = tf.RaggedTensor.from_row_lengths(tf.gather(self.tokens, top.indices), counts)
        probabilities = tf.RaggedTensor.from_row_lengths(top.values, counts)
        shape = [None, None, _TOP_K]
        return {
            "tokens": tokens.to_tensor("", shape=shape),
            "probabilities": probabilities.to_tensor(0.0, shape=shape),
        }

    @tf.function(input_signature=[_TEXT])
    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Embeds string [batch] texts; float32 [batch, hidden_size] each.

        Returns:
          `mean_output`, the mean of the last layer over the tokens; and, of a
          model trained with next-sentence prediction, `pooled_output`.
        """
        return self._embeddings(self._pack(text))

    @tf.function(input_signature=[_IDS])
    def embed_ids(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """As `embed`, of int32 [batch, length] token ids, mask and segments."""
        return self._embeddings(inputs)

    def _embeddings(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        model = self._model()
        outputs = model.encoder(inputs)
        weights = tf.cast(inputs["input_mask"], tf.float32)[:, :, tf.newaxis]
        total = tf.reduce_sum(outputs["sequence_output"] * weights, 1)
        mean = tf.math.divide_no_nan(total, tf.reduce_sum(weights, 1))
        if model.next_sentence is None:  # the pooler was never trained
            return {"mean_output": mean}
        return {"pooled_output": outputs["pooled_output"], "mean_output": mean}

    def _pack(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """[CLS] text [SEP], cut to the longest sequence that the model takes."""
        parts = tf.strings.split(text, MASK)
        ids = parts.with_flat_values(self.tokenizer.tokenize(parts.flat_values))
        # Each part is followed by a [MASK], but the last one of a text by [SEP].
        is_last = tf.range(tf.size(parts.values, tf.int64)) == tf.gather(
            parts.row_limits() - 1, parts.value_rowids()
        )
        has_mask = tf.cast(~is_last, tf.int64)
        masks = tf.fill([tf.reduce_sum(has_mask)], self.tokenizer.mask_id)
        joined = tf.concat([ids.values, tf.RaggedTensor.from_row_lengths(masks, has_mask)], 1)
        flat = parts.with_flat_values(joined).merge_dims(1, 2)[:, : self._max_length - 2]
        ones = tf.ones([flat.nrows(), 1], tf.int32)
        packed = tf.concat([ones * self.tokenizer.cls_id, flat, ones * self.tokenizer.sep_id], 1)
        word_ids = packed.to_tensor(self.tokenizer.pad_id)
        mask = tf.ones_like(packed).to_tensor(0, shape=word_ids.shape)
        return {
            "input_word_ids": word_ids,
            "input_mask": mask,
            "input_type_ids": tf.zeros_like(word_ids),
        }


def export_pretrained(model: PretrainingModel, tokens: tokenizer.BertTokenizer, path: str) -> None:
    """Writes a SavedModel with the signatures `fill_mask`, `embed` and `embed_ids`.

    Args:
      model: of any precision; the export computes in float32.
      tokens: its tokenizer.
      path: the folder; it appears when whole.
    """
    copy = PretrainingModel(model.config, model.objective, dtype="float32")
    for target, source in zip(copy.variables, model.variables, strict=True):
        target.assign(source)
    module = PretrainedModule(copy, tokens)
    partial = f"{path}.partial"
    files.remove_tree(partial)
    signatures = {"embed": module.embed, "embed_ids": module.embed_ids}
    if not model.encoder.causal:
        signatures |= {"fill_mask": module.fill_mask}
    default = signatures.get("fill_mask", module.embed)
    tf.saved_model.save(module, partial, signatures | {"serving_default": default})
    files.remove_tree(path)
    files.gfile.rename(partial, path)
