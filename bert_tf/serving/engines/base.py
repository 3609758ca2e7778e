"""The interface of engines, which compute what stands between the halves of a program."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.tasks.signatures import Computation, Tensors
from pipelines.tokenizers.packing import MODEL_INPUTS

RESULTS = "result_{}"


class Sequences(NamedTuple):
    """Packed sequences, int32 [sequences, length] each; the fields are those of `MODEL_INPUTS`.

    Attributes:
      ids: of the tokens.
      mask: 1 for tokens, 0 for padding.
      types: the segments.
    """

    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray


# Results of sequences, whose first axis is theirs.
Compute = Callable[[Sequences], Sequence[np.ndarray]]


class ComputeEngine(abc.ABC):
    """Computes for a program.

    Attributes:
      dtype: what the computations that it loads must be in; None: what the export is in.
    """

    dtype: str | None = "float32"

    @abc.abstractmethod
    def load(self, name: str, computation: Computation) -> Compute:
        """What computes; several threads may call it at once.

        Args:
          name: of the computation, among those of the export.
          computation: of a model with its weights.

        Raises:
          InputError: this engine cannot compute it.
        """


def traced(
    computation: Computation,
    drop_padding: bool = False,
    compiled: bool = False,
) -> Any:
    """A computation as a concrete function of `MODEL_INPUTS`; it returns `RESULTS` by name.

    Args:
      computation: see there.
      drop_padding: whether tokens only are computed.
      compiled: whether by XLA, which compiles for each shape.
    """

    def function(**inputs: tf.Tensor) -> Tensors:
        with fused_ops.inference():
            found = computation.function(inputs, drop_padding)
        return {RESULTS.format(number): value for number, value in enumerate(found)}

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in MODEL_INPUTS}
    function_of = tf.function(function, autograph=False, jit_compile=compiled or None)
    return function_of.get_concrete_function(**specs)
