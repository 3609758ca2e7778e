"""OpenVINO."""

from collections.abc import Sequence

import numpy as np

from bert_tf.export import conversion
from bert_tf.serving.engines.base import Batch, Compute, Engine, Pool, result_names, traced
from bert_tf.serving.engines.converted import ConvertedModels
from bert_tf.serving.engines.plan import Precision
from bert_tf.tasks.signatures import Computation
from pipelines.common import optional
from pipelines.tokenizers.packing import MODEL_INPUTS

_HINTS = {Precision.FLOAT32: "f32", Precision.BFLOAT16: "bf16"}


class OpenVinoEngine(Engine):
    """OpenVINO on a CPU.

    Args:
      models: keeps the converted models.
      precision: float32 or bfloat16.
      threads: of one computation.
      concurrency: computations that run at once.

    Raises:
      InputError: it is not installed.
    """

    def __init__(
        self, models: ConvertedModels, precision: Precision, threads: int, concurrency: int
    ):
        self._models = models
        self._core = optional.load("openvino", "openvino").Core()
        self._settings = {
            "INFERENCE_PRECISION_HINT": _HINTS[precision],
            "INFERENCE_NUM_THREADS": threads * concurrency,
            "NUM_STREAMS": concurrency,
        }

    def load(self, name: str, computation: Computation) -> Compute:
        """See `Engine`."""
        path = self._models.path(f"{name}.onnx", lambda: conversion.to_onnx(traced(computation)))
        model = self._core.compile_model(path, "CPU", self._settings)
        results = result_names(computation)
        requests = Pool(model.create_infer_request)

        def compute(batch: Batch) -> Sequence[np.ndarray]:
            with requests.borrowed() as request:
                given = dict(zip(MODEL_INPUTS, batch, strict=True))
                found = request.infer(given, share_inputs=True, share_outputs=True)
                return [found[key].copy() for key in results]

        return compute
