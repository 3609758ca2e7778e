"""OpenVINO computes."""

from collections.abc import Sequence

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

_HINTS = {Precision.FLOAT32: "f32", Precision.BFLOAT16: "bf16"}


class OpenVinoEngine(ComputeEngine):
    """OpenVINO on a CPU.

    Args:
      models: where converted models are kept.
      lane: its threads and precision.
      at_once: computations that run at once.

    Raises:
      InputError: it is not installed.
    """

    def __init__(self, models: Converted, lane: Lane, at_once: int = 1):
        self._models = models
        self._core = optional.load("openvino", "openvino").Core()
        self._settings = {
            "INFERENCE_PRECISION_HINT": _HINTS[lane.precision],
            "INFERENCE_NUM_THREADS": lane.threads * at_once,
            "NUM_STREAMS": at_once,
        }

    def load(self, name: str, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        path = self._models.path(f"{name}.onnx", lambda: conversion.to_onnx(traced(computation)))
        model = self._core.compile_model(path, "CPU", self._settings)
        names = [RESULTS.format(number) for number in range(len(computation.outputs))]
        requests = Spares(model.create_infer_request)

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            with requests.lent() as request:
                given = dict(zip(MODEL_INPUTS, sequences, strict=True))
                found = request.infer(given, share_inputs=True, share_outputs=True)
                return [found[key].copy() for key in names]

        return compute
