"""LiteRT computes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.export import conversion
from bert_tf.serving.engines.base import RESULTS, Compute, ComputeEngine, Sequences, traced
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.names import Precision
from bert_tf.serving.engines.plans import Lane
from bert_tf.serving.engines.spares import Spares
from bert_tf.tasks.signatures import Computation
from pipelines.common import optional
from pipelines.tokenizers.packing import MODEL_INPUTS


class LiteRtEngine(ComputeEngine):
    """LiteRT on a CPU.

    Args:
      models: where converted models are kept.
      lane: its threads and precision.

    Raises:
      InputError: it is not installed.
    """

    def __init__(self, models: Converted, lane: Lane):
        self._models, self._lane = models, lane
        self._runtime = optional.load("ai_edge_litert.interpreter", "litert")

    def load(self, name: str, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        quantized = self._lane.precision is Precision.INT8
        path = self._models.path(
            f"{name}{'.int8' * quantized}.tflite",
            lambda: conversion.to_litert(traced(computation), quantized),
        )
        names = [RESULTS.format(number) for number in range(len(computation.outputs))]

        def runner() -> Any:
            interpreter = self._runtime.Interpreter(path, num_threads=self._lane.threads)
            return interpreter.get_signature_runner()

        runners = Spares(runner)

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            with runners.lent() as run:
                found = run(**dict(zip(MODEL_INPUTS, sequences, strict=True)))
                return [found[key] for key in names]

        return compute
