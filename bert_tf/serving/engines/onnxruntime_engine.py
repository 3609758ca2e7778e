"""ONNX Runtime computes."""

from collections.abc import Sequence

import numpy as np

from bert_tf.export import conversion
from bert_tf.serving.engines.base import Compute, ComputeEngine, Sequences, traced
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.names import Precision
from bert_tf.serving.engines.plans import Lane
from bert_tf.tasks.signatures import Computation
from pipelines.common import optional
from pipelines.tokenizers.packing import MODEL_INPUTS


class OnnxRuntimeEngine(ComputeEngine):
    """ONNX Runtime on a CPU.

    Args:
      models: where converted models are kept.
      lane: its threads and precision.
      at_once: computations that run at once.

    Raises:
      InputError: it is not installed.
    """

    def __init__(self, models: Converted, lane: Lane, at_once: int = 1):
        self._models, self._precision = models, lane.precision
        self._runtime = optional.load("onnxruntime", "onnx")
        self._options = self._runtime.SessionOptions()
        self._options.intra_op_num_threads = lane.threads
        # Threads that spin while they wait are told of work sooner, and take the processor from all
        # else: only where nothing else is computed.
        spinning = str(int(at_once == 1))
        self._options.add_session_config_entry("session.intra_op.allow_spinning", spinning)

    def load(self, name: str, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        path = self._models.path(f"{name}.onnx", lambda: conversion.to_onnx(traced(computation)))
        if self._precision is Precision.INT8:
            full = path
            path = self._models.path(f"{name}.int8.onnx", lambda: conversion.onnx_in_int8(full))
        session = self._runtime.InferenceSession(path, self._options, ["CPUExecutionProvider"])

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            return session.run(None, dict(zip(MODEL_INPUTS, sequences, strict=True)))

        return compute
