"""What signatures are made of, and what all of them share.

Everything here runs inside the exported graph: only ops that the oldest
supported server has, int32, float32 and strings at the borders, batches and
lengths of any size.
"""

import abc
import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow as tf

from bert_tf.models.base_encoder import Encoder
from bert_tf.models.task_head import TaskHead
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS, Packed

# Tokens that are computed at once, padding included: what bounds the memory of a request.
_TOKENS_AT_ONCE = 8192

# A text that is there and has no tokens.
NOTHING = "\u200b"

Tensors = dict[str, tf.Tensor]
ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")


class Method(enum.StrEnum):
    """Which of TF Serving's interfaces a signature is made for."""

    PREDICT = "tensorflow/serving/predict"
    CLASSIFY = "tensorflow/serving/classify"
    REGRESS = "tensorflow/serving/regress"


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function of the exported model.

    Attributes:
      name: of the signature.
      inputs: their specifications by name; all have the batch as first axis.
      function: computes the outputs from the inputs by name.
      sample: a small valid request, for warm-up.
      method: TF Serving's interface.
    """

    name: str
    inputs: Mapping[str, tf.TensorSpec]
    function: Callable[[Tensors], Tensors]
    sample: Mapping[str, Any]
    method: Method = Method.PREDICT


@dataclasses.dataclass(frozen=True)
class Computation:
    """What a signature does with sequences, between tokenizer and answer: what takes the time.

    Attributes:
      name: of it; computations of one model and head that have one name are the same.
      outputs: the specifications of its results; the first axis is that of the sequences. A second
        axis that is open is that of the tokens.
      function: of encoder inputs, int32 [sequences, length] each, and of whether tokens only are
        computed, which is faster where lengths are mixed. Results at padding mean nothing.
    """

    name: str
    outputs: tuple[tf.TensorSpec, ...]
    function: Callable[[Tensors, bool], Sequence[tf.Tensor]]

    def nothing(self, length: tf.Tensor) -> list[tf.Tensor]:
        """The results for no sequence, of this length."""
        shapes = (spec.shape.as_list()[1:] for spec in self.outputs)
        return [
            tf.zeros([0, *(length if size is None else size for size in shape)], spec.dtype)
            for shape, spec in zip(shapes, self.outputs, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class Direct:
    """A signature of texts as one sequence each, without its graph, whose operations take long.

    Attributes:
      names: of the inputs: of a text, or of the two of a pair.
      max_length: tokens of a sequence.
      finish: the signature's outputs, of the results of its computation.
      taboo: texts that have it need the graph; "": there is none.
    """

    names: tuple[str, ...]
    max_length: int
    finish: Callable[[Sequence[np.ndarray]], dict[str, np.ndarray]]
    taboo: str = ""


class Serving(abc.ABC, Generic[ExampleT, PredictionT]):
    """How the exported model does a task: signatures, and requests for labelled examples."""

    @abc.abstractmethod
    def signatures(self, engine: "Engine") -> list[Signature]:
        """The signatures; the first one takes raw text and has the task's name."""

    def direct(self) -> dict[str, Direct]:
        """Those of the signatures that can do without their graphs, by name."""
        return {}

    @property
    @abc.abstractmethod
    def request_signature(self) -> str:
        """The signature that `requests` are for and `predictions` are of."""

    @abc.abstractmethod
    def requests(self, examples: Sequence[ExampleT]) -> dict[str, Any]:
        """Inputs for a batch of examples, lists of str by name."""

    @abc.abstractmethod
    def predictions(
        self, examples: Sequence[ExampleT], outputs: Mapping[str, np.ndarray]
    ) -> list[PredictionT]:
        """Outputs as the task's predictions."""


class Engine:
    """A head on its encoder, as signatures use it.

    Args:
      tokenizer: of the encoder's vocabulary.
      encoder: which may be shared by several engines.
      head: maps the encoder's outputs to float32 logits; None: there is no task.
      portable: for other runtimes than TensorFlow: plain ops only, inputs are
        not checked and padding is computed like the rest.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        encoder: Encoder,
        head: TaskHead | None = None,
        portable: bool = False,
    ):
        self.tokenizer = tokenizer
        self.config = encoder.config
        self.dtype = encoder.compute_dtype
        self._encoder = encoder
        self._head = head
        self.portable = portable
        self._traced: dict[str, Callable[[Tensors], Sequence[tf.Tensor]]] = {}

    def outputs(self, inputs: Tensors, drop_padding: bool) -> dict[str, Any]:
        """The encoder's outputs; those at padding mean nothing."""
        return self._encoder(inputs, drop_padding=drop_padding)

    def logits(self, inputs: Tensors) -> tf.Tensor:
        """The head's logits, float32 [sequences, units]; of tokens [sequences, length, units]."""
        (logits,) = self.compute(self.logits_computation(), inputs)
        return logits

    def logits_computation(self) -> Computation:
        """What computes the head's logits."""
        head = self._head
        assert head is not None  # there is a task
        shape = [None, None, head.units] if head.per_token else [None, head.units]
        return Computation(
            "logits",
            (tf.TensorSpec(shape, tf.float32, "logits"),),
            lambda rows, drop_padding: [head(self._read(head, rows, drop_padding))],
        )

    def _read(self, head: TaskHead, rows: Tensors, drop_padding: bool) -> dict[str, Any]:
        """The outputs that a head reads, and those that are computed with them."""
        if head.reads_pooled:
            return {"pooled_output": self._encoder.pooled(rows, drop_padding)}
        return self.outputs(rows, drop_padding)

    def compute(self, computation: Computation, inputs: Tensors) -> Sequence[tf.Tensor]:
        """Computes what takes the time, a few sequences after the others.

        A request may have thousands of sequences, or one text thousands of
        windows: the memory that is taken is that of a few. Signatures that compute the same have
        one function for it.

        Args:
          computation: see there.
          inputs: of all sequences.
        """
        if self.portable:
            return computation.function(inputs, False)
        if computation.name not in self._traced:
            function = functools.partial(_in_parts, computation)
            traced = tf.function(function, [self.ids_specs()], autograph=False)
            self._traced[computation.name] = traced
        return self._traced[computation.name](inputs)

    def inputs(self, packed: Packed) -> Tensors:
        """Padded encoder inputs of packed sequences; the length is that of the longest."""
        return packing.padded(self.tokenizer, packed)

    def ids_specs(self, rank: int = 2) -> dict[str, tf.TensorSpec]:
        """The inputs of a signature that takes token ids."""
        return {name: tf.TensorSpec([None] * rank, tf.int32, name) for name in MODEL_INPUTS}

    def ids_sample(self, pair: bool = False, rank: int = 2) -> dict[str, np.ndarray]:
        """A request of a signature that takes token ids."""
        tokens = self.tokenizer
        start, unknown, separator = tokens.start_id, tokens.unknown_id, tokens.separator_id
        ids = [start, unknown, separator, unknown, separator]
        types = [0, 0, 0, 1, 1] if pair else [0] * 5
        rows = zip(MODEL_INPUTS, (ids, [1] * 5, types), strict=True)
        return {name: np.array(row, np.int32).reshape([1] * (rank - 1) + [5]) for name, row in rows}

    def checked(self, inputs: Tensors) -> Tensors:
        """Encoder inputs that came from outside.

        Raises (in the graph):
          InvalidArgumentError: ids or segments out of range, unequal shapes, or
            sequences of no token or of too many.
        """
        if self.portable:
            return inputs
        ids, mask, types = (inputs[name] for name in MODEL_INPUTS)
        config = self.config
        shape = tf.shape(ids)
        longest = config.max_length
        known_types = tf.constant(True)  # whatever they are, where there is no table of them
        if config.type_vocab_size:
            known_types = tf.reduce_all((types >= 0) & (types < config.type_vocab_size))
        checks = [
            tf.debugging.Assert(ok, [message])
            for ok, message in (
                (
                    tf.reduce_all((ids >= 0) & (ids < config.vocab_size)),
                    f"input_word_ids must be from 0 to {config.vocab_size - 1}.",
                ),
                (
                    known_types,
                    f"input_type_ids must be from 0 to {config.type_vocab_size - 1}.",
                ),
                (tf.reduce_all((mask == 0) | (mask == 1)), "input_mask must be 0 or 1."),
                (
                    tf.reduce_all(tf.shape(mask) == shape)
                    & tf.reduce_all(tf.shape(types) == shape),
                    "input_word_ids, input_mask and input_type_ids must have one shape.",
                ),
                (
                    (shape[-1] > 0) & (shape[-1] <= longest),
                    f"sequences must have from 1 to {longest} tokens.",
                ),
            )
        ]
        with tf.control_dependencies(checks):
            return {name: tf.identity(inputs[name]) for name in MODEL_INPUTS}


def _in_parts(computation: Computation, inputs: Tensors) -> Sequence[tf.Tensor]:
    """The results of a computation, a few sequences after the others."""
    function = computation.function
    count, length = tf.unstack(tf.shape(inputs["input_word_ids"]))
    at_once = tf.maximum(_TOKENS_AT_ONCE // tf.maximum(length, 1), 1)

    def step(first: tf.Tensor, *done: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows = {name: x[first : first + at_once] for name, x in inputs.items()}
        # Without padding there is nothing to drop, and looking for it costs time.
        parts = tf.cond(
            tf.reduce_all(rows["input_mask"] > 0),
            lambda: function(rows, False),
            lambda: function(rows, True),
        )
        joined = [tf.concat(pair, 0) for pair in zip(done, parts, strict=True)]
        return first + at_once, *joined

    _, *found = tf.while_loop(
        lambda first, *_: first < count,
        step,
        [tf.constant(0), *computation.nothing(length)],
        shape_invariants=[tf.TensorShape([]), *(spec.shape for spec in computation.outputs)],
        parallel_iterations=1,
    )
    return found


def text_specs(*names: str) -> dict[str, tf.TensorSpec]:
    """Inputs of one text for each row."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def same_batch(inputs: Tensors) -> Tensors:
    """Inputs that have one batch size.

    Raises (in the graph):
      InvalidArgumentError: they have not.
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
