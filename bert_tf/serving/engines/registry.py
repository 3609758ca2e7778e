"""Engines by name: a further one is a file, and a line here."""

import os
from collections.abc import Callable

import tensorflow as tf

from bert_tf.serving.engines.base import ComputeEngine
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.litert_engine import LiteRtEngine
from bert_tf.serving.engines.names import EngineName
from bert_tf.serving.engines.onnxruntime_engine import OnnxRuntimeEngine
from bert_tf.serving.engines.openvino_engine import OpenVinoEngine
from bert_tf.serving.engines.tensorflow_engine import TensorFlowEngine

_Maker = Callable[[Converted, int, int], ComputeEngine]
_MAKERS: dict[EngineName, _Maker] = {
    EngineName.TENSORFLOW: lambda models, threads, at_once: TensorFlowEngine(),
    EngineName.ONNXRUNTIME: lambda models, threads, at_once: OnnxRuntimeEngine(models, threads),
    EngineName.OPENVINO: OpenVinoEngine,
    EngineName.LITERT: lambda models, threads, at_once: LiteRtEngine(models, threads),
}


def make(name: EngineName, models: Converted, threads: int, at_once: int) -> ComputeEngine:
    """An engine.

    Args:
      name: which.
      models: where those that had to be converted are kept.
      threads: of one computation; TensorFlow has those of the process.
      at_once: computations that run at once.

    Raises:
      InputError: what it needs is not installed.
    """
    return _MAKERS[name](models, threads, at_once)


def threads_of_tensorflow() -> int:
    """The threads that TensorFlow has for one computation in this process."""
    return tf.config.threading.get_intra_op_parallelism_threads() or cores()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
