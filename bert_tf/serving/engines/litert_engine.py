"""LiteRT."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.export import conversion
from bert_tf.serving.engines.base import Batch, Compute, Engine, Pool, result_names, traced
from bert_tf.serving.engines.converted import ConvertedModels
from bert_tf.serving.engines.plan import Precision
from bert_tf.tasks.signatures import Computation
from pipelines.common import optional
from pipelines.tokenizers.packing import MODEL_INPUTS


class LiteRtEngine(Engine):
    """LiteRT on a CPU.

    Args:
      models: keeps the converted models.
      precision: float32 or int8.
      threads: of one computation.

    Raises:
      InputError: it is not installed.
    """

    def __init__(self, models: ConvertedModels, precision: Precision, threads: int):
        self._models, self._precision, self._threads = models, precision, threads
        self._runtime = optional.load("ai_edge_litert.interpreter", "litert")

    def load(self, name: str, computation: Computation) -> Compute:
        """See `Engine`."""
        quantized = self._precision is Precision.INT8
        path = self._models.path(
            f"{name}{'.int8' * quantized}.tflite",
            lambda: conversion.to_litert(traced(computation), quantized),
        )
        results = result_names(computation)

        def runner() -> Any:
            interpreter = self._runtime.Interpreter(path, num_threads=self._threads)
            return interpreter.get_signature_runner()

        runners = Pool(runner)

        def compute(batch: Batch) -> Sequence[np.ndarray]:
            with runners.borrowed() as run:
                found = run(**dict(zip(MODEL_INPUTS, batch, strict=True)))
                return [found[key] for key in results]

        return compute
