"""ONNX Runtime."""

from collections.abc import Sequence

import numpy as np

from bert_tf.export import conversion
from bert_tf.serving.engines.base import Batch, Compute, Engine, traced
from bert_tf.serving.engines.converted import ConvertedModels
from bert_tf.serving.engines.plan import Precision
from bert_tf.tasks.signatures import Computation
from pipelines.common import optional
from pipelines.tokenizers.packing import MODEL_INPUTS


class OnnxRuntimeEngine(Engine):
    """ONNX Runtime on a CPU.

    Args:
      models: keeps the converted models.
      precision: float32 or int8.
      threads: of one computation.
      concurrency: computations that run at once.

    Raises:
      InputError: it is not installed.
    """

    def __init__(
        self, models: ConvertedModels, precision: Precision, threads: int, concurrency: int
    ):
        self._models, self._precision = models, precision
        self._runtime = optional.load("onnxruntime", "onnx")
        self._options = self._runtime.SessionOptions()
        self._options.intra_op_num_threads = threads
        # Threads that spin while they wait notice work sooner, and take the processor from all
        # others: only where nothing else is computed.
        spinning = str(int(concurrency == 1))
        self._options.add_session_config_entry("session.intra_op.allow_spinning", spinning)

    def load(self, name: str, computation: Computation) -> Compute:
        """See `Engine`."""
        path = self._models.path(f"{name}.onnx", lambda: conversion.to_onnx(traced(computation)))
        if self._precision is Precision.INT8:
            full = path
            path = self._models.path(f"{name}.int8.onnx", lambda: conversion.onnx_in_int8(full))
        session = self._runtime.InferenceSession(path, self._options, ["CPUExecutionProvider"])

        def compute(batch: Batch) -> Sequence[np.ndarray]:
            return session.run(None, dict(zip(MODEL_INPUTS, batch, strict=True)))

        return compute
