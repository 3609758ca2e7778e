"""Engines by name: a further one is a file, and a line here."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_tf.serving.engines.base import ComputeEngine
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.litert_engine import LiteRtEngine
from bert_tf.serving.engines.names import EngineName, Precision
from bert_tf.serving.engines.onnxruntime_engine import OnnxRuntimeEngine
from bert_tf.serving.engines.openvino_engine import OpenVinoEngine
from bert_tf.serving.engines.plans import Lane
from bert_tf.serving.engines.tensorflow_engine import TensorFlowEngine
from pipelines.common import optional
from pipelines.common.threads import cores

_Maker = Callable[[Converted, Lane, int], ComputeEngine]
_MAKERS: dict[EngineName, _Maker] = {
    EngineName.TENSORFLOW: lambda models, lane, at_once: TensorFlowEngine(lane),
    EngineName.ONNXRUNTIME: OnnxRuntimeEngine,
    EngineName.OPENVINO: OpenVinoEngine,
    EngineName.LITERT: lambda models, lane, at_once: LiteRtEngine(models, lane),
}
# What each needs that may be missing.
_MODULES: dict[EngineName, Sequence[str]] = {
    EngineName.TENSORFLOW: (),
    EngineName.ONNXRUNTIME: ("onnxruntime", "tf2onnx"),
    EngineName.OPENVINO: ("openvino", "tf2onnx"),
    EngineName.LITERT: ("ai_edge_litert",),
}
# What each can multiply in, float32 aside.
REDUCED: dict[Precision, Sequence[EngineName]] = {
    Precision.BFLOAT16: (EngineName.TENSORFLOW, EngineName.OPENVINO),
    Precision.INT8: (EngineName.ONNXRUNTIME, EngineName.LITERT),
}


def make(models: Converted, lane: Lane, at_once: int) -> ComputeEngine:
    """An engine.

    Args:
      models: where those that had to be converted are kept.
      lane: the engine, and its threads.
      at_once: computations that run at once.

    Raises:
      InputError: what it needs is not installed.
    """
    return _MAKERS[lane.engine](models, lane, at_once)


def installed() -> list[EngineName]:
    """The engines that can be had here."""
    return [name for name, needed in _MODULES.items() if all(map(optional.is_there, needed))]


def threads_of_tensorflow() -> int:
    """The threads that TensorFlow has for one computation in this process."""
    return tf.config.threading.get_intra_op_parallelism_threads() or cores()
