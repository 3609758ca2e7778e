"""The interface of engines, which run the computations of an export."""

import abc
import contextlib
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.tasks.signatures import Computation, Tensors
from pipelines.tokenizers.packing import MODEL_INPUTS

RESULTS = "result_{}"
ItemT = TypeVar("ItemT")


class Batch(NamedTuple):
    """Padded sequences, int32 [sequences, length] each, in the order of `MODEL_INPUTS`."""

    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray


# Results of a batch; the first axis of each is that of the sequences.
Compute = Callable[[Batch], Sequence[np.ndarray]]


class Engine(abc.ABC):
    """Runs computations.

    Attributes:
      dtype: that models must have to be loaded; None: that of the export.
    """

    dtype: str | None = "float32"

    @abc.abstractmethod
    def load(self, name: str, computation: Computation) -> Compute:
        """Makes a computation ready; several threads may call the result at once.

        Args:
          name: identifies the computation within the export.
          computation: of a model with its weights.

        Raises:
          InputError: this engine cannot run it.
        """


class Pool(Generic[ItemT]):
    """Objects for one thread at a time; a new one is made when all are in use."""

    def __init__(self, make: Callable[[], ItemT]):
        self._make = make
        self._free: queue.SimpleQueue[ItemT] = queue.SimpleQueue()

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[ItemT]:
        """An object that no other thread uses meanwhile."""
        try:
            item = self._free.get_nowait()
        except queue.Empty:
            item = self._make()
        try:
            yield item
        finally:
            self._free.put(item)


def traced(computation: Computation, skip_padding: bool = False) -> Any:
    """A computation as a concrete function of `MODEL_INPUTS`; it returns `RESULTS` by name."""

    def function(**inputs: tf.Tensor) -> Tensors:
        with fused_ops.inference():
            found = computation.function(inputs, skip_padding)
        return {RESULTS.format(number): value for number, value in enumerate(found)}

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in MODEL_INPUTS}
    return tf.function(function, autograph=False).get_concrete_function(**specs)


def result_names(computation: Computation) -> list[str]:
    """The names of the results of `traced`."""
    return [RESULTS.format(number) for number in range(len(computation.outputs))]
