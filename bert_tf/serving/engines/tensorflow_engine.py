"""TensorFlow computes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines.base import RESULTS, Compute, ComputeEngine, Sequences, traced
from bert_tf.serving.engines.plans import Lane
from bert_tf.tasks.signatures import Computation
from pipelines.common.threads import cores, mapped
from pipelines.tokenizers.packing import MODEL_INPUTS

# Sequences are padded to as many times their length; the first length may be far from 1.
_PADDED = 4


class TensorFlowEngine(ComputeEngine):
    """TensorFlow in this process, whose threads are its pool's.

    Args:
      lane: its parts and lengths. Single sequences of up to these lengths are padded to them and
        computed by XLA, which compiles for each: a second or more when a computation is loaded.
    """

    dtype = None

    def __init__(self, lane: Lane):
        self._lengths = lane.lengths

    def load(self, name: str, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        whole, dropping = (traced(computation, drop_padding=drop) for drop in (False, True))
        results = [RESULTS.format(number) for number in range(len(computation.outputs))]

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            function = whole if sequences.mask.all() else dropping
            return _run(function, sequences, results)

        found: Compute = compute
        if self._lengths:
            found = self._with_compiled(found, computation, results)
        return found

    def _with_compiled(
        self, compute: Compute, computation: Computation, results: Sequence[str]
    ) -> Compute:
        compiled = traced(computation, compiled=True)

        def compiled_or_not(sequences: Sequences) -> Sequence[np.ndarray]:
            rows, length = sequences.ids.shape
            padded = next((known for known in self._lengths if length <= known), None)
            if rows > 1 or padded is None or padded > _PADDED * (length + 1):
                return compute(sequences)
            return _run(compiled, _pad(sequences, padded - length), results)

        samples = map(_sample, self._lengths)
        for _ in mapped(compiled_or_not, samples, cores()):  # compiles
            pass
        return compiled_or_not


def _run(
    function: Callable[..., Any], sequences: Sequences, results: Sequence[str]
) -> Sequence[np.ndarray]:
    tensors = map(tf.convert_to_tensor, sequences)
    found = function(**dict(zip(MODEL_INPUTS, tensors, strict=True)))
    return [found[name].numpy() for name in results]


def _pad(sequences: Sequences, more: int) -> Sequences:
    return Sequences(*(np.pad(values, ((0, 0), (0, more))) for values in sequences))


def _sample(length: int) -> Sequences:
    shape = (1, length)
    return Sequences(np.zeros(shape, np.int32), np.ones(shape, np.int32), np.zeros(shape, np.int32))
