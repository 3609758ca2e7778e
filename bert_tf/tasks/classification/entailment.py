"""Labels that a request names, chosen by a model of textual entailment.

A text is paired with a hypothesis for each label, "This example is {label}." The answer is the
label whose hypothesis is entailed most (Yin et al. 2019, arXiv 1909.00161, section 5). A label that
is a sentence is its own hypothesis, so any language and any statement will do.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.tasks import sequences, signatures
from bert_tf.tasks.signatures import Prepared, ServedModel, Signature, Tensors
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import Packed

SUFFIX = "_zero_shot"  # of the name of the signature
_SENTENCE = r"(?s).*[.!?。！？।؟]\s*"


def numbers(labels: Sequence[str]) -> tuple[int, int] | None:
    """The numbers of "entailment" and of its opposite among labels; None: they have none."""
    names = [label.lower().replace("_", " ") for label in labels]
    opposite = next((x for x in ("contradiction", "not entailment") if x in names), None)
    if opposite is None or "entailment" not in names:
        return None
    return names.index("entailment"), names.index(opposite)


def pack(
    tokenizer: Tokenizer, texts: tf.Tensor, labels: tf.Tensor, max_seq_length: int
) -> tuple[Packed, tf.Tensor]:
    """Pairs each text with the hypotheses of its labels.

    Args:
      tokenizer: that of the model.
      texts: string [batch].
      labels: string [batch, labels].
      max_seq_length: maximum number of tokens in a sequence; texts are cut.

    Returns:
      The sequences [batch * labels], and how many of them are cut, an int32 scalar.
    """
    tokenize, flat = tokenizer.functions.tokenize, tf.reshape(labels, [-1])
    is_sentence = tf.strings.regex_full_match(flat, _SENTENCE)
    second = tokenize(tf.where(is_sentence, flat, tf.strings.join(["This example is ", flat, "."])))
    rows = tf.repeat(tf.range(tf.shape(labels)[0]), tf.shape(labels)[1])
    first = tf.gather(tokenize(texts)[:, :max_seq_length], rows)  # cut before it is repeated
    sizes = first.row_lengths() + second.row_lengths() + tokenizer.overhead[1]
    packed = packing.pack(tokenizer, first, second, max_seq_length)
    return packed, tf.reduce_sum(tf.cast(sizes > max_seq_length, tf.int32))


def signature(name: str, yes: int, no: int, max_seq_length: int, model: ServedModel) -> Signature:
    """`<name>_zero_shot`, from `text` [batch] and `labels` [batch, labels] to the best label.

    Empty labels fill up rows that have fewer. `probabilities` [batch, labels] compare the labels
    with each other; `entailment` [batch, labels] is the probability of each on its own.

    Args:
      name: name of the task.
      yes: number of the logit of entailment.
      no: number of that of its opposite; neutrality is left out.
      max_seq_length: maximum number of tokens in a sequence.
      model: a model with a head of these logits.
    """

    def preprocess(inputs: Tensors) -> Prepared:
        inputs = signatures.same_batch(inputs)
        labels = inputs["labels"]
        labels = sequences.some_present(model, labels, labels != "", "label")
        packed, _ = pack(model.tokenizer, inputs["text"], labels, max_seq_length)
        return Prepared(model.padded(packed), {"labels": labels})

    def postprocess(results: Sequence[Any], state: Tensors) -> Tensors:
        labels = state["labels"]
        shape = tf.concat([tf.shape(labels), [-1]], 0)
        logits = tf.gather(tf.reshape(results[0], shape), [yes, no], axis=-1)
        best, entailed = sequences.best_present(logits[..., 0], labels != "")
        return {
            "label": tf.gather(labels, best, batch_dims=1),
            "probabilities": tf.nn.softmax(entailed),
            "entailment": tf.where(labels != "", tf.nn.softmax(logits)[..., 0], 0.0),
        }

    return Signature(
        f"{name}{SUFFIX}",
        signatures.text_specs("text")
        | {"labels": tf.TensorSpec([None, None], tf.string, "labels")},
        {"text": ["The match ended in a draw."], "labels": [["sports", "politics"]]},
        preprocess,
        model.logits,
        postprocess,
        sequence_axes=2,
    )
