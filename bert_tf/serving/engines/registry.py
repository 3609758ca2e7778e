"""Engines by name: a new one is a file, and a line here."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines.base import Batch, Compute, Engine
from bert_tf.serving.engines.converted import ConvertedModels
from bert_tf.serving.engines.litert_engine import LiteRtEngine
from bert_tf.serving.engines.onnxruntime_engine import OnnxRuntimeEngine
from bert_tf.serving.engines.openvino_engine import OpenVinoEngine
from bert_tf.serving.engines.plan import EngineName, Precision
from bert_tf.serving.engines.tensorflow_engine import TensorFlowEngine
from bert_tf.tasks.signatures import Computation
from pipelines.common import optional
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_Maker = Callable[[ConvertedModels, Precision, int, int], Engine]
_MAKERS: dict[EngineName, _Maker] = {
    EngineName.TENSORFLOW: lambda *_: TensorFlowEngine(),
    EngineName.ONNXRUNTIME: OnnxRuntimeEngine,
    EngineName.OPENVINO: OpenVinoEngine,
    EngineName.LITERT: lambda models, precision, threads, _: LiteRtEngine(
        models, precision, threads
    ),
}
# Modules that an engine needs and that may be missing.
_MODULES: dict[EngineName, Sequence[str]] = {
    EngineName.TENSORFLOW: (),
    EngineName.ONNXRUNTIME: ("onnxruntime", "tf2onnx"),
    EngineName.OPENVINO: ("openvino", "tf2onnx"),
    EngineName.LITERT: ("ai_edge_litert",),
}
# Engines that can multiply in less than float32.
REDUCED: dict[Precision, Sequence[EngineName]] = {
    Precision.BFLOAT16: (EngineName.TENSORFLOW, EngineName.OPENVINO),
    Precision.INT8: (EngineName.ONNXRUNTIME, EngineName.LITERT),
}
_MAX_DIFFERENCE = 1e-3  # of float32 results between engines
_SHAPES = ((1, 8), (3, 24))  # sequences and tokens for the comparison


def make(name: EngineName, models: ConvertedModels, precision: Precision, threads: int) -> Engine:
    """An engine for as many concurrent computations as there are cores for.

    Raises:
      InputError: a package that it needs is not installed.
    """
    return _MAKERS[name](models, precision, threads, max(1, cores() // threads))


def installed() -> list[EngineName]:
    """The engines that are installed."""
    return [name for name, needed in _MODULES.items() if all(map(optional.is_there, needed))]


def tensorflow_threads() -> int:
    """The threads that TensorFlow has for one computation in this process."""
    return tf.config.threading.get_intra_op_parallelism_threads() or cores()


def check_agreement(name: EngineName, precision: Precision, difference: float) -> None:
    """Checks how far an engine's results are from TensorFlow's.

    Raises:
      InputError: they are not finite, or in float32 farther away than rounding explains.
    """
    if not math.isfinite(difference):
        raise InputError(f"{name} computes NaN or infinity here; use --engine=tensorflow.")
    if precision is Precision.FLOAT32 and difference > _MAX_DIFFERENCE:
        raise InputError(
            f"{name} differs from TensorFlow by {difference:.1e} here, which rounding does not "
            "explain; use --engine=tensorflow."
        )


def difference_from_tensorflow(
    compute: Compute, computation: Computation, vocab_size: int, max_length: int
) -> float:
    """The largest difference from TensorFlow's results on random sequences.

    Returns:
      The difference relative to the largest result, at least 1; infinite if a result is not finite.
    """
    reference = TensorFlowEngine().load("reference", computation)
    rng = np.random.default_rng(0)
    worst = 0.0
    for count, tokens in _SHAPES:
        shape = (count, min(tokens, max_length))
        ids = rng.integers(0, vocab_size, shape, np.int32)
        batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids))
        for found, exact in zip(compute(batch), reference(batch), strict=True):
            if not np.issubdtype(exact.dtype, np.floating):
                continue
            if not np.isfinite(found).all():
                return math.inf
            scale = max(1.0, float(np.abs(exact).max()))
            worst = max(worst, float(np.abs(found - exact).max()) / scale)
    return worst
