"""Signatures of exported models: preprocessing, a computation, and postprocessing.

All three run inside the exported graph, so they use only ops that the oldest supported server has,
take batches and lengths of any size, and have int32, float32 and strings at their borders.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf

from bert_tf.models import orders
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.heads import DenseSentenceHead, SentenceHead, TaskHead, VocabularyHead
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS, Packed

# Tokens computed at once, padding included: it bounds the memory of a request.
_TOKENS_AT_ONCE = 8192

# A text that is present and has no tokens.
EMPTY_TEXT = "\u200b"
TRANSITIONS = "transitions"  # of a CRF, among the tensors of a batch and the outputs of a head

Tensors = dict[str, tf.Tensor]
Arrays = Mapping[str, np.ndarray]


class Method(enum.StrEnum):
    """TensorFlow Serving's interface that a signature is made for."""

    PREDICT = "tensorflow/serving/predict"
    CLASSIFY = "tensorflow/serving/classify"
    REGRESS = "tensorflow/serving/regress"


class Prepared(NamedTuple):
    """Result of preprocessing.

    Attributes:
      sequences: `MODEL_INPUTS`, int32 [sequences, length] each.
      state: tensors that postprocessing needs besides the results.
    """

    sequences: Tensors
    state: Tensors


@dataclasses.dataclass(frozen=True)
class Computation:
    """The expensive part of a signature, which any engine may run.

    Attributes:
      name: identifies it among the computations of a model with its head.
      outputs: specifications of the results. The first axis is that of the sequences; an open
        second axis is that of the tokens.
      function: maps `MODEL_INPUTS`, int32 [sequences, length] each, and whether to skip padding
        (faster for mixed lengths) to the results. Results at padding are undefined.
      portable: whether runtimes other than TensorFlow can run it. If not, it is one loop, which
        skips no padding.
      row_tokens: from the length of sequences to the number of tokens in memory for each.
    """

    name: str
    outputs: tuple[tf.TensorSpec, ...]
    function: Callable[[Tensors, bool], Sequence[tf.Tensor]]
    portable: bool = True
    row_tokens: Callable[[Any], Any] = lambda length: length

    def rows_at_once(self, length: int) -> int:
        """How many sequences of a length one chunk has."""
        return max(1, _TOKENS_AT_ONCE // max(1, self.row_tokens(length)))

    def in_chunks(self, inputs: Tensors) -> Sequence[tf.Tensor]:
        """Computes a few sequences at a time.

        A request may have thousands of sequences, and one text thousands of windows; memory stays
        that of one chunk.
        """
        count, length = tf.unstack(tf.shape(inputs["input_word_ids"]))
        at_once = tf.maximum(_TOKENS_AT_ONCE // tf.maximum(self.row_tokens(length), 1), 1)

        def step(first: tf.Tensor, *done: tf.Tensor) -> tuple[tf.Tensor, ...]:
            rows = {name: x[first : first + at_once] for name, x in inputs.items()}
            # Without padding there is nothing to skip, and looking for it takes time.
            parts = (
                tf.cond(
                    tf.reduce_all(rows["input_mask"] > 0),
                    lambda: self.function(rows, False),
                    lambda: self.function(rows, True),
                )
                if self.portable
                else self.function(rows, False)
            )
            joined = [tf.concat(pair, 0) for pair in zip(done, parts, strict=True)]
            return first + at_once, *joined

        shapes = (spec.shape.as_list()[1:] for spec in self.outputs)
        empty = [
            tf.zeros([0, *(length if size is None else size for size in shape)], spec.dtype)
            for shape, spec in zip(shapes, self.outputs, strict=True)
        ]
        _, *found = tf.while_loop(
            lambda first, *_: first < count,
            step,
            [tf.constant(0), *empty],
            shape_invariants=[tf.TensorShape([]), *(spec.shape for spec in self.outputs)],
            parallel_iterations=1,
        )
        return found


@dataclasses.dataclass(frozen=True)
class PlainTexts:
    """Inputs of a signature that become one sequence a row, and need no state.

    Short ASCII texts are then tokenized without TensorFlow, whose two hundred small operations take
    longer than the model.

    Attributes:
      names: the text input, or the two of a pair.
      max_seq_length: tokens of a sequence.
      prefix: begins each text.
    """

    names: tuple[str, ...]
    max_seq_length: int
    prefix: str = ""


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function of the exported model: postprocess(computation(preprocess(inputs))).

    Attributes:
      name: of the signature.
      inputs: their specifications by name; the first axis of each is the batch.
      sample: a small valid request, for warm-up.
      preprocess: maps inputs by name to sequences and state.
      computation: maps sequences to results.
      postprocess: maps results and state to outputs by name. With `plain` it also takes NumPy
        arrays.
      method: TensorFlow Serving's interface.
      plain: how texts reach the sequences, where no graph is needed for that.
      stream: from a text to parts of the only output, a text; None: it comes at once.
      sequence_axes: leading axes of the inputs that count sequences: 2 for several in a row.
    """

    name: str
    inputs: Mapping[str, tf.TensorSpec]
    sample: Mapping[str, Any]
    preprocess: Callable[[Tensors], Prepared]
    computation: Computation
    postprocess: Callable[[Sequence[Any], Tensors], Tensors]
    method: Method = Method.PREDICT
    plain: PlainTexts | None = None
    stream: Callable[[str | bytes], Iterator[str]] | None = None
    sequence_axes: int = 1


class ServedModel:
    """A tokenizer, an encoder and perhaps a head, as signatures use them.

    Args:
      tokenizer: for the encoder's vocabulary.
      encoder: may be shared by several models.
      head: maps the encoder's outputs to float32 logits; None for a model without a task.
      portable: for runtimes other than TensorFlow: plain ops only, inputs are not checked, and
        padding is computed like the rest.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        encoder: Encoder,
        head: TaskHead | VocabularyHead | SentenceHead | DenseSentenceHead | None = None,
        portable: bool = False,
    ):
        self.tokenizer = tokenizer
        self.encoder = encoder
        self.config = encoder.config
        self.portable = portable
        self.head = head

    @property
    def logits(self) -> Computation:
        """The head's logits, float32 [sequences, units]; per token [sequences, length, units].

        With a CRF also its transitions, [sequences, units + 1, units + 1].
        """
        head = self.head
        assert head is not None  # there is a task

        def compute(rows: Tensors, skip_padding: bool) -> list[tf.Tensor]:
            rows = orders.both(rows) if head.both_orders else rows
            if head.reads_pooled:
                logits = head({"pooled_output": self.encoder.pooled(rows, skip_padding)})
            else:
                logits = head(self.outputs(rows, skip_padding))
            if head.transitions is None:
                return [orders.added(logits) if head.both_orders else logits]
            # A copy for each sequence, as the first axis of all results is that of the sequences.
            table = tf.convert_to_tensor(head.transitions)[tf.newaxis]
            return [logits, tf.tile(table, [tf.shape(logits)[0], 1, 1])]

        shape = [None, None, head.units] if head.per_token else [None, head.units]
        outputs = [tf.TensorSpec(shape, tf.float32, "logits")]
        if head.transitions is not None:
            table_shape = [None, head.units + 1, head.units + 1]
            outputs.append(tf.TensorSpec(table_shape, tf.float32, TRANSITIONS))
        orders_read = 2 if head.both_orders else 1
        return Computation(
            "logits", tuple(outputs), compute, row_tokens=lambda length: orders_read * length
        )

    def outputs(self, inputs: Tensors, skip_padding: bool) -> dict[str, Any]:
        """The encoder's outputs; undefined at padding."""
        return self.encoder(inputs, drop_padding=skip_padding)

    def padded(self, packed: Packed) -> Tensors:
        """Encoder inputs of packed sequences, padded to the longest."""
        return packing.padded(self.tokenizer, packed)

    def ids_specs(self, rank: int = 2) -> dict[str, tf.TensorSpec]:
        """Inputs of a signature that takes token ids."""
        return {name: tf.TensorSpec([None] * rank, tf.int32, name) for name in MODEL_INPUTS}

    def ids_sample(self, pair: bool = False, rank: int = 2) -> dict[str, np.ndarray]:
        """A request to a signature that takes token ids."""
        tokens = self.tokenizer
        start, unknown, separator = tokens.start_id, tokens.unknown_id, tokens.separator_id
        ids = [start, unknown, separator, unknown, separator]
        types = [0, 0, 0, 1, 1] if pair else [0] * 5
        rows = zip(MODEL_INPUTS, (ids, [1] * 5, types), strict=True)
        return {name: np.array(row, np.int32).reshape([1] * (rank - 1) + [5]) for name, row in rows}

    def checked(self, inputs: Tensors) -> Tensors:
        """Encoder inputs from outside.

        Raises (in the graph):
          InvalidArgumentError: ids or segments are out of range, shapes differ, or sequences have
            no token or too many.
        """
        if self.portable:
            return inputs
        ids, mask, types = (inputs[name] for name in MODEL_INPUTS)
        config, shape = self.config, tf.shape(ids)
        conditions = [
            (
                tf.reduce_all((ids >= 0) & (ids < config.vocab_size)),
                f"input_word_ids must be from 0 to {config.vocab_size - 1}.",
            ),
            (tf.reduce_all((mask == 0) | (mask == 1)), "input_mask must be 0 or 1."),
            (
                tf.reduce_all(tf.shape(mask) == shape) & tf.reduce_all(tf.shape(types) == shape),
                "input_word_ids, input_mask and input_type_ids must have one shape.",
            ),
            (
                (shape[-1] > 0) & (shape[-1] <= config.max_seq_length),
                f"sequences must have from 1 to {config.max_seq_length} tokens.",
            ),
        ]
        if mask.shape.rank == 2:  # of choices, a sequence without a token is none
            has_token = tf.reduce_all(tf.reduce_any(mask == 1, -1))
            conditions.append((has_token, "input_mask must be 1 for a token of each sequence."))
        if config.type_vocab_size:  # without a table of segments, any type will do
            known = tf.reduce_all((types >= 0) & (types < config.type_vocab_size))
            message = f"input_type_ids must be from 0 to {config.type_vocab_size - 1}."
            conditions.insert(1, (known, message))
        checks = [tf.debugging.Assert(met, [message]) for met, message in conditions]
        with tf.control_dependencies(checks):
            return {name: tf.identity(inputs[name]) for name in MODEL_INPUTS}

    def ids_signature(
        self, name: str, postprocess: Callable[[Sequence[Any], Tensors], Tensors], pair: bool
    ) -> Signature:
        """`<name>_ids`, which takes token ids, of which the head computes logits.

        Args:
          name: name of the task.
          postprocess: as in `Signature`.
          pair: whether the sample has two segments.
        """
        return Signature(
            f"{name}_ids",
            self.ids_specs(),
            self.ids_sample(pair),
            lambda inputs: Prepared(self.checked(inputs), {}),
            self.logits,
            postprocess,
        )


def softmax(logits: Any) -> Any:
    """Softmax over the last axis of a tensor or an array."""
    if isinstance(logits, np.ndarray):
        return scipy.special.softmax(logits, -1)
    return tf.nn.softmax(logits)


def sigmoid(logits: Any) -> Any:
    """Logistic function of a tensor or an array."""
    if isinstance(logits, np.ndarray):
        return scipy.special.expit(logits)
    return tf.sigmoid(logits)


def normalized(vectors: Any) -> Any:
    """Vectors divided by their length, of a tensor or an array."""
    if isinstance(vectors, np.ndarray):
        return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return tf.math.l2_normalize(vectors, -1)


def above(names: Sequence[str], scores: Any, thresholds: np.ndarray) -> Any:
    """The names whose scores reach their thresholds, of a tensor or an array [batch, names].

    Returns:
      Strings [batch, most]; rows with fewer names end with empty ones.
    """
    if isinstance(scores, np.ndarray):
        encoded = np.array([name.encode() for name in names], object)
        rows = [encoded[row] for row in scores >= thresholds]
        found = np.full((len(rows), max(map(len, rows), default=0)), b"", object)
        for row, chosen in zip(found, rows, strict=True):
            row[: len(chosen)] = chosen
        return found
    everywhere = tf.broadcast_to(tf.constant(list(names)), tf.shape(scores))
    return tf.ragged.boolean_mask(everywhere, scores >= tf.constant(thresholds)).to_tensor("")


def best(names: Sequence[str], scores: Any) -> Any:
    """The name of the highest score along the last axis, of a tensor or an array."""
    if isinstance(scores, np.ndarray):
        return np.array([name.encode() for name in names], object)[scores.argmax(-1)]
    return tf.gather(tf.constant(list(names)), tf.argmax(scores, -1))


def text_specs(*names: str) -> dict[str, tf.TensorSpec]:
    """Inputs of one text a row."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def same_batch(inputs: Tensors) -> Tensors:
    """Inputs of one batch size.

    Raises (in the graph):
      InvalidArgumentError: their sizes differ.
    """
    sizes = [tf.shape(value)[0] for value in inputs.values()]
    message = f"{' and '.join(inputs)} must have the same batch size."
    check = tf.debugging.Assert(tf.reduce_all(tf.stack(sizes) == sizes[0]), [message])
    with tf.control_dependencies([check]):
        return {name: tf.identity(value) for name, value in inputs.items()}


def parse(serialized: tf.Tensor, *names: str) -> Tensors:
    """String features of serialized tf.Examples [batch]."""
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
    return tf.io.parse_example(serialized, features)


def example_sample(**texts: str) -> dict[str, list[bytes]]:
    """A request of one serialized tf.Example."""
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in texts.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return {"inputs": [example.SerializeToString()]}


EXAMPLES = {"inputs": tf.TensorSpec([None], tf.string, "inputs")}
